"""A program of Horovod's PyTorch interface runs with its import changed: all
names of 0.28 are there; operations match by their names, in whatever order the
ranks start them; grouped, in place and compressed ones, alltoall with splits,
sparse tensors, process sets, join and a timeline are right; ranks that wait for operations
of different names are told so, mistakes are RuntimeErrors, and optimizers
train, also with sparse gradients. An elastic program goes
on where its state was committed, also with a worker that has joined.

Covers: horovod/_queue.py horovod/_basics.py horovod/_elastic.py
horovod/torch/_operations.py horovod/torch/elastic.py _kept.py"""
import os
import signal
import sys
import tempfile
import time
import warnings

import pyjob

NAMES = """init shutdown is_initialized start_timeline stop_timeline size
local_size cross_size rank local_rank cross_rank is_homogeneous
mpi_threads_supported mpi_enabled mpi_built gloo_enabled gloo_built nccl_built
ddl_built ccl_built cuda_built rocm_built ProcessSet global_process_set
add_process_set remove_process_set Average Sum Adasum Min Max Product allreduce
allreduce_async allreduce_ allreduce_async_ grouped_allreduce
grouped_allreduce_async grouped_allreduce_ grouped_allreduce_async_
sparse_allreduce_async allgather allgather_async grouped_allgather
grouped_allgather_async broadcast broadcast_async broadcast_ broadcast_async_
alltoall alltoall_async reducescatter reducescatter_async
grouped_reducescatter grouped_reducescatter_async join barrier poll synchronize
DistributedOptimizer SyncBatchNorm broadcast_parameters
broadcast_optimizer_state broadcast_object allgather_object Compression elastic
elastic.run elastic.TorchState elastic.ObjectState elastic.ElasticSampler
HorovodInternalError HostsUpdatedInterrupt""".split()


def by_names(hvd, torch, n, me):
    tensors = {f"t{i}": torch.full((3,), float(i * (me + 1)))
               for i in range(6)}
    names = sorted(tensors, reverse=me % 2 == 1)  # another order on odd ranks
    handles = {name: hvd.allreduce_async_(tensors[name], name=name,
                                          op=hvd.Sum) for name in names}
    for name in reversed(names):
        hvd.synchronize(handles[name])
    for i in range(6):
        assert (tensors[f"t{i}"] == i * n * (n + 1) / 2).all()
    slow = torch.zeros(300, 1000).t()
    handle = hvd.allreduce_async_(slow.fill_(1), op=hvd.Sum)
    while not hvd.poll(handle):
        pass
    assert (slow == n).all(), "poll was true before the result was there"
    assert hvd.synchronize(handle) is slow and hvd.synchronize(handle) is None
    handle = hvd.allgather_async(torch.full((me + 1, 2), float(me)))
    while not hvd.poll(handle):
        pass
    assert len(hvd.synchronize(handle)) == n * (n + 1) // 2
    if n > 1:
        try:
            hvd.allreduce(torch.ones(1), name=f"mine{me}")
            raise AssertionError("names that differ were taken")
        except Exception as error:
            assert "no rank can go on" in str(error), error
            hvd.global_process_set.queue._waiting.clear()


