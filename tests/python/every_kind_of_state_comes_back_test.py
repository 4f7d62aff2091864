"""What regroup.torch.State keeps comes back after a kill, kind by kind: each
kind changes in every step, also in the one that the kill cuts off, and then all
ranks have it as it was at the commit. Counters are those of rank 0, of any
length; each rank that was there draws its own random numbers again, a
newcomer others, and a new rank 0 those of the one before. A change that is
announced to a step that saves nothing finds all kinds as that step left them.
What can't come back is refused: groups, tensors and shapes that were not there
when State was made. A second State and copies of one are refused in a sentence.

Covers: _kept.py _state.py torch/_model_state.py torch/_data.py"""
import os
import pickle
import random
import signal
import sys
import tempfile
import time

import pyjob


def tensors(found):
    return [one.detach().tolist() for one in found]


def of_optimizer(optimizer):
    return [sorted((key, float(value.sum())) for key, value in
                   optimizer.state.get(parameter, {}).items()
                   if value is not None)
            for group in optimizer.param_groups
            for parameter in group["params"]]


KINDS = {
    "parameters": lambda s: tensors(s.model.parameters()),
    "batch norm's buffers": lambda s: tensors(s.model.buffers()),
    "frozen parameters": lambda s: [p.requires_grad
                                    for p in s.model.parameters()],
    "modules in evaluation": lambda s: [m.training
                                        for m in s.model.modules()],
    "Adam's moments": lambda s: of_optimizer(s.adam),
    "SGD's momentum": lambda s: of_optimizer(s.sgd),
    "options of groups": lambda s: [g["lr"] for g in s.sgd.param_groups],
    "a scheduler": lambda s: s.scheduler.state_dict(),
    "a plateau's patience": lambda s: (s.plateau.num_bad_epochs,
                                       s.plateau.best),
    "an averaged copy": lambda s: tensors(s.ema.parameters()),
    "how many are averaged": lambda s: s.ema.n_averaged.item(),
    "counters": lambda s: (s.step, s.note),
    "an array of add": lambda s: s.extra.tolist(),
    "the sampler's position": lambda s: (s.sampler.epoch,
                                         s.sampler.processed_num),
    "the batch sampler's": lambda s: len(s.batches),
}


def generators():
    import numpy
    import torch
    return (torch.get_rng_state().tolist(), random.getstate(),
            pickle.dumps(numpy.random.get_state()))


def change(torch, numpy, state, me):
    """Each kind; ranks differ only in what may differ."""
    i = state.step
    for optimizer in state.adam, state.sgd:
        optimizer.zero_grad()
    x = torch.arange(8.0).view(4, 2) * (i % 5 + 1)
    (state.model(x).sum() + state.other(x).sum()).backward()
    state.adam.step()
    state.sgd.step()
    state.scheduler.step()
    state.plateau.step(float(i))
    state.model[3].weight.requires_grad = i % 2 == 1
    state.model[2].train(i % 2 == 1)
    state.ema.update_parameters(state.model)
    state.extra[0] += 1
    state.sampler.record_batch(0, 1)
    if state.sampler.processed_num > 50:
        state.sampler.set_epoch(state.sampler.epoch + 1)
    torch.rand(1)
    random.random()
    numpy.random.random()
    state.note = [me, os.urandom(25000 + 1000 * me)]
    state.step += 1


def make(regroup, torch, numpy):
    """A State with all kinds."""
    model = torch.nn.Sequential(
        torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.Dropout(0.0),
        torch.nn.Linear(3, 1))
    other = torch.nn.Linear(2, 1)
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    sgd = torch.optim.SGD(other.parameters(), lr=0.1, momentum=0.9)
    state = regroup.torch.State(
        model=model, other=other, adam=adam, sgd=sgd,
        scheduler=torch.optim.lr_scheduler.ExponentialLR(sgd, 0.999),
        plateau=torch.optim.lr_scheduler.ReduceLROnPlateau(adam),
        ema=torch.optim.swa_utils.AveragedModel(model), step=0, note=None,
        sampler=regroup.torch.ElasticSampler(range(100)))
    extra = state.add("extra", numpy.zeros(1))
    batches = regroup.torch.BatchSampler(1000003, 1, state=state)
    for name, value in ("extra", extra), ("batches", batches):
        state.__dict__[name] = value  # for KINDS
    return state


def same(found, expected, what):
    for kind, value in found.items():
        assert value == expected[kind], (what, kind, value, expected[kind])


