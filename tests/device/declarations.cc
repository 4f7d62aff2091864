/* Compiled, never run: each of our declarations beside the real one. Arguments
 * must be as many, and in each place both pointers or equally large. */
#include <cstddef>
#include <tuple>
#include <type_traits>

#include "sdk/transport/nccl/api.h"

#include <cuda.h>
#include <nccl.h>

template <class A, class B> constexpr bool alike()
{
    return std::is_pointer<A>::value == std::is_pointer<B>::value &&
           std::is_class<A>::value == std::is_class<B>::value &&
           sizeof(A) == sizeof(B);
}

template <class A, class B> struct fits : std::false_type {};
template <class R, class... A, class S, class... B>
struct fits<R (*)(A...), S (*)(B...)> {
    template <class T, class U> struct each : std::false_type {};
    template <class... T, class... U>
    struct each<std::tuple<T...>, std::tuple<U...>> {
        static constexpr bool value = (alike<T, U>() && ...);
    };
    static constexpr bool of_one_length()
    {
        if constexpr (sizeof...(A) == sizeof...(B))
            return each<std::tuple<A...>, std::tuple<B...>>::value;
        return false;
    }
    static constexpr bool value = alike<R, S>() && of_one_length();
};

#define CUDA(need, type, member, symbol, arguments)                            \
    static_assert(fits<decltype(rg__cuda::member), decltype(&symbol)>::value,  \
                  #symbol);
RG__CUDA_CALLS(CUDA)

#define NCCL(need, type, member, symbol, arguments)                            \
    static_assert(fits<decltype(rg__nccl::member), decltype(&symbol)>::value,  \
                  #symbol);
RG__NCCL_CALLS(NCCL)

#define CUDA_RESULT(name, value) static_assert(CUDA_##name == (value), #name);
RG__CU_RESULTS(CUDA_RESULT)
#define CUDA_CONSTANT(name, value) static_assert(CU_##name == (value), #name);
RG__CU_CONSTANTS(CUDA_CONSTANT)
#define NCCL_CONSTANT(name, value) static_assert(nccl##name == (value), #name);
RG__NCCL_RESULTS(NCCL_CONSTANT)
RG__NCCL_CONSTANTS(NCCL_CONSTANT)

static_assert(sizeof(rg__nccl_id) == sizeof(ncclUniqueId), "id");
static_assert(RG__NCCL_UNSET == NCCL_CONFIG_UNDEF_INT, "unset");

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
#define FIELD(ours, theirs)                                                    \
    static_assert(offsetof(rg__nccl_config, ours) ==                           \
                      offsetof(ncclConfig_t, theirs),                          \
                  #theirs);
FIELD(size, size)
FIELD(magic, magic)
FIELD(version, version)
FIELD(blocking, blocking)
FIELD(cga_cluster_size, cgaClusterSize)
FIELD(min_ctas, minCTAs)
FIELD(max_ctas, maxCTAs)
FIELD(net_name, netName)
FIELD(split_share, splitShare)
FIELD(traffic_class, trafficClass)
FIELD(comm_name, commName)
FIELD(collnet_enable, collnetEnable)
FIELD(cta_policy, CTAPolicy)
FIELD(shrink_share, shrinkShare)
FIELD(nvls_ctas, nvlsCTAs)
FIELD(channels_per_net_peer, nChannelsPerNetPeer)
FIELD(nvlink_centric_sched, nvlinkCentricSched)
static_assert(sizeof(rg__nccl_config) <= sizeof(ncclConfig_t), "config");
#endif