def operations(hvd, torch, n, me):
    one = torch.tensor([1.0, 2.0, 4.0])
    assert torch.equal(hvd.allreduce(one), one)
    assert torch.equal(hvd.allreduce(one, op=hvd.Sum, prescale_factor=2.0,
                                     compression=hvd.Compression.fp16),
                       2 * n * one)
    mine = torch.zeros(n + 1).index_fill_(0, torch.tensor([me]), 2.0)
    found = hvd.allreduce(mine, op=hvd.Adasum)  # orthogonal: the sum
    assert found.tolist() == [2.0] * n + [0.0] and mine.sum() == 2
    handle = hvd.grouped_allreduce_async_([mine, one], op=hvd.Adasum)
    assert torch.equal(hvd.synchronize(handle)[0], found)
    assert torch.allclose(mine, found) and one.tolist() == [1.0, 2.0, 4.0]
    pair = hvd.grouped_allreduce([one, one + me], op=hvd.Max)
    assert torch.equal(pair[1], one + n - 1)
    whole = torch.full((2,), float(me))
    hvd.broadcast_(whole, n - 1)
    assert (whole == n - 1).all()
    rows, splits = hvd.alltoall(torch.full((n * (n + 1) // 2,), float(me)),
                                splits=[r + 1 for r in range(n)])
    assert splits.tolist() == [me + 1] * n and len(rows) == n * (me + 1)
    assert (hvd.reducescatter(torch.ones(n, 2), op=hvd.Sum) == n).all()
    sparse = torch.sparse_coo_tensor([[me, n]], [1.0, 2.0], (n + 1,))
    found = hvd.sparse_allreduce_async(sparse, "sparse", hvd.Sum)().to_dense()
    assert found.tolist() == [1.0] * n + [2.0 * n]
    assert hvd.broadcast_object({"x": me}, 0) == {"x": 0}
    assert hvd.allgather_object(me) == list(range(n))
    hvd.barrier()
    for step in range(me + 1):  # rank r has r + 1 batches
        found = hvd.allreduce(torch.ones(1), op=hvd.Sum)
        assert found.item() == n - step, (found, step)
    assert hvd.join() == n - 1
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == n
    shorts = hvd.allgather(torch.full((me + 1,), me, dtype=torch.int16))
    assert shorts.tolist() == [r for r in range(n) for _ in range(r + 1)]


def sets(hvd, torch, n, me):
    world, first = hvd.global_process_set, hvd.ProcessSet([0])
    assert world.ranks == list(range(n)) and world.process_set_id == 0
    assert (world.size(), world.rank(), world.included()) == (n, me, True)
    assert first.size() is first.rank() is None
    assert hvd.add_process_set(first) is first and first.size() == 1
    assert first.included() == (me == 0)
    one, weight = torch.ones(1), torch.nn.Parameter(torch.ones(1))
    if me == 0:
        assert hvd.allreduce(one, op=hvd.Sum, process_set=first)[0] == 1
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0),
                                         process_set=first)
    weight.mul(me).sum().backward()
    optimizer.synchronize()
    with optimizer.skip_synchronize():
        optimizer.step()
    assert weight.item() == 1 - me, "a rank outside took another's step"
    optimizer = weight.grad = None
    try:
        hvd.add_process_set([0])
        raise AssertionError("a set was made twice")
    except ValueError as error:
        assert "already" in str(error), error
    assert hvd.remove_process_set(first) and first.size() is None


def compressors(hvd, torch, n, me):
    class Rounded(hvd.Compression.none):
        @staticmethod
        def compress(tensor):
            return tensor.round(), tensor.dtype

        @staticmethod
        def decompress(tensor, ctx):
            return tensor.to(ctx) + 1

    weight = torch.nn.Parameter(torch.zeros(2, 3))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0),
                                         compression=Rounded, op=hvd.Sum)
    for step in range(2):
        optimizer.zero_grad()
        (weight * 1.4).t().sum().backward()
        optimizer.step()
    assert (weight == -2 * (n + 1)).all(), weight
    for is_skipped in True, False:
        optimizer.zero_grad()
        weight.sum().backward()
        optimizer.synchronize()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            if is_skipped:
                with optimizer.skip_synchronize():
                    optimizer.step()
            else:
                optimizer.step()
        assert bool(seen) != is_skipped, seen


def gradients(hvd, torch, n, me):
    def of(call, rows):
        sent = torch.ones(rows, 2, requires_grad=True)
        (call(sent) * (me + 1)).sum().backward()
        return sent.grad[:, 0].tolist()

    mean = (n + 1) / 2  # as Horovod has them
    assert of(hvd.allgather, me + 1) == [mean] * (me + 1)
    assert of(lambda x: hvd.broadcast(x, 0), 1) == [0 if me else mean]
    ranks = [r + 1 for r in range(n)]
    assert of(hvd.reducescatter, n) == ranks
    assert of(lambda x: hvd.reducescatter(x, op=hvd.Sum), n) == \
        [n * one for one in ranks]
    assert of(lambda x: hvd.grouped_allreduce([x])[0], 1) == [mean]