class Notes:
    """What the kinds were at each step: rank 0's, and each slot's generators.
    """

    def __init__(self, state, ctx):
        self._state, self._ctx = state, ctx
        self._last = None
        self.has_run = False

    def _path(self, step, *more):
        return os.path.join(os.environ["NOTES"], ".".join(map(str, (
            step, *more))))

    def write(self):
        """Before the step ends; every kind has changed in it."""
        found = {kind: of(self._state) for kind, of in KINDS.items()}
        if self._last is not None:
            for kind in KINDS.keys() - {"the batch sampler's"}:
                assert found[kind] != self._last[kind], f"{kind} is as before"
        self._last = found
        found["the batch sampler's"] -= 1  # this step's end counts it
        step = self._state.steps + 1
        for path, value in ((self._path(step), found),
                            (self._path(step, self._ctx.slot), generators())):
            if value is not found or self._ctx.rank == 0:
                with open(path + "~", "wb") as file:
                    pickle.dump(value, file)
                os.rename(path + "~", path)

    def are_true(self):
        """Behind the step's end, which changes nothing."""
        same({kind: of(self._state) for kind, of in KINDS.items()},
             self._last, f"behind step {self._state.steps}")

    def _read(self, *name):
        with open(self._path(*name), "rb") as file:
            return pickle.load(file)

    def check(self, slots):
        """At the top of a generation that follows another."""
        step = self._state.steps
        same({kind: of(self._state) for kind, of in KINDS.items()},
             self._read(step), f"rank {self._ctx.rank} at step {step}")
        before = {slot: self._read(step, slot) for slot in slots}
        mine = dict(enumerate(generators()))
        if self.has_run or self._ctx.rank == 0:
            same(mine, dict(enumerate(before[self._ctx.slot])), "generators")
        else:
            for i, theirs in enumerate(zip(*before.values())):
                assert mine[i] not in theirs, f"generator {i} is another's"
        self._last = None


def train(state, ctx, killed):
    """killed: the slot that a kill takes in the first generation. After it,
    steps save nothing until it is there again."""
    import numpy
    import torch
    notes, alive = Notes(state, ctx), {0, 1, 2} - {killed}

    def body():
        if ctx.generation > 1:
            notes.check(alive if ctx.generation == 3 and killed else
                        range(ctx.size + 1 if killed else ctx.size))
        notes.has_run = True
        first = state.steps
        while ctx.generation < 3 or state.steps < first + 3:
            change(torch, numpy, state, ctx.rank)
            if ctx.generation == 1 and state.steps == 5 and \
                    ctx.slot == killed:
                os.kill(os.getpid(), signal.SIGKILL)
            notes.write()
            if ctx.generation == 2 and killed:
                time.sleep(0.005)  # a newcomer imports torch meanwhile
                state.step_end()
            else:
                state.commit()
            notes.are_true()
            if ctx.generation == 2 and not killed and \
                    state.steps == first + 3:
                return
    state.run(body)
    print("all kinds came back", flush=True)


def refusals(regroup, torch, state):
    """Each leaves the function; the state is that of one worker."""
    def fails(wrong, word):
        def body():
            wrong()
            state.commit()
        try:
            state.run(body)
            raise AssertionError(word)
        except regroup.Unsupported as error:
            assert word in str(error), error
    return fails


def refuse_another(regroup, torch, state):
    import copy
    try:
        regroup.torch.State(more=torch.nn.Linear(1, 1))
        raise AssertionError("a second State was taken")
    except regroup.Invalid as error:
        assert "has a State already" in str(error), error
    for call in pickle.dumps, copy.copy, copy.deepcopy:
        try:
            call(state)
            raise AssertionError(f"State and {call}")
        except TypeError as error:
            assert "belongs to its process" in str(error), error


def refuse(what):
    import numpy
    import regroup
    import regroup.torch
    import torch
    with regroup.init(elastic=True):
        state = make(regroup, torch, numpy)
        fails = refusals(regroup, torch, state)
        refuse_another(regroup, torch, state)
        if what == "groups":
            fails(lambda: state.adam.add_param_group(
                {"params": state.other.parameters()}), "all groups first")
        elif what == "tensors":
            fails(lambda: state.model.register_buffer(
                "late", torch.ones(1)), "'late' after State was made")
        elif what == "shapes":
            fails(lambda: setattr(state.model[3].bias, "data", torch.ones(2)),
                  "is now (2,) of torch.float32")
        else:
            fails(lambda: setattr(state, "note", b"x" * 70000),
                  "register large arrays")


def work():
    if sys.argv[2] == "refuse":
        refuse(sys.argv[3])
        return
    import numpy
    import regroup
    import regroup.torch
    import torch
    with regroup.init(elastic=True) as ctx:
        train(make(regroup, torch, numpy), ctx, int(sys.argv[2]))


def test():
    from house import Job, claim
    modules = "torch", "numpy"
    for flags, killed in (["--min", "2", "--max", "3", "--start-timeout",
                           "90s"], 1), (["-n", "2"], 0):
        with tempfile.TemporaryDirectory(prefix="rg-py-") as notes, \
                Job(flags, pyjob.command(killed, modules=modules),
                    env=pyjob.environment(NOTES=notes)) as job:
            job.finish()
            claim(job.text().count("all kinds came back") == 2 + killed,
                  job.text())
    for what in "groups", "tensors", "shapes", "counters":
        pyjob.job(1, pyjob.command("refuse", what, modules=modules))


pyjob.main(work, test=test)
