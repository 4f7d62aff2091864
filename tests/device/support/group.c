/* Groups, which belong to a thread: what stands between start and end is
 * launched, and what was aborted is freed, when the outermost one ends. */
#include "tests/device/support/comm.h"

#include <stdlib.h>

#define OPS_MAX    4096
#define ABORTS_MAX 256
#define TOGETHER   22200 /* before, an abort frees at once, also in a group */

static _Thread_local struct {
    int depth;
    fake_op *op;
    int ops;
    rg__nccl_comm aborted[ABORTS_MAX];
    int aborts;
} group;

int fake_group_start(void)
{
    group.depth++;
    return RG__NCCL_Success;
}

int fake_group_add(const fake_op *op)
{
    if (!group.op)
        group.op = malloc(OPS_MAX * sizeof *group.op);
    if (group.ops == OPS_MAX)
        fake_violation("a group has more than %d operations", OPS_MAX);
    group.op[group.ops++] = *op;
    return RG__NCCL_Success;
}

int fake_group_abort(rg__nccl_comm c)
{
    const bool frees = group.depth == 0 || fake_version() < TOGETHER;
    if (frees) /* the mark lets a launch go that is blocked */
        fake_comm_look_inside(c);
    fake_comm_mark(c);
    if (frees)
        fake_comms_reclaim(&c, 1);
    else if (group.aborts < ABORTS_MAX)
        group.aborted[group.aborts++] = c;
    else
        fake_violation("a group aborts more than %d communicators", ABORTS_MAX);
    return RG__NCCL_Success;
}

/* --------------------------------------------------------------------- launch
 */

static bool is_collective(const fake_op *op)
{
    return op->call.kind != FAKE_SEND && op->call.kind != FAKE_RECV;
}

static bool all_are_connected(rg__nccl_comm c, void *arg)
{
    (void)arg;
    for (int r = 0; r < c->n; r++)
        if (!atomic_load(&c->segment->seat[r].is_connected))
            return false;
    return true;
}

/* The first collective connects, which blocks until every member is there. */
static int connect_all(rg__nccl_comm c)
{
    if (c->is_connected)
        return RG__NCCL_Success;
    atomic_store(&fake_own_seat(c)->is_connected, 1);
    fake_ring(c);
    c->is_connected = fake_await(c, all_are_connected, NULL);
    return c->is_connected ? RG__NCCL_Success : RG__NCCL_InternalError;
}

/* `launch rc=N`: the call itself says so. */
static int scripted_rc(const fake_op *op)
{
    fake_fault f;
    const fake_where where = fake_where_of(op->comm, op->k);
    if (!fake_script("launch", &where, &f))
        return RG__NCCL_Success;
    fake_tell("the script lets operation %d fail", op->k);
    return f.rc;
}

static fake_kernel *collect(rg__nccl_comm c)
{
    fake_kernel *k = calloc(1, sizeof *k + (size_t)group.ops * sizeof k->op[0]);
    k->comm = c;
    for (int i = 0; i < group.ops; i++) {
        if (group.op[i].comm != c)
            continue;
        k->op[k->n] = group.op[i];
        k->op[k->n++].k = (int)++c->ops;
        if (k->op[0].stream != group.op[i].stream)
            fake_violation("one communicator on two streams in a group is not "
                           "imitated");
    }
    return k;
}

static bool overlap(const fake_op *s, const fake_op *r)
{
    const size_t sent = s->call.n * fake_type_size(s->call.type);
    const size_t got = r->call.n * fake_type_size(r->call.type);
    return sent > 0 && got > 0 && s->send < r->recv + got &&
           r->recv < s->send + sent;
}

/* They run side by side, in no order. */
static void look_at_messages(const fake_kernel *k)
{
    for (int s = 0; s < k->n; s++)
        for (int r = 0; r < k->n; r++)
            if (k->op[s].call.kind == FAKE_SEND &&
                k->op[r].call.kind == FAKE_RECV &&
                overlap(&k->op[s], &k->op[r]))
                fake_violation("a group receives into what it sends");
}

static int prepare(const fake_kernel *k)
{
    int rc = RG__NCCL_Success;
    look_at_messages(k);
    for (int i = 0; i < k->n && rc == RG__NCCL_Success; i++) {
        rc = scripted_rc(&k->op[i]);
        if (rc == RG__NCCL_Success && is_collective(&k->op[i]))
            rc = connect_all(k->comm);
    }
    return rc;
}

static int launch(rg__nccl_comm c)
{
    fake_comm_enter(c, "ncclGroupEnd");
    fake_kernel *k = collect(c);
    const int rc = prepare(k);
    if (rc == RG__NCCL_Success) {
        atomic_fetch_add(&c->out, 1);
        k->turn = c->turns++;
        fake_push(k->op[0].stream, fake_run_kernel, k);
    } else {
        free(k);
    }
    fake_comm_leave(c);
    return rc;
}

static bool is_first_of_its_comm(int i)
{
    for (int k = 0; k < i; k++)
        if (group.op[k].comm == group.op[i].comm)
            return false;
    return true;
}

static int launch_all(void)
{
    int rc = RG__NCCL_Success;
    for (int i = 0; i < group.ops && rc == RG__NCCL_Success; i++)
        if (is_first_of_its_comm(i))
            rc = launch(group.op[i].comm);
    free(group.op);
    group.op = NULL;
    group.ops = 0;
    return rc;
}

int fake_group_end(void)
{
    if (group.depth == 0)
        return RG__NCCL_InvalidUsage;
    if (--group.depth > 0)
        return RG__NCCL_Success;
    if (group.aborts > 0 && group.ops > 0)
        fake_violation("a group aborts communicators and launches operations");
    const int rc = launch_all();
    fake_comms_reclaim(group.aborted, group.aborts);
    group.aborts = 0;
    return rc;
}
