/* native says in one sentence what it can't do, and releases everything.
 *
 * Covers: native/open.c shm.c */
#include <unistd.h>

#include "sdk/base/shm.h"
#include "sdk/transport/transport.h"
#include "tests/check.h"

static const rg__member_id member[2] = {{1, 0, 1}, {1, 1, 1}};

static rg__boot boot_of(int fd)
{
    return (rg__boot){.size = 2,
                      .local_size = 2,
                      .generation = 1,
                      .member = member,
                      .control_fd = fd,
                      .control_bytes = rg__shm_control_bytes(2, RG__SETS_MAX)};
}

static void check_refused(const rg__boot *boot, rg_status st, const char *words)
{
    rg__comm *comm = NULL;
    CHECK_STATUS(rg__transport_native.open(boot, &comm), st);
    CHECK(comm == NULL);
    if (strstr(rg_last_error(), words) == NULL)
        CHECK_FAIL("\"%s\" is not in \"%s\"", words, rg_last_error());
}

int main(void)
{
    int fd = -1;
    CHECK_OK(rg__shm_create("control", rg__shm_control_bytes(2, RG__SETS_MAX),
                            false, &fd));

    rg__boot boot = boot_of(fd);
    boot.local_size = 1;
    check_refused(&boot, RG_ERR_UNSUPPORTED, "1 workers of this host");

    boot = boot_of(fd);
    boot.rank = 2;
    check_refused(&boot, RG_ERR_INVALID, "rank 2 of 2");

    boot = boot_of(fd);
    boot.control_bytes /= 2;
    check_refused(&boot, RG_ERR_INVALID, "control segment");

    int small = -1;
    CHECK_OK(rg__shm_create("small", 4096, false, &small));
    boot = boot_of(small); /* it lies about its size */
    check_refused(&boot, RG_ERR_SYSTEM, "smaller or not sealed");

    boot = boot_of(fd);
    rg__comm *world = NULL, *set = NULL;
    const int others[1] = {1}, outside[2] = {0, 2}, both[2] = {1, 0};
    boot.sets = 1; /* the world alone */
    boot.control_bytes = rg__shm_control_bytes(2, 1);
    CHECK_OK(rg__transport_native.open(&boot, &world));
    CHECK_STATUS(rg__transport_native.split(world, both, 2, 1, &set),
                 RG_ERR_INVALID);
    rg__transport_native.close(world);

    boot = boot_of(fd);
    CHECK_OK(rg__transport_native.open(&boot, &world));
    CHECK_STATUS(rg__transport_native.split(world, others, 1, 1, &set),
                 RG_ERR_INVALID);
    CHECK_STATUS(rg__transport_native.split(world, outside, 2, 1, &set),
                 RG_ERR_INVALID);
    CHECK_STATUS(rg__transport_native.split(world, both, 2, RG__SETS_MAX, &set),
                 RG_ERR_INVALID);
    CHECK_OK(rg__transport_native.split(world, both, 2, 1, &set));
    const rg__coll far = {.kind = RG__BROADCAST, .root = 2};
    CHECK_STATUS(rg__transport_native.start(set, &far), RG_ERR_INVALID);
    const rg__coll barrier = {.kind = RG__BARRIER};
    CHECK_OK(rg__transport_native.start(set, &barrier));
    rg__transport_native.close(set); /* with the barrier in flight */
    rg__transport_native.close(world);
    close(small);
    close(fd);
    return 0;
}
