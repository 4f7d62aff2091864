"""The process group of torch.distributed's backend "regroup": each operation
of c10d is one of a Set's.

c10d calls these methods by their names, from Python and, through torch's own
classes, from C++. Tensors whose elements do not lie one behind the other are
sent as copies, and results are copied back when the operation is waited for.
"""

from __future__ import annotations

import collections
import copy
import datetime
import queue
import threading
import typing

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Work as _Work

from .._abi import Op
from .._buffers import torch_types
from .._errors import InProgress, Invalid, Unsupported
from .._sets import Set
from .._wait import Request

Tensor = torch.Tensor
Tensors = typing.Sequence[Tensor]

_OPS = {"SUM": Op.SUM, "AVG": Op.AVG, "PRODUCT": Op.PROD, "MIN": Op.MIN,
        "MAX": Op.MAX, "BAND": Op.BAND, "BOR": Op.BOR, "BXOR": Op.BXOR}
_KEPT = 64  # works without a wait so far, which C++ may hold


def op_of(what: str, options: typing.Any) -> Op:
    """The operation that c10d's options name."""
    if options is None:
        return Op.SUM
    named = getattr(options.reduceOp, "op", options.reduceOp)
    if named.name not in _OPS:
        raise Unsupported(f"{what} can't reduce by {named.name}; use one of "
                          f"{', '.join(_OPS)}")
    return _OPS[named.name]


# ---------------------------------------------------------------- tensors

def dense(tensor: Tensor) -> Tensor:
    """The tensor if its elements lie one behind the other, else a copy; of at
    least one dimension."""
    plain = tensor.detach()
    if plain.layout == torch.strided:
        if plain.is_conj() or plain.is_neg():
            plain = plain.resolve_conj().resolve_neg()
        plain = plain.contiguous()
    return plain if plain.dim() else plain.reshape(1)


def as_moved(tensor: Tensor) -> Tensor:
    """The same memory in a type that can be moved: bytes where Regroup does
    not have the tensor's."""
    return tensor if tensor.dtype in torch_types() else \
        tensor.view(torch.uint8)


def as_rows(tensor: Tensor) -> Tensor:
    """The same of a tensor of which rows are moved: its first dimension stays
    what it is."""
    return as_moved(tensor if tensor.dim() > 1 else tensor.unsqueeze(1))


def as_summed(tensor: Tensor, op: Op) -> Tensor:
    """The same memory in a type that can be reduced: complex numbers are added
    as pairs."""
    if tensor.is_complex() and op in (Op.SUM, Op.AVG):
        return torch.view_as_real(tensor)
    return tensor


Copies = list[tuple[Tensor, Tensor]]


def returned(tensor: Tensor, used: Tensor) -> Copies:
    """The copy to make when a result came into a tensor's stand-in."""
    return [] if used.data_ptr() == tensor.data_ptr() else \
        [(tensor, used.view(tensor.shape))]


def joined(tensors: Tensors) -> Tensor:
    """Tensors one behind the other, in one of one dimension."""
    return torch.cat([dense(one).view(-1) for one in tensors])


def parted(whole: Tensor, tensors: Tensors) -> Copies:
    """The copies that deal such a tensor to several."""
    parts = whole.split([one.numel() for one in tensors])
    return [(one, part.view(one.shape)) for one, part in zip(tensors, parts)]


# ------------------------------------------------------------------ works

