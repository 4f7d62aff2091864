/* CLOCK_MONOTONIC in nanoseconds: the only clock that decides anything. */
#ifndef RG_BASE_CLOCK_H
#define RG_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define RG__MS UINT64_C(1000000)

static inline uint64_t rg__now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 * RG__MS + (uint64_t)t.tv_nsec;
}

/* When so many milliseconds are over; below 0: never. */
static inline uint64_t rg__deadline_ns(int timeout_ms)
{
    return timeout_ms < 0 ? UINT64_MAX
                          : rg__now_ns() + (uint64_t)timeout_ms * RG__MS;
}

/* The same to a few milliseconds, and in 3 ns. */
static inline uint64_t rg__coarse_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (uint64_t)t.tv_sec * 1000 * RG__MS + (uint64_t)t.tv_nsec;
}

static inline struct timespec rg__timespec(uint64_t ns)
{
    return (struct timespec){(time_t)(ns / (1000 * RG__MS)),
                             (long)(ns % (1000 * RG__MS))};
}

/* A signal may end it early. */
static inline void rg__sleep_ns(uint64_t ns)
{
    const struct timespec t = rg__timespec(ns);
    nanosleep(&t, NULL);
}

/* CLOCK_REALTIME in milliseconds, for people to read. */
static inline int64_t rg__wall_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

#endif
