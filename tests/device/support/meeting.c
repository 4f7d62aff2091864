/* How communicators begin: ranks that meet through an id, or a split. */
#include "tests/device/support/comm.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---------------------------------------------------------------- all are here
 */

static bool may_go(rg__nccl_comm c, void *arg)
{
    (void)arg;
    return atomic_load(&c->segment->may_go);
}

static bool all_are_here(rg__nccl_comm c, void *arg)
{
    (void)arg;
    for (int r = 0; r < c->n; r++)
        if (!atomic_load(&c->segment->seat[r].here))
            return false;
    return true;
}

static bool all_are_ready(rg__nccl_comm c, void *arg)
{
    (void)arg;
    for (int r = 0; r < c->n; r++)
        if (!atomic_load(&c->segment->seat[r].ready))
            return false;
    return true;
}

static void introduce_myself(rg__nccl_comm c)
{
    fake_seat *own = fake_own_seat(c);
    const char *host = getenv("NCCL_HOSTID");
    own->version = fake_version();
    fake_device_bus(c->device, own->bus, sizeof own->bus);
    if (host)
        snprintf(own->host, sizeof own->host, "%s", host);
    else
        gethostname(own->host, sizeof own->host - 1);
    atomic_store(&own->here, 1);
    fake_ring(c);
}

static bool share_a_device(const fake_seat *a, const fake_seat *b)
{
    return strcmp(a->bus, b->bus) == 0 && strcmp(a->host, b->host) == 0;
}

static int look_at_others(rg__nccl_comm c)
{
    const fake_seat *own = fake_own_seat(c), *seat = c->segment->seat;
    for (int r = 0; r < c->n; r++) {
        if (seat[r].version != own->version) {
            fake_tell("Mismatched NCCL version detected : rank %d %d rank %d "
                      "%d",
                      c->rank, own->version, r, seat[r].version);
            return RG__NCCL_InvalidUsage;
        }
        if (r != c->rank && share_a_device(&seat[r], own)) {
            fake_tell("Duplicate GPU detected : rank %d and rank %d both on "
                      "CUDA device %s",
                      c->rank, r, own->bus);
            return RG__NCCL_InvalidUsage;
        }
    }
    return RG__NCCL_Success;
}

/* When the last one is ready, no rank needs the path any more. */
static int become_ready(rg__nccl_comm c)
{
    atomic_store(&fake_own_seat(c)->ready, 1);
    if (atomic_fetch_add(&c->segment->ready, 1) + 1 == c->n)
        unlink(c->path);
    fake_ring(c);
    return fake_await(c, all_are_ready, NULL) ? RG__NCCL_Success
                                              : RG__NCCL_InternalError;
}

static int meet(rg__nccl_comm c)
{
    introduce_myself(c);
    if (!fake_await(c, all_are_here, NULL))
        return RG__NCCL_InternalError;
    const int rc = look_at_others(c);
    return rc == RG__NCCL_Success ? become_ready(c) : rc;
}

/* ------------------------------------------------------------------------ boot
 */

/* What the script wants of `init` or `split`: never, late, die, fails. */
static int act(rg__nccl_comm c, const char *event)
{
    fake_fault f;
    const fake_where where = fake_where_of(c, -1);
    if (!fake_script(event, &where, &f))
        return RG__NCCL_Success;
    if (strcmp(f.verdict, "never") == 0)
        fake_await_abort(c);
    else if (strcmp(f.verdict, "late") == 0)
        fake_await_ms(c, f.ms);
    else if (strcmp(f.verdict, "die") == 0)
        kill(getpid(), SIGKILL);
    else if (strcmp(f.verdict, "fails") == 0)
        return f.rc;
    return atomic_load(&c->is_aborted) ? RG__NCCL_InternalError
                                       : RG__NCCL_Success;
}

int fake_boot(rg__nccl_comm c, const rg__nccl_id *id)
{
    fake_path_of_id(id, c->path, sizeof c->path);
    int rc = act(c, "init");
    if (rc == RG__NCCL_Success)
        rc = fake_check_in(c, id);
    if (rc == RG__NCCL_Success)
        rc = fake_sit_down(c);
    if (rc == RG__NCCL_Success && !fake_await(c, may_go, NULL))
        rc = RG__NCCL_InternalError;
    return rc == RG__NCCL_Success ? meet(c) : rc;
}

/* ----------------------------------------------------------------------- split
 */

static bool all_split(rg__nccl_comm c, void *arg)
{
    (void)arg;
    for (int r = 0; r < c->n; r++)
        if (atomic_load(&c->segment->seat[r].splits) < c->splits)
            return false;
    return true;
}

static void enter_split(rg__nccl_comm c, int color, int key)
{
    fake_seat *own = fake_own_seat(c);
    c->splits++;
    own->split[c->splits % 2].color = color;
    own->split[c->splits % 2].key = key;
    atomic_store(&own->splits, c->splits);
    fake_ring(c);
}

/* Members of the same color, by key and then by rank. */
static void find_place(rg__nccl_comm c, int color, int key, int *rank_p,
                       int *n_p)
{
    *rank_p = *n_p = 0;
    for (int r = 0; r < c->n; r++) {
        const fake_seat *seat = &c->segment->seat[r];
        if (seat->split[c->splits % 2].color != color)
            continue;
        const int other = seat->split[c->splits % 2].key;
        *n_p += 1;
        *rank_p += other < key || (other == key && r < c->rank);
    }
}

static rg__nccl_comm make_child(rg__nccl_comm c, int color, int key,
                                const rg__nccl_config *config)
{
    rg__nccl_comm child = fake_comm_new(c->number, fake_is_blocking(config));
    find_place(c, color, key, &child->rank, &child->n);
    child->device = c->device;
    child->parent = c;
    const int length = snprintf(child->path, sizeof child->path, "%.500s.%d.%d",
                                c->path, c->splits, color);
    if (length >= (int)sizeof child->path)
        fake_violation("%s is too long a path", c->path);
    return child;
}

int fake_split(rg__nccl_comm c, int color, int key, rg__nccl_comm *child_p,
               const rg__nccl_config *config)
{
    int rc = act(c, "split");
    if (rc != RG__NCCL_Success)
        return rc;
    enter_split(c, color, key);
    if (!fake_await(c, all_split, NULL))
        return RG__NCCL_InternalError;
    if (color < 0)
        return RG__NCCL_Success;
    rg__nccl_comm child = make_child(c, color, key, config);
    rc = fake_sit_down(child);
    if (rc == RG__NCCL_Success)
        rc = meet(child);
    child->parent = NULL;
    if (rc == RG__NCCL_Success) {
        __atomic_store_n(child_p, child, __ATOMIC_RELEASE);
        return rc;
    }
    fake_comm_mark(child);
    fake_comms_reclaim(&child, 1);
    return rc;
}