class Work(_Work):
    """What an operation returns. wait raises regroup's exceptions; C++, which
    knows futures only, gets their text in a RuntimeError."""

    def __init__(self, requests: list[Request], results: typing.Any,
                 copies: Copies, kept: typing.MutableMapping[int, Work]
                 ) -> None:
        super().__init__()
        self._requests = requests
        self._kept = kept  # until it has ended
        self._results = results
        self._copies = copies
        self._error: BaseException | None = None
        self._future: typing.Any = None
        self._lock = threading.Lock()

    def _finish(self, seconds: float | None) -> None:
        """Wait for what was started; the copies are made once."""
        for request in self._requests:
            try:
                request.wait(seconds)
            except InProgress:
                raise
            except Exception as error:  # pylint: disable=broad-except
                self._error = self._error or error
        with self._lock:
            copies, self._copies = self._copies, []
            if self._error is None:
                for to, source in copies:
                    to.detach().copy_(source)
            self._requests = []
        self.let_go()

    def let_go(self) -> None:
        """Its group need not keep it any more, nor its tensors."""
        self._kept.pop(id(self), None)

    def wait(self, timeout: typing.Any = None) -> bool:
        """Wait, for the timeout if one is given, and raise what ended the
        operation."""
        if isinstance(timeout, datetime.timedelta):
            timeout = timeout.total_seconds()
        self._finish(timeout if timeout and timeout > 0 else None)
        self._raise()
        return True

    def _raise(self) -> None:
        """A copy: the frames that it passes would live as long as the work."""
        if self._error is not None:
            raise copy.copy(self._error)

    synchronize = wait

    def is_completed(self) -> bool:
        """Whether it has ended, well or not."""
        return all([request.test() for request in self._requests])

    def is_success(self) -> bool:
        """Whether it has ended well."""
        return self.is_completed() and self.exception() is None

    def exception(self) -> BaseException | None:
        """What has ended it, if that was an error."""
        if self.is_completed():
            self._finish(None)
        return self._error

    def result(self) -> typing.Any:
        """The tensors that it fills."""
        return self._results

    def get_future(self) -> typing.Any:
        """A future of the tensors that it fills; another thread waits, unless
        it has ended, since then the value may be asked for at once."""
        if self._future is None:
            ended: typing.Any = torch.futures.Future()
            self._future = ended.then(self._value)
            if self._requests:
                _waiter.put(self, ended)
            else:
                ended.set_result(None)
        return self._future

    def _value(self, _: typing.Any) -> typing.Any:
        self._raise()
        return self._results


class _Waiter:
    """A thread that waits for the works whose futures were asked for, in the
    order in which they were started. What follows a future runs on it, and may
    wait for another one (DDP's PowerSGD does): a new thread takes over then."""

    def __init__(self) -> None:
        self._works: queue.SimpleQueue = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, work: Work, ended: typing.Any) -> None:
        """Set the future when the work has ended."""
        if self._thread is None or not self._thread.is_alive() or \
                self._thread is threading.current_thread():
            self._thread = threading.Thread(target=self._run, daemon=True,
                                            name="regroup.torch")
            self._thread.start()
        self._works.put((work, ended))

    def _run(self) -> None:
        while self._thread is threading.current_thread():
            work, ended = self._works.get()
            try:
                work.wait()
            except Exception:  # pylint: disable=broad-except
                pass  # the future's value raises it
            ended.set_result(None)
            del work, ended


_waiter = _Waiter()


# --------------------------------------------------------- process groups

