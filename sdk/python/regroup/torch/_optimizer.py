"""Optimizers whose gradients are reduced over all ranks while backward runs, or
whose steps are (Adasum).

Gradients in host memory are tensors of a Reducer: `grad` is such a tensor from
the first step on, so that backward writes where the reduction reads. Those of a
GPU are reduced as one group when the step ends, and sparse ones one after the
other. Which are sparse all ranks agree on when the first step of a generation
ends, so nothing is reduced before.
"""

from __future__ import annotations

import contextlib
import threading
import typing
import warnings
import weakref

import torch

from .._abi import Op
from .._errors import Invalid, Unsupported
from .._reducer import Reducer
from .._sets import Set
from ._functions import allgather, context, members_of
from ._group import dense

Parameter = torch.nn.Parameter
_WIRES = {None: None, "f16": torch.float16, "bf16": torch.bfloat16}


class _Wire:
    """A type in which gradients travel, as Horovod's compressors have it."""

    def __init__(self, kind: torch.dtype | None) -> None:
        self._kind = kind

    def compress(self, tensor: torch.Tensor) -> tuple[torch.Tensor, object]:
        """The tensor to send, and what decompress needs."""
        return tensor.to(self._kind or tensor.dtype), tensor.dtype

    def decompress(self, tensor: torch.Tensor, kind: object) -> torch.Tensor:
        """The other way."""
        return tensor.to(kind)


def _weak(method: typing.Callable[..., object]) -> typing.Any:
    """Calls a method of an object that may be gone."""
    found = weakref.WeakMethod(method)  # type: ignore[var-annotated]

    def call(*arguments: object) -> None:
        one = found()
        if one is not None:
            one(*arguments)
    return call


class _Tensors:
    """A Reducer, and its tensors as torch sees them."""

    def __init__(self, parameters: list[Parameter], members: Set | None,
                 wire: torch.dtype | None = None, **options: typing.Any
                 ) -> None:
        self.reducer = Reducer(members_of(members), **options)
        kinds = [wire or one.dtype for one in parameters]
        for i, (one, kind) in enumerate(zip(parameters, kinds)):
            self.reducer.add(str(i), one.shape, kind)
        self.of = {one: (i, torch.from_numpy(self.reducer.tensor(i)).view(kind))
                   for i, (one, kind) in enumerate(zip(parameters, kinds))}

    def put(self, parameter: Parameter, found: torch.Tensor,
            scale: float = 1.0) -> torch.Tensor:
        """The tensor of a parameter, which has its values for this step."""
        index, tensor = self.of[parameter]
        if tensor.data_ptr() != found.data_ptr():
            tensor.copy_(found.detach())
        if scale != 1.0:
            tensor.mul_(scale)
        self.reducer.ready(index)
        return tensor