def training(hvd, torch, n, me, **more):
    torch.manual_seed(me)
    model = torch.nn.Linear(2, 1)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5),
        named_parameters=model.named_parameters(), **more)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    for step in range(60):
        x = torch.randn(16, 2)
        optimizer.zero_grad()
        (model(x) - x.sum(1, keepdim=True)).pow(2).mean().backward()
        optimizer.step()
    assert torch.allclose(model.weight, torch.ones(1, 2), atol=0.05)
    more = torch.nn.Linear(1, 1)
    hvd.broadcast_parameters(more.state_dict())
    optimizer.add_param_group({"params": more.parameters()})
    for step in range(2):
        optimizer.zero_grad()
        more(model(torch.full((1, 2), me + 1.0))).sum().backward()
        optimizer.step()
    assert len(set(hvd.allgather_object(str(
        [model.weight.tolist(), more.weight.tolist()])))) == 1


def sparse_gradients(hvd, torch, n, me):
    torch.manual_seed(0)
    rows, plain = [torch.nn.Embedding(9, 3, sparse=one)
                   for one in (True, False)]
    unused = torch.nn.Parameter(torch.ones(2))
    plain.load_state_dict(rows.state_dict())
    optimizers = [hvd.DistributedOptimizer(torch.optim.SGD(
        [*table.parameters(), unused], lr=0.5)) for table in (rows, plain)]
    for step in range(3):
        at = torch.tensor([me, 8, 8])
        for table, optimizer in zip((rows, plain), optimizers):
            optimizer.zero_grad()
            if step == 2 or me == 0:  # the others have no gradient
                (table(at) * (me + step + 1)).sum().backward()
            optimizer.step()
        assert rows.weight.grad.is_sparse and not plain.weight.grad.is_sparse
        assert torch.allclose(rows.weight, plain.weight), step
    wide = torch.nn.Embedding(9, 3, sparse=True)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(wide.parameters(), lr=0.5), sparse_as_dense=True)
    wide(torch.tensor([me])).sum().backward()
    optimizer.step()
    assert wide.weight.grad[:n].eq(1 / n).all()


def mistakes(hvd, torch, n, me):
    """They are RuntimeErrors, as in Horovod, on all ranks, which go on."""
    mine = torch.ones(2 + me, 2)
    for call in (lambda: hvd.allreduce(mine),
                 lambda: hvd.allreduce(mine[:2].to(
                     torch.float32 if me else torch.int32)),
                 lambda: hvd.allgather(torch.ones(1, 2 + me)),
                 lambda: hvd.broadcast(mine, 0),
                 lambda: hvd.broadcast(mine[:2], me),
                 lambda: hvd.reducescatter(torch.tensor(1.0)),
                 lambda: hvd.grouped_reducescatter([mine[:2],
                                                    torch.tensor(1.0)]),
                 lambda: hvd.reducescatter(
                     torch.ones((4, 2, 3) if me else (4, 6))),
                 lambda: hvd.alltoall(torch.tensor(1.0)),
                 lambda: hvd.alltoall(torch.ones(n), torch.ones(n)),
                 lambda: hvd.reducescatter(mine, op=hvd.Adasum)):
        try:
            call()
        except RuntimeError as error:
            assert not isinstance(error, hvd.HorovodInternalError), error
        else:
            raise AssertionError("a mistake was taken")
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum) == n


def timeline(hvd, torch, n, me):
    import json
    path = gate("timeline.json")
    try:
        hvd.start_timeline("/nowhere/timeline.json")
        assert me != 0, "a file that can't be made was taken"
    except Exception as error:
        assert "/nowhere/timeline.json" in str(error) and me == 0, error
    hvd.start_timeline(path)
    hvd.barrier()
    hvd.allreduce(torch.ones(7), name="seen")
    hvd.barrier()
    hvd.stop_timeline()
    hvd.barrier()
    with open(path, encoding="utf-8") as file:
        names = {event["name"] for event in json.load(file)["traceEvents"]}
    assert "allreduce" in names, names


def in_workers_of_a_loader(hvd, torch, n, me):
    loader = torch.utils.data.DataLoader(
        range(1), num_workers=1, collate_fn=lambda _: (hvd.rank(), hvd.size()))
    assert list(loader) == [(me, n)]


def gate(name):
    return os.path.join(os.environ["GATES"], name)