class ProcessGroup(dist.ProcessGroup):
    """A process group of torch.distributed over a Set."""

    def __init__(self, members: Set, deadline: float | None) -> None:
        super().__init__(members.rank, members.size)
        self.members = members
        self._deadline = deadline
        self._name = ""
        # Torch before 2.6 forgets that a Work is an object of Python as soon
        # as only C++ holds it, and then waits forever.
        self._kept: collections.OrderedDict[int, Work] = \
            collections.OrderedDict()

    def getBackendName(self) -> str:  # pylint: disable=invalid-name
        """As c10d asks for it."""
        return "regroup"

    def _get_backend(self, _device: torch.device) -> ProcessGroup:
        """As c10d of torch 2 asks for what sends its messages."""
        return self

    def _set_group_name(self, name: str) -> None:
        self._name = name

    @property
    def group_name(self) -> str:
        """As c10d of torch 2 asks for it, which keeps names only for backends
        of its own."""
        return self._name

    def _work(self, requests: list[Request], results: typing.Any,
              copies: Copies = ()) -> Work:  # type: ignore[assignment]
        work = Work(requests, results, list(copies), self._kept)
        self._kept[id(work)] = work
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return work

    def _need_one(self, what: str, tensors: Tensors) -> Tensor:
        if len(tensors) != 1:
            raise Invalid(f"{what} got {len(tensors)} tensors; pass one, on "
                          "one device")
        return tensors[0]

    def _filled(self, tensors: Tensors,
                start: typing.Callable[[Tensor], Request]) -> Work:
        """An operation in place on each tensor."""
        copies: Copies = []
        requests = []
        for tensor in tensors:
            used = dense(tensor)
            requests.append(start(used))
            copies += returned(tensor, used)
        return self._work(requests, list(tensors), copies)

    # ------------------------------------------------------- reductions

    def allreduce(self, tensors: Tensors, opts: typing.Any = None) -> Work:
        """Reduce each tensor in place."""
        op = op_of("all_reduce", opts)

        given = [tensors] if isinstance(tensors, Tensor) else list(tensors)
        used = [dense(one) for one in given]
        views = [as_summed(one, op) for one in used]
        request = self.members.start_grouped_allreduce(
            views, views, op=op, deadline=self._deadline) \
            if len(views) > 1 else self.members.start_allreduce(
                views[0], views[0], op=op, deadline=self._deadline)
        return self._work([request], given, [
            copy for one, own in zip(given, used)
            for copy in returned(one, own)])

    def allreduce_coalesced(self, tensors: Tensors,
                            opts: typing.Any = None) -> Work:
        """The same."""
        return self.allreduce(tensors, opts)

    def reduce(self, tensors: Tensors, opts: typing.Any) -> Work:
        """Reduce a tensor in place at the root."""
        op = op_of("reduce", opts)
        tensor = self._need_one("reduce", tensors)
        used = dense(tensor)
        view = as_summed(used, op)
        is_root = self.members.rank == opts.rootRank
        request = self.members.start_reduce(
            view, view if is_root else None, root=opts.rootRank, op=op,
            deadline=self._deadline)
        return self._work([request], list(tensors),
                          returned(tensor, used) if is_root else [])

    def reduce_scatter(self, outputs: Tensors,
                       inputs: typing.Sequence[Tensors],
                       opts: typing.Any = None) -> Work:
        """Reduce the list, and keep this rank's tensor of it."""
        output = self._need_one("reduce_scatter", outputs)
        return self._reduce_scatter(
            output, joined(inputs[0]), opts,
            [one.numel() for one in inputs[0]])

    def _reduce_scatter_base(self, output: Tensor, sent: Tensor,
                             opts: typing.Any = None) -> Work:
        return self._reduce_scatter(output, dense(sent).view(-1), opts, None)

    def _reduce_scatter(self, output: Tensor, sent: Tensor, opts: typing.Any,
                        counts: list[int] | None) -> Work:
        op = op_of("reduce_scatter", opts)
        used = dense(output)
        request = self.members.start_reduce_scatter(
            as_summed(sent, op), as_summed(used.view(-1), op), op=op,
            counts=counts, deadline=self._deadline)
        return self._work([request], [output], returned(output, used))

    def reduce_scatter_tensor_coalesced(self, outputs: Tensors,
                                        inputs: Tensors,
                                        opts: typing.Any = None) -> Work:
        """reduce_scatter_tensor of each pair."""
        return self._all([self._reduce_scatter_base(output, sent, opts)
                          for output, sent in zip(outputs, inputs)], outputs)

    # --------------------------------------------------- moving elements

    def broadcast(self, tensors: Tensors, opts: typing.Any) -> Work:
        """Fill each tensor with the root's."""
        return self._filled(tensors, lambda used: self.members.start_broadcast(
            as_moved(used), opts.rootRank, deadline=self._deadline))

    def allgather(self, outputs: typing.Sequence[Tensors], inputs: Tensors,
                  opts: typing.Any = None) -> Work:
        """Fill the list with the tensors of all ranks."""
        del opts
        sent = dense(self._need_one("all_gather", inputs)).view(-1)
        counts = [one.numel() for one in outputs[0]]
        whole = sent.new_empty(sum(counts))
        rows = as_moved(whole)
        request = self.members.start_allgatherv(
            as_moved(sent), [n * len(rows) // max(1, len(whole))
                             for n in counts],
            rows, deadline=self._deadline)
        return self._work([request], outputs, parted(whole, outputs[0]))

    def _allgather_base(self, output: Tensor, sent: Tensor,
                        opts: typing.Any = None) -> Work:
        del opts
        used = dense(output)
        request = self.members.start_allgather(
            as_moved(dense(sent).view(-1)), as_moved(used.view(-1)),
            deadline=self._deadline)
        return self._work([request], [output], returned(output, used))

    def allgather_coalesced(self, outputs: typing.Sequence[Tensors],
                            inputs: Tensors, opts: typing.Any = None) -> Work:
        """all_gather of each tensor; outputs[r] is what rank r has sent."""
        return self._all([self.allgather([list(lists)], [sent], opts)
                          for lists, sent in zip(zip(*outputs), inputs)],
                         outputs)

    def allgather_into_tensor_coalesced(self, outputs: Tensors,
                                        inputs: Tensors,
                                        opts: typing.Any = None) -> Work:
        """all_gather_into_tensor of each pair."""
        return self._all([self._allgather_base(output, sent, opts)
                          for output, sent in zip(outputs, inputs)], outputs)

    def _all(self, works: list[Work], results: typing.Any) -> Work:
        """One Work for several."""
        # pylint: disable=protected-access
        for work in works:
            work.let_go()
        return self._work([r for work in works for r in work._requests],
                          results,
                          [c for work in works for c in work._copies])

    def gather(self, outputs: typing.Sequence[Tensors], inputs: Tensors,
               opts: typing.Any) -> Work:
        """Fill the root's list with the tensors of all ranks."""
        sent = as_moved(dense(self._need_one("gather", inputs)).view(-1))
        if self.members.rank != opts.rootRank:
            return self._work([self.members.start_gather(
                sent, None, opts.rootRank, deadline=self._deadline)], [])
        whole = joined(outputs[0])
        request = self.members.start_gather(
            sent, as_moved(whole), opts.rootRank, deadline=self._deadline)
        return self._work([request], outputs, parted(whole, outputs[0]))

    def scatter(self, outputs: Tensors, inputs: typing.Sequence[Tensors],
                opts: typing.Any) -> Work:
        """Fill a tensor with that of the root's list for this rank."""
        output = self._need_one("scatter", outputs)
        used = dense(output)
        is_root = self.members.rank == opts.rootRank
        request = self.members.start_scatter(
            as_moved(joined(inputs[0])) if is_root else None, as_moved(used),
            opts.rootRank, deadline=self._deadline)
        return self._work([request], [output], returned(output, used))

    def alltoall_base(self, output: Tensor, sent: Tensor,
                      output_splits: list[int], input_splits: list[int],
                      opts: typing.Any = None) -> Work:
        """Rows of one tensor to all ranks, and theirs into the other."""
        del opts
        used, rows = dense(output), dense(sent)
        request = self.members.start_alltoallv(
            as_rows(rows), self._splits(rows, input_splits),
            self._splits(used, output_splits), as_rows(used),
            deadline=self._deadline)
        return self._work([request], [output], returned(output, used))

    def _splits(self, tensor: Tensor, given: list[int]) -> list[int]:
        """Rows for each rank; equally many if none are given."""
        n = self.members.size
        if given:
            return given
        if len(tensor) % n:
            raise Invalid(f"all_to_all_single got a tensor of {len(tensor)} "
                          f"rows for {n} ranks; pass the split sizes")
        return [len(tensor) // n] * n

    def alltoall(self, outputs: Tensors, inputs: Tensors,
                 opts: typing.Any = None) -> Work:
        """A tensor to each rank, and one from each."""
        del opts
        whole, sent = joined(outputs), joined(inputs)
        size = as_moved(sent[:1]).numel() or 1
        request = self.members.start_alltoallv(
            as_moved(sent), [one.numel() * size for one in inputs],
            [one.numel() * size for one in outputs], as_moved(whole),
            deadline=self._deadline)
        return self._work([request], outputs, parted(whole, outputs))

    # As torch has called them since 2.15.
    all_gather_single = _allgather_base
    all_gather_single_coalesced = allgather_into_tensor_coalesced
    all_to_all_single = alltoall_base
    reduce_scatter_single = _reduce_scatter_base
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    def gather_single(self, output: Tensor, sent: Tensor,
                      opts: typing.Any) -> Work:
        """The same into one tensor of the root's."""
        is_root = self.members.rank == opts.rootRank
        used = dense(output) if is_root else None
        request = self.members.start_gather(
            as_moved(dense(sent).view(-1)),
            None if used is None else as_moved(used.view(-1)), opts.rootRank,
            deadline=self._deadline)
        return self._work([request], [output],
                          [] if used is None else returned(output, used))

    # ------------------------------------------------ between two ranks

    def send(self, tensors: Tensors, peer: int, tag: int = 0) -> Work:
        """A message to a rank of the group."""
        sent = as_moved(dense(self._need_one("send", tensors)))
        return self._work([self.members.start_send(
            sent, peer, tag=tag, deadline=self._deadline)], list(tensors))

    def recv(self, tensors: Tensors, peer: int, tag: int = 0) -> Work:
        """Fill a tensor with the message of a rank of the group."""
        tensor = self._need_one("recv", tensors)
        used = dense(tensor)
        return self._work(
            [self.members.start_recv(as_moved(used), peer, tag=tag,
                                     deadline=self._deadline)],
            list(tensors), returned(tensor, used))

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> Work:
        """Not there."""
        raise Unsupported("recv needs the rank that sends; pass src")

    # ----------------------------------------------------- without data

    def barrier(self, opts: typing.Any = None) -> Work:
        """Completes when every rank has started it."""
        del opts
        return self._work(
            [self.members.start_barrier(deadline=self._deadline)], [])