class Gradients:
    """The gradients of some parameters, reduced in each step."""

    def __init__(self, parameters: list[Parameter], *, op: Op = Op.AVG,
                 members: Set | None = None, compression: typing.Any = None,
                 passes: int = 1, bucket_bytes: int = 0, prescale: float = 1.0,
                 postscale: float = 1.0, sparse_as_dense: bool = False
                 ) -> None:
        self._has_own = hasattr(compression, "decompress")
        if not self._has_own:
            _need_wire(compression)
        if op not in (Op.SUM, Op.AVG):
            raise Invalid(f"an optimizer got {op!s}; gradients are added or "
                          "averaged: give SUM or AVG")
        self._op = op
        self._scales = prescale, postscale
        self._members = members
        self._compression = compression
        self._wire = compression if self._has_own \
            else _Wire(_WIRES[compression])
        self._bucket_bytes = bucket_bytes
        self._is_dense = sparse_as_dense
        self.passes = passes
        self._tensors: _Tensors | None = None
        self._left: dict[Parameter, int] = {}
        self._sparse: dict[Parameter, int] = {}  # and their dimensions
        self._has_agreed = False  # on these, in this generation
        self._hooked: list[typing.Any] = []
        self._has_begun = False
        self._beginning = threading.Lock()  # guards it
        self.take(parameters)
        context().on_leave.append(_weak(self._leave))

    def unknown(self, parameters: typing.Iterable[Parameter]
                ) -> list[Parameter]:
        """Those that are not reduced yet."""
        return [p for p in parameters if p not in self._left and p.numel()]

    def take(self, parameters: typing.Iterable[Parameter]) -> None:
        """Reduce their gradients as well, from now on; between steps."""
        more = self.unknown(parameters)
        self._left.update(dict.fromkeys(more, self.passes))
        self._hooked += [self._hook(p) for p in more]
        self._has_agreed = self._has_agreed and not more

    def _agree(self) -> bool:
        """Which are sparse is what some rank has. Returns whether all ranks
        have said so: those that have joined come to it later."""
        members = members_of(self._members)
        there = members.allreduce(torch.ones(1, dtype=torch.int32))
        dimensions = torch.tensor([
            0 if p.grad is None or not p.grad.is_sparse or self._is_dense
            else p.grad.sparse_dim() if p.grad._nnz() else 1
            for p in self._left], dtype=torch.int32)
        if len(dimensions):
            members.allreduce(dimensions, dimensions, op=Op.MAX)
        self._sparse = {p: n for p, n in zip(self._left, dimensions.tolist())
                        if n > 0}
        mine = [p for p in self._left
                if p not in self._sparse and not self._goes_last(p)]
        if self._tensors is None or list(self._tensors.of) != mine:
            self._tensors = None if not mine else _Tensors(
                mine, self._members, sum=self._op == Op.SUM, may_miss=True,
                scale=self._scales[1], bucket_bytes=self._bucket_bytes,
                compression=self._compression)
        self._has_agreed = True
        return int(there) == members.size

    def _hook(self, parameter: Parameter) -> typing.Any:
        """Be told when its gradient has been added; the node lives as long as
        something holds it."""
        node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
        arrived = _weak(self._arrived)
        node.register_hook(lambda *_: arrived(parameter))
        return node

    def _arrived(self, parameter: Parameter) -> None:
        self._left[parameter] -= 1
        if self._left[parameter] < 0:
            raise Invalid("a gradient was computed more often than "
                          f"{self.passes} times before step; give a larger "
                          "number of backward passes, or call step")
        if self._left[parameter] == 0:
            self._put(parameter)

    def _begin(self) -> None:
        with self._beginning:
            if self._tensors is not None and not self._has_begun:
                self._tensors.reducer.start_step()
            self._has_begun = True

    def _put(self, parameter: Parameter) -> None:
        """Its gradient is there; it becomes the reduced one."""
        found = parameter.grad
        if found is None or not self._has_agreed or parameter in self._sparse:
            return
        if found.is_sparse:
            if not self._is_dense:
                raise Unsupported(
                    "a gradient is sparse that no rank had sparse in the "
                    "first step; make the optimizer with sparse_as_dense=True")
            found = parameter.grad = found.to_dense()
        if self._tensors is not None and parameter in self._tensors.of:
            self._begin()
            parameter.grad = self._tensors.put(parameter, found,
                                               self._scales[0])

    @property
    def is_under_way(self) -> bool:
        """Whether a gradient has arrived that is not reduced yet."""
        return any(left != self.passes for left in self._left.values())

    def finish(self, among: list[Parameter] | None = None) -> None:
        """Reduce what is left, with zeros where a rank has no gradient, and
        wait: grad is the reduced one then. among: all others were reduced."""
        due = list(self._left) if among is None else among
        is_first, are_all = not self._has_agreed, True
        try:
            if is_first:
                are_all = self._agree()
            for parameter in due:
                if is_first or self._left[parameter] > 0:
                    self._put(parameter)
            self._begin()
            if self._tensors is not None:
                self._tensors.reducer.finish()
                for parameter in due:
                    if parameter.grad is None and parameter in self._tensors.of:
                        parameter.grad = self._tensors.of[parameter][1]
            self._reduce_together(
                [p for p in due if p not in self._sparse
                 and self._goes_last(p)])
            for parameter in due:
                if parameter in self._sparse:
                    self._reduce_rows(parameter)
        finally:
            self._has_agreed = self._has_agreed and are_all
            self.reset()

    def _reduce_rows(self, parameter: Parameter) -> None:
        """A sparse gradient becomes the sum of all ranks' rows."""
        axes, shape = self._sparse[parameter], parameter.shape
        found = parameter.grad
        if found is None or found.is_sparse and not found._nnz():
            found = torch.sparse_coo_tensor(  # zero_grad forgets the axes
                torch.empty(axes, 0, dtype=torch.int64),
                parameter.new_empty((0,) + shape[axes:]), shape)
        if not found.is_sparse:
            found = found.detach().to_sparse(axes)
        elif found.sparse_dim() != axes:
            found = found.to_dense().to_sparse(axes)
        found = found.coalesce()
        members = members_of(self._members)
        places = allgather(found.indices().t().contiguous(), members=members)
        values = allgather(found.values(), members=members)
        scale = self._scales[0] * self._scales[1] / \
            (members.size if self._op == Op.AVG else 1)
        parameter.grad = torch.sparse_coo_tensor(
            places.t(), values * scale, found.shape).coalesce()

    def _goes_last(self, parameter: Parameter) -> bool:
        """Whether its gradient is reduced when the step ends: those of a GPU,
        and all where the program has a compression of its own."""
        return self._has_own or parameter.device.type != "cpu"

    def _reduce_together(self, parameters: list[Parameter]) -> None:
        if not parameters:
            return
        for one in parameters:
            if one.grad is None:
                one.grad = torch.zeros_like(one)
            elif one.grad.is_sparse:
                one.grad = one.grad.to_dense()
        given = [self._wire.compress(one.grad.detach()) for one in parameters]
        sent = [dense(one) for one, _ in given]
        members_of(self._members).grouped_allreduce(
            sent, sent, op=self._op, prescale=self._scales[0],
            postscale=self._scales[1])
        for one, found, (_, how) in zip(parameters, sent, given):
            one.grad.detach().copy_(self._wire.decompress(found, how).view(
                one.shape))

    def _leave(self) -> None:
        """A change has ended the step."""
        self.reset()
        self._has_agreed = False

    def reset(self) -> None:
        """A step has ended."""
        self._left = {p: self.passes for p in self._left}
        self._has_begun = False