def elastic(hvd, torch):
    while os.path.exists(gate("died")) and not os.path.exists(gate("join")):
        time.sleep(0.05)
    hvd.init()
    if os.path.exists(gate("died")):  # it joins a job of one worker
        assert (hvd.rank(), hvd.size()) == (1, 2), (hvd.rank(), hvd.size())
        from regroup.horovod import _basics
        library, _basics.LIBRARY = _basics.LIBRARY, "libregroup.so.0"
        path, os.environ["PATH"] = os.environ["PATH"], "/nowhere"
        _basics._expect(_basics.current())  # without the command regroup
        assert (hvd.rank(), hvd.size()) == (1, 2), (hvd.rank(), hvd.size())
        _basics.LIBRARY, os.environ["PATH"] = library, path
    torch.utils.data.distributed.DistributedSampler(  # refuses a rank of -1
        range(8), num_replicas=hvd.size(), rank=hvd.rank())
    model = torch.nn.Linear(2, 1)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.Adam(model.parameters(), lr=0.05),
        named_parameters=model.named_parameters())
    sampler = hvd.elastic.ElasticSampler(range(40), shuffle=False)
    more = torch.nn.Parameter(torch.zeros(1))
    adasum = hvd.DistributedOptimizer(
        torch.optim.SGD([more], lr=0.1, momentum=0.9), op=hvd.Adasum)
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer,
                                   sampler=sampler, adasum=adasum, batch=0)
    state.register_reset_callbacks([lambda: print("was reset", flush=True)])
    state.note = "of this worker"
    alone = hvd.ProcessSet([0])

    @hvd.elastic.run
    def train(state):
        hvd.add_process_set(alone)  # in every generation
        assert alone.size() == 1 and state.note == "of this worker"
        while state.batch < 8:
            if state.batch == 4 and hvd.rank() == 1 and \
                    not os.path.exists(gate("died")):
                open(gate("died"), "w", encoding="utf-8").close()
                os.kill(os.getpid(), signal.SIGKILL)
            while state.batch == 6 and hvd.size() == 1:
                open(gate("join"), "w", encoding="utf-8").close()
                time.sleep(0.05)
                state.commit()  # until the newcomer is there
            optimizer.zero_grad()
            model(torch.ones(4, 2)).pow(2).sum().backward()
            optimizer.step()
            adasum.zero_grad()
            (more * (hvd.rank() + 1)).sum().backward()  # differs, and may
            adasum.step()
            if hvd.allreduce(torch.ones(1), op=hvd.Sum).item() != hvd.size():
                raise AssertionError("a sum is wrong")
            sampler.record_batch(state.batch, 1)
            state.batch += 1
            state.commit()
        return "done"

    assert train(state) == "done" and state.batch == 8
    print(f"{sampler.processed_num} samples", flush=True)


def work():
    import functools

    import regroup.horovod.torch as hvd
    import torch
    for name in NAMES:
        functools.reduce(getattr, name.split("."), hvd)
    if sys.argv[-1] == "elastic":
        elastic(hvd, torch)
        return
    hvd.init()
    n, me = hvd.size(), hvd.rank()
    by_names(hvd, torch, n, me)
    operations(hvd, torch, n, me)
    mistakes(hvd, torch, n, me)
    sparse_gradients(hvd, torch, n, me)
    sets(hvd, torch, n, me)
    compressors(hvd, torch, n, me)
    gradients(hvd, torch, n, me)
    in_workers_of_a_loader(hvd, torch, n, me)
    timeline(hvd, torch, n, me)
    training(hvd, torch, n, me)
    training(hvd, torch, n, me, op=hvd.Adasum)
    hvd.shutdown()


def test():
    from house import Job, claim
    with tempfile.TemporaryDirectory(prefix="rg-py-") as gates:
        pyjob.job(3, pyjob.command(modules=("torch", "numpy")), GATES=gates)
    with tempfile.TemporaryDirectory(prefix="rg-py-") as gates, \
            Job(["--min", "1", "--max", "2"],
                pyjob.command("elastic", modules=("torch", "numpy")),
                env=pyjob.environment(HOROVOD_ELASTIC="1", GATES=gates)
                ) as job:
        job.finish()
        claim("not equal" not in job.text(), f"a warning:\n{job.text()}")
        claim("was reset" in job.text(), "nothing was reset")
        claim("14 samples" in job.text(), "4 steps of 2 ranks, 2 of one and 2 "
              "of 2 with a newcomer took other samples than 14:\n"
              f"{job.text()}")


pyjob.main(work, test=test)
