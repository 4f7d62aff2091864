/* Regroup for C++17: regroup.h with owners, spans and exceptions, header only.
 *
 *     regroup::context ctx(regroup::elastic);
 *     regroup::state state(ctx);
 *     state.add("weights", weights);
 *     state.run([&] {
 *         while (step < 200) {
 *             ctx.world().allreduce(gradient, RG_AVG);
 *             apply(gradient);
 *             step++;
 *             state.commit();
 *         }
 *     });
 *
 * Errors:    a status that is an error is thrown as regroup::error, where the
 *            call was made. hosts_changed and peer_lost, which are both
 *            regroup::change, leave the function of run and are part of its
 *            loop: catch them only to throw them again.
 * Boundary:  no exception passes through a frame of the C library: one that
 *            leaves the function of run is kept, becomes a status, and is
 *            thrown again by run.
 * Ownership: an owner is moved, not copied, and its destructor gives back what
 *            it owns. That throws nothing, since a destructor can't.
 * Threads:   as in regroup.h.
 */
#ifndef REGROUP_HPP
#define REGROUP_HPP

#include "regroup/regroup.h"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace regroup {

/* ---------------------------------------------------------------- errors */

/* A status that is an error, with the sentence of its cause. */
class error : public std::runtime_error {
  public:
    error(rg_status status, const std::string &sentence)
        : std::runtime_error(sentence), status_(status)
    {
    }
    rg_status status() const noexcept
    {
        return status_;
    }
    rg_advice advice() const noexcept
    {
        return rg_status_advice(status_);
    }

  private:
    rg_status status_;
};

/* Leave the function of run: it is called again in the next generation. */
class change : public error {
    using error::error;
};
class hosts_changed : public change { /* nothing is lost */
    using change::change;
};
class peer_lost : public change { /* memory goes back to the last commit */
    using change::change;
};
class asked_to_leave : public error { /* end the process, with 0 */
    using error::error;
};
class mismatch : public error { /* ranks disagree; the set stays usable */
    using error::error;
};

/* Throw the status of this thread's last call unless it is RG_OK. */
inline void check(rg_status st)
{
    switch (st) {
    case RG_OK:
        return;
    case RG_ERR_HOSTS_CHANGED:
        throw hosts_changed(st, rg_last_error());
    case RG_ERR_PEER_LOST:
        throw peer_lost(st, rg_last_error());
    case RG_ERR_ASKED_TO_LEAVE:
        throw asked_to_leave(st, rg_last_error());
    case RG_ERR_MISMATCH:
        throw mismatch(st, rg_last_error());
    default:
        throw error(st, rg_last_error());
    }
}

/* ----------------------------------------------------------------- spans */

/* The rg_type of an element; other types do not compile. */
template <class T> constexpr rg_type type_of() noexcept
{
    static_assert(std::is_arithmetic_v<T> && sizeof(T) <= 8 &&
                      !(std::is_integral_v<T> && sizeof(T) == 2) &&
                      !std::is_same_v<T, long double>,
                  "Regroup has no such type of element");
    if constexpr (std::is_same_v<T, bool>)
        return RG_BOOL;
    else if constexpr (std::is_floating_point_v<T>)
        return sizeof(T) == 4 ? RG_F32 : RG_F64;
    else if constexpr (std::is_signed_v<T>)
        return sizeof(T) == 1 ? RG_I8 : sizeof(T) == 4 ? RG_I32 : RG_I64;
    else
        return sizeof(T) == 1 ? RG_U8 : sizeof(T) == 4 ? RG_U32 : RG_U64;
}

/* Contiguous elements, borrowed: made from a vector, an array, a std::span, a
 * pointer and a count, or one element. */