class _Reducing:
    """What DistributedOptimizer adds to an optimizer's class."""

    def trained(self) -> list[Parameter]:
        """What it trains now."""
        groups = self.param_groups  # type: ignore[attr-defined]
        return [p for group in groups for p in group["params"]
                if p.requires_grad]


class Distributed(_Reducing):
    """Gradients are reduced."""

    gradients: Gradients
    _is_skipped = _is_synchronized = False

    def synchronize(self) -> None:
        """Wait for the reduced gradients, to clip them: then call step inside
        of skip_synchronize. Parameters that were added or begin to learn
        after the optimizer was made are reduced as well."""
        more = self.gradients.unknown(self.trained())
        self.gradients.finish()
        if more:
            self.gradients.take(more)
            self.gradients.finish(more)
        self._is_synchronized = True

    @contextlib.contextmanager
    def skip_synchronize(self) -> typing.Iterator[None]:
        """step does not reduce gradients here."""
        self._is_skipped = True
        try:
            yield
        finally:
            self._is_skipped = False

    def step(self, closure: typing.Any = None) -> typing.Any:
        """Reduce the gradients, and step."""
        loss = closure() if closure is not None else None
        if not self._is_skipped:
            if self._is_synchronized:
                warnings.warn("optimizer.step() called without "
                              "optimizer.skip_synchronize() after "
                              "synchronize: gradients are reduced twice")
            self.synchronize()
        self._is_synchronized = False
        super().step()  # type: ignore[misc]
        return loss

    def zero_grad(self, *arguments: typing.Any, **named: typing.Any) -> None:
        """As of any optimizer; not between backward and step."""
        if self.gradients.is_under_way:
            raise Invalid("zero_grad was called between backward and step, "
                          "while gradients are being reduced; call step or "
                          "synchronize first")
        super().zero_grad(*arguments, **named)  # type: ignore[misc]

    def set_backward_passes_per_step(self, passes: int) -> None:
        """How many backward passes a step has, from the next one on."""
        if self.gradients.is_under_way:
            raise Invalid("the number of backward passes was changed between "
                          "backward and step; call step first")
        self.gradients.passes = passes
        self.gradients.reset()


