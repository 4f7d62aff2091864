/* The world of one: every collective returns the data that it was given.
 *
 * Covers: self.c */
#include "sdk/transport/transport.h"
#include "tests/check.h"

#define LARGE (3 * RG__WORK_BYTES + 5)

static void run(rg__comm *comm, const rg__coll *coll)
{
    CHECK_OK(comm->transport->start(comm, coll));
    rg_status st = RG_IN_PROGRESS;
    int calls = 0;
    while (st == RG_IN_PROGRESS) {
        const uint64_t before = comm->moves;
        st = comm->transport->test(comm);
        CHECK(comm->moves != before);
        CHECK(++calls < 100);
    }
    CHECK_OK(st);
}

int main(void)
{
    static char send[LARGE], recv[LARGE];
    const rg__member_id me = {1, 0, 1};
    rg__boot boot = {
        .size = 1, .local_size = 1, .generation = 1, .member = &me};
    rg__comm *comm = NULL, *set = NULL;
    CHECK_OK(rg__transport_self.open(&boot, &comm));
    CHECK(rg__transport_self.bell(comm) == NULL);
    memset(send, 9, sizeof send);

    rg__coll coll = {.kind = RG__ALLREDUCE,
                     .type = RG_U8,
                     .op = RG_AVG,
                     .count = LARGE,
                     .send = send,
                     .recv = recv};
    run(comm, &coll);
    CHECK(memcmp(send, recv, LARGE) == 0);

    coll.kind = RG__ALLGATHER;
    memset(recv, 0, sizeof recv);
    run(comm, &coll);
    CHECK(memcmp(send, recv, LARGE) == 0);

    coll.kind = RG__BROADCAST;
    coll.send = NULL;
    run(comm, &coll);
    CHECK_EQ(recv[LARGE - 1], 9);

    coll = (rg__coll){.kind = RG__BARRIER};
    run(comm, &coll);

    const int rank = 0, other = 1;
    CHECK_STATUS(rg__transport_self.split(comm, &other, 1, 1, &set),
                 RG_ERR_INVALID);
    CHECK_OK(rg__transport_self.split(comm, &rank, 1, 1, &set));
    run(set, &coll);
    rg__transport_self.close(set);
    rg__transport_self.close(comm);
    boot.size = 2;
    CHECK_STATUS(rg__transport_self.open(&boot, &comm), RG_ERR_UNSUPPORTED);
    return 0;
}