template <class T> class span {
  public:
    span() = default;
    span(T *data, std::size_t size) noexcept : data_(data), size_(size)
    {
    }
    span(T &one) noexcept : data_(&one), size_(1)
    {
    }
    template <std::size_t N>
    span(T (&array)[N]) noexcept : data_(array), size_(N)
    {
    }
    template <class C, class = std::enable_if_t<std::is_convertible_v<
                           decltype(std::declval<C &>().data()), T *>>>
    span(C &&container) noexcept
        : data_(container.data()), size_(container.size())
    {
    }
    T *data() const noexcept
    {
        return data_;
    }
    std::size_t size() const noexcept
    {
        return size_;
    }
    std::size_t bytes() const noexcept
    {
        return size_ * sizeof(T);
    }

  private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

/* What a container holds, const or not. */
template <class C>
using element_of = std::remove_pointer_t<decltype(std::declval<C &>().data())>;
template <class C, class = void> struct has_data : std::false_type {
};
template <class C>
struct has_data<C, std::void_t<element_of<C>,
                               decltype(std::declval<C &>().size())>>
    : std::true_type {
};

/* -------------------------------------------------------------- requests */

/* An operation in flight. Its buffers belong to Regroup until it has completed,
 * so the destructor waits for it. */
class request {
  public:
    request() = default;
    explicit request(rg_req *req) noexcept : req_(req)
    {
    }
    request(request &&other) noexcept : req_(std::exchange(other.req_, nullptr))
    {
    }
    request &operator=(request &&other) noexcept
    {
        request gone(std::move(*this));
        req_ = std::exchange(other.req_, nullptr);
        return *this;
    }
    request(const request &) = delete;
    request &operator=(const request &) = delete;
    ~request()
    {
        if (req_ != nullptr)
            rg_wait(&req_, -1);
    }
    /* Wait; the operation's error is thrown here. */
    void wait()
    {
        if (req_ != nullptr)
            check(rg_wait(&req_, -1));
    }
    /* False: it is still in flight after this many milliseconds. */
    bool wait_for(int timeout_ms)
    {
        if (req_ == nullptr)
            return true;
        const rg_status st = rg_wait(&req_, timeout_ms);
        if (st == RG_IN_PROGRESS)
            return false;
        check(st);
        return true;
    }
    bool in_flight() const noexcept
    {
        return req_ != nullptr;
    }

  private:
    rg_req *req_ = nullptr;
};

/* Wait for all requests; the first error is thrown when none is in flight. */
inline void wait_all(std::vector<request> &requests)
{
    std::exception_ptr first;
    for (request &one : requests)
        try {
            one.wait();
        } catch (...) {
            first = first ? first : std::current_exception();
        }
    if (first)
        std::rethrow_exception(first);
}

/* ------------------------------------------------------------------ sets */

/* A process set; borrowed, such as the world, or owned. */
class set {
  public:
    set() = default;
    static set borrowed(rg_set *handle) noexcept
    {
        return set(handle, false);
    }
    static set owned(rg_set *handle) noexcept
    {
        return set(handle, true);
    }
    set(set &&other) noexcept
        : set_(std::exchange(other.set_, nullptr)), is_owned_(other.is_owned_)
    {
    }
    set &operator=(set &&other) noexcept
    {
        set gone(std::move(*this));
        set_ = std::exchange(other.set_, nullptr);
        is_owned_ = other.is_owned_;
        return *this;
    }
    set(const set &) = delete;
    set &operator=(const set &) = delete;
    ~set()
    {
        if (is_owned_ && set_ != nullptr)
            rg_set_destroy(set_);
    }

    rg_set *get() const noexcept
    {
        return set_;
    }
    int rank() const noexcept
    {
        return rg_set_rank(set_);
    }
    int size() const noexcept
    {
        return rg_set_size(set_);
    }
    std::string name() const
    {
        return rg_set_name(set_);
    }

    /* In place; a container, an array, or one element. */
    template <class T> void allreduce(T &&data, rg_op op = RG_SUM) const
    {
        const auto all = as_span(data);
        check(rg_allreduce(set_, all.data(), all.data(), all.size(),
                           type_in(all), op));
    }
    template <class T>
    [[nodiscard]] request start_allreduce(T &&data, rg_op op = RG_SUM,
                                          const rg_op_params *params =
                                              nullptr) const
    {
        const auto all = as_span(data);
        rg_req *req = nullptr;
        check(rg_allreduce_start(set_, all.data(), all.data(), all.size(),
                                 type_in(all), op, params, &req));
        return request(req);
    }
    template <class T> void broadcast(T &&data, int root = 0) const
    {
        const auto all = as_span(data);
        check(rg_broadcast(set_, all.data(), all.size(), type_in(all), root));
    }
    template <class T> void reduce(T &&data, rg_op op = RG_SUM,
                                   int root = 0) const
    {
        const auto all = as_span(data);
        check(rg_reduce(set_, all.data(), all.data(), all.size(), type_in(all),
                        op, root));
    }
    /* The elements of all ranks, in the order of their ranks. */
    template <class T> auto allgather(const T &data) const
    {
        const auto mine = as_span(data);
        using element = std::remove_const_t<
            std::remove_pointer_t<decltype(mine.data())>>;
        std::vector<element> all(mine.size() *
                                 static_cast<std::size_t>(size()));
        check(rg_allgather(set_, mine.data(), all.data(), mine.size(),
                           type_of<element>()));
        return all;
    }
    template <class T> void send(const T &data, int peer,
                                 std::uint64_t tag = 0) const
    {
        const auto all = as_span(data);
        check(rg_send(set_, all.data(), all.size(), type_in(all), peer, tag));
    }
    /* Returns how many elements arrived. */
    template <class T> std::uint64_t recv(T &&data, int peer,
                                          std::uint64_t tag = 0) const
    {
        const auto all = as_span(data);
        std::uint64_t count = 0;
        check(rg_recv(set_, all.data(), all.size(), type_in(all), peer, tag,
                      &count));
        return count;
    }
    void barrier() const
    {
        check(rg_barrier(set_));
    }

  private:
    set(rg_set *handle, bool is_owned) noexcept
        : set_(handle), is_owned_(is_owned)
    {
    }
    template <class T> static auto as_span(T &data)
    {
        if constexpr (std::is_array_v<T>)
            return span<std::remove_extent_t<T>>(data);
        else if constexpr (std::is_arithmetic_v<std::remove_const_t<T>>)
            return span<T>(data);
        else
            return span<element_of<T>>(data.data(), data.size());
    }
    template <class T> static constexpr rg_type type_in(const span<T> &) noexcept
    {
        return type_of<std::remove_const_t<T>>();
    }

    rg_set *set_ = nullptr;
    bool is_owned_ = false;
};

/* --------------------------------------------------------------- context */

enum kind { fixed, elastic };

/* This process in its job; the destructor calls rg_finalize. It must outlive
 * the sets and the state that are made from it. */
class context {
  public:
    explicit context(kind how = fixed)
    {
        rg_params params{};
        params.size = sizeof params;
        params.elastic = how == elastic;
        check(rg_init(&params, &ctx_));
    }
    context(context &&other) noexcept : ctx_(std::exchange(other.ctx_, nullptr))
    {
    }
    context &operator=(context &&) = delete;
    context(const context &) = delete;
    context &operator=(const context &) = delete;
    ~context()
    {
        rg_finalize(ctx_);
    }
    rg_ctx *get() const noexcept
    {
        return ctx_;
    }
    int rank() const noexcept
    {
        return rg_rank(ctx_);
    }
    int size() const noexcept
    {
        return rg_size(ctx_);
    }
    int local_rank() const noexcept
    {
        return rg_local_rank(ctx_);
    }
    int slot() const noexcept
    {
        return rg_slot(ctx_);
    }
    std::uint64_t generation() const noexcept
    {
        return rg_generation(ctx_);
    }
    set world() const noexcept
    {
        return set::borrowed(rg_world(ctx_));
    }
    /* Collective over the world, as rg_set_create. */
    set make_set(const std::vector<int> &ranks, const char *name = nullptr) const
    {
        rg_set_params params{};
        params.size = sizeof params;
        params.name = name;
        rg_set *made = nullptr;
        check(rg_set_create(ctx_, ranks.data(), static_cast<int>(ranks.size()),
                            &params, &made));
        return set::owned(made);
    }
    set split(int color, int key = 0, const char *name = nullptr) const
    {
        rg_set_params params{};
        params.size = sizeof params;
        params.name = name;
        rg_set *made = nullptr;
        check(rg_set_split(ctx_, color, key, &params, &made));
        return set::owned(made);
    }
    /* Elements, zeroed, that workers of this host share without copies. */
    template <class T> auto alloc(std::size_t count) const
    {
        static_assert(std::is_trivial_v<T>, "rg_alloc memory is plain");
        void *made = nullptr;
        check(rg_alloc(ctx_, count * sizeof(T), nullptr, &made));
        rg_ctx *from = ctx_;
        const auto give_back = [from](T *p) { rg_free(from, p); };
        return std::unique_ptr<T[], decltype(give_back)>(
            static_cast<T *>(made), give_back);
    }

  private:
    rg_ctx *ctx_ = nullptr;
};

/* Collectives that are called while a group lives start together when commit is
 * called; without that call none of them starts. */
class group {
  public:
    explicit group(const context &ctx) : ctx_(ctx.get())
    {
        check(rg_group_start(ctx_));
    }
    group(const group &) = delete;
    group &operator=(const group &) = delete;
    void commit()
    {
        check(rg_group_end(std::exchange(ctx_, nullptr)));
    }
    ~group()
    {
        if (ctx_ == nullptr)
            return;
        rg_barrier_start(rg_world(ctx_), nullptr, nullptr); /* spoils it */
        rg_group_end(ctx_);
    }

  private:
    rg_ctx *ctx_;
};

/* ----------------------------------------------------------------- state */

/* Registered memory, and the elastic loop over it. */
class state {
  public:
    explicit state(const context &ctx)
    {
        check(rg_state_create(ctx.get(), nullptr, &state_));
    }
    state(const state &) = delete;
    state &operator=(const state &) = delete;
    ~state()
    {
        rg_state_destroy(state_);
    }
    rg_state *get() const noexcept
    {
        return state_;
    }
    /* A container whose size does not change, what a span shows, or one plain
     * object; borrowed until the state is destroyed. */
    template <class T>
    void add(const char *name, T &data,
             const rg_buffer_params *params = nullptr)
    {
        if constexpr (has_data<T>::value) {
            static_assert(std::is_trivially_copyable_v<element_of<T>>,
                          "registered memory is copied byte by byte");
            check(rg_state_add(state_, name, data.data(),
                               data.size() * sizeof *data.data(), params));
        } else {
            static_assert(std::is_trivially_copyable_v<T> &&
                              !std::is_pointer_v<T>,
                          "give a container, a span, or one plain object");
            check(rg_state_add(state_, name, &data, sizeof data, params));
        }
    }
    void commit()
    {
        judge(rg_state_commit(state_));
    }
    void step_end()
    {
        judge(rg_step_end(state_));
    }
    void stop()
    {
        check(rg_stop(state_));
    }
    /* A number of this step; all ranks give the same metrics. */
    void metric(const char *name, double value, rg_op op = RG_AVG)
    {
        check(rg_metric(state_, name, value, op));
    }
    std::uint64_t step() const noexcept
    {
        return rg_state_step(state_);
    }
    /* Called with each step that counts. What it throws is thrown by the call
     * that ended the step, or by run. */
    void on_commit(std::function<void(std::uint64_t)> function)
    {
        on_commit_ = std::move(function);
        check(rg_state_on_commit(state_, told, this));
    }
    /* rg_run. An exception that leaves the function and is no change of
     * membership ends the loop, and is thrown here. */
    void run(const std::function<void()> &function)
    {
        call called{this, &function};
        thrown_ = nullptr;
        judge(rg_run(state_, train, &called));
    }

  private:
    struct call {
        state *self;
        const std::function<void()> *function;
    };

    /* An exception that was kept goes before the status. */
    void judge(rg_status st)
    {
        if (thrown_)
            std::rethrow_exception(std::exchange(thrown_, nullptr));
        check(st);
    }

    /* The boundary: what is thrown here becomes a status. */
    static rg_status train(rg_state *, void *arg) noexcept
    {
        const call *called = static_cast<call *>(arg);
        try {
            called->self->judge(RG_OK);
            (*called->function)();
            return RG_OK;
        } catch (const change &found) {
            return found.status();
        } catch (const error &found) {
            called->self->thrown_ = std::current_exception();
            return found.advice() == RG_ADVICE_ABORT ? found.status()
                                                     : RG_ERR_INVALID;
        } catch (...) {
            called->self->thrown_ = std::current_exception();
            return RG_ERR_INVALID;
        }
    }
    static void told(rg_state *, std::uint64_t step, void *arg) noexcept
    {
        state *self = static_cast<state *>(arg);
        try {
            self->on_commit_(step);
        } catch (...) {
            self->thrown_ =
                self->thrown_ ? self->thrown_ : std::current_exception();
        }
    }

    rg_state *state_ = nullptr;
    std::function<void(std::uint64_t)> on_commit_;
    std::exception_ptr thrown_;
};

/* What main should return for an error that it has caught. */
inline int exit_code(const error &caught) noexcept
{
    return rg_exit_code(caught.status());
}

} // namespace regroup
#endif