class DistributedAdasum(_Reducing):
    """Each rank takes its own step; what the steps change is combined."""

    is_adasum = True
    members: Set | None
    wire: torch.dtype | None
    _tensors: _Tensors | None = None

    def step(self, closure: typing.Any = None) -> typing.Any:
        """Step, with the change that all ranks' changes make together."""
        loss = closure() if closure is not None else None
        trained = [p for p in self.trained() if p.numel()]
        if self._tensors is None or set(self._tensors.of) != set(trained):
            self._tensors = _Tensors(trained, self.members, self.wire,
                                     adasum=True)
        before = [one.detach().clone() for one in trained]
        super().step()  # type: ignore[misc]
        self._tensors.reducer.start_step()
        for one, old in zip(trained, before):
            self._tensors.put(one, one.detach() - old)
        self._tensors.reducer.finish()
        for one, old in zip(trained, before):
            one.detach().copy_(old + self._tensors.of[one][1].to(one.device))
        return loss

    def synchronize(self) -> None:
        """step does it."""

    def skip_synchronize(self) -> typing.Any:
        """Not there: the step is what is reduced."""
        raise Invalid("skip_synchronize was called on an optimizer with "
                      "Adasum, whose steps are reduced; call step alone")

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Any number: gradients stay on their rank."""


class Alone(_Reducing):
    """Nothing is reduced, since this rank is outside of the set."""

    def synchronize(self) -> None:
        """Nothing."""

    def skip_synchronize(self) -> typing.Any:
        """Nothing."""
        return contextlib.nullcontext()

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Any number."""


def with_added(optimizer: torch.optim.Optimizer, added: type) -> typing.Any:
    """An optimizer of the same class, with another class before it, and with
    the same state."""
    plain = type(optimizer)
    kind = type(plain.__name__, (added, plain), {"plain_class": plain})
    made = kind.__new__(kind)
    made.__dict__.update({key: value
                          for key, value in optimizer.__dict__.items()
                          if key != "step"})  # a scheduler's
    return made


def _need_wire(compression: typing.Any) -> None:
    if compression not in _WIRES:
        raise Invalid(f"compression is {compression!r}; give one of "
                      "None, 'f16' and 'bf16'")


def DistributedOptimizer(  # pylint: disable=invalid-name
        optimizer: torch.optim.Optimizer, *, op: Op = Op.AVG,
        members: Set | None = None,
        compression: typing.Any = None, passes: int = 1,
        bucket_bytes: int = 0, prescale: float = 1.0,
        postscale: float = 1.0, sparse_as_dense: bool = False,
        adasum: bool = False) -> torch.optim.Optimizer:
    """The optimizer with reduced gradients; of the same class, and with the
    same state.

    members: the set that reduces; the world if none is named. compression:
    'f16' or 'bf16' on the way, or an object with compress and decompress, as
    Horovod has them; then gradients are reduced when the step ends. passes:
    backward passes whose gradients are added before they are reduced.
    bucket_bytes: 0: what is fastest. adasum: each rank takes the step of its
    own gradients, and Adasum combines what the steps change; op and the scales
    don't matter.
    """
    made = with_added(optimizer, DistributedAdasum if adasum else Distributed)
    if adasum:
        _need_wire(compression)
        made.members, made.wire = members, _WIRES[compression]
    else:
        made.gradients = Gradients(
            made.trained(), op=op, members=members, compression=compression,
            passes=passes, bucket_bytes=bucket_bytes, prescale=prescale,
            postscale=postscale, sparse_as_dense=sparse_as_dense)
    return made
