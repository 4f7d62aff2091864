"""An optimizer whose gradients are reduced over all ranks while backward runs.

The parameters are dealt to buckets, from the last to the first, by their sizes
alone; so the plan is equal on all ranks, and nothing is negotiated. A bucket is
reduced once its gradients and the buckets before it are there.
"""

from __future__ import annotations

import contextlib
import typing

import torch

from .._abi import Op
from .._errors import Invalid, Unsupported
from .._sets import Set
from .._wait import Request, wait_all
from ._functions import context, members_of

Parameter = torch.nn.Parameter
BUCKET_BYTES = 25 << 20
_WIRES = {None: None, "f16": torch.float16, "bf16": torch.bfloat16}


class _Bucket:
    """Gradients that are reduced together."""

    def __init__(self, parameters: typing.List[Parameter],
                 wire: typing.Optional[torch.dtype]) -> None:
        first = parameters[0]
        kind = wire if wire is not None and first.is_floating_point() \
            else first.dtype
        self.parameters = parameters
        self.flat = torch.zeros(sum(p.numel() for p in parameters),
                                dtype=kind, device=first.device)
        self.views = dict(zip(parameters, self.flat.split(
            [p.numel() for p in parameters])))
        self.missing = set(parameters)
        self.request: typing.Optional[Request] = None

    def take(self, parameter: Parameter, is_dense: bool) -> None:
        """A gradient is there."""
        found = parameter.grad
        if found is None:
            found = parameter.grad = torch.zeros_like(parameter)
        if found.is_sparse:
            if not is_dense:
                raise Unsupported(
                    "a gradient is sparse, and is not reduced; make the "
                    "optimizer with sparse_as_dense=True")
            found = parameter.grad = found.to_dense()
        self.views[parameter].copy_(found.detach().reshape(-1))
        self.missing.discard(parameter)

    def give(self) -> None:
        """The reduction is there."""
        for parameter, view in self.views.items():
            parameter.grad.detach().copy_(view.view(parameter.shape))
        self.reset()

    def reset(self) -> None:
        """Before the next step."""
        self.missing = set(self.parameters)
        self.request = None


def _dealt(parameters: typing.List[Parameter], bytes_: int,
           wire: typing.Optional[torch.dtype]) -> typing.List[_Bucket]:
    buckets: typing.List[_Bucket] = []
    part: typing.List[Parameter] = []
    used = 0
    for parameter in reversed(parameters):
        size = parameter.numel() * parameter.element_size()
        if part and (used + size > bytes_ or parameter.dtype != part[0].dtype
                     or parameter.device != part[0].device):
            buckets.append(_Bucket(part, wire))
            part, used = [], 0
        part.append(parameter)
        used += size
    return buckets + ([_Bucket(part, wire)] if part else [])


class Gradients:
    """The gradients of some parameters, reduced in each step."""

    def __init__(self, parameters: typing.List[Parameter], *, op: Op = Op.AVG,
                 members: typing.Optional[Set] = None,
                 compression: typing.Optional[str] = None, passes: int = 1,
                 bucket_bytes: int = BUCKET_BYTES, prescale: float = 1.0,
                 postscale: float = 1.0, sparse_as_dense: bool = False
                 ) -> None:
        if compression not in _WIRES:
            raise Invalid(f"compression is {compression!r}; give one of "
                          "None, 'f16' and 'bf16'")
        self._scales = {"op": op, "prescale": prescale,
                        "postscale": postscale}
        self._members = members
        self._is_dense = sparse_as_dense
        self.passes = passes
        self._bucket_bytes = bucket_bytes
        self._wire = _WIRES[compression]
        self._buckets: typing.List[_Bucket] = []
        self._bucket_of: typing.Dict[Parameter, _Bucket] = {}
        self._left: typing.Dict[Parameter, int] = {}
        self._hooked: typing.List[typing.Any] = []
        self._next = 0  # the first bucket that is not started
        self.take(parameters)
        context().on_leave.append(self.reset)

    def take(self, parameters: typing.Iterable[Parameter]) -> None:
        """Reduce their gradients as well, from the next pass on, and those
        that are there."""
        more = [p for p in parameters if p not in self._bucket_of]
        for bucket in _dealt(more, self._bucket_bytes, self._wire):
            self._buckets.append(bucket)
            self._bucket_of.update(dict.fromkeys(bucket.parameters, bucket))
        self._left.update(dict.fromkeys(more, self.passes))
        self._hooked += [self._hook(p) for p in more]

    def _hook(self, parameter: Parameter) -> typing.Any:
        """Be told when its gradient has been added; the node lives as long as
        something holds it."""
        node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
        node.register_hook(lambda *_: self._arrived(parameter))
        return node

    def _arrived(self, parameter: Parameter) -> None:
        self._left[parameter] -= 1
        if self._left[parameter] < 0:
            raise Invalid("a gradient was computed more often than "
                          f"{self.passes} times before step; give a larger "
                          "number of backward passes, or call step")
        if self._left[parameter] == 0:
            self._bucket_of[parameter].take(parameter, self._is_dense)
            self._start_ready()

    def _start_ready(self) -> None:
        while self._next < len(self._buckets) and \
                not self._buckets[self._next].missing:
            bucket = self._buckets[self._next]
            bucket.request = members_of(self._members).start_allreduce(
                bucket.flat, bucket.flat, **self._scales)
            self._next += 1

    @property
    def is_under_way(self) -> bool:
        """Whether a gradient has arrived that is not reduced yet."""
        return any(left != self.passes for left in self._left.values())

    def finish(self) -> None:
        """Reduce what is left, with zeros where a rank has no gradient, and
        wait: grad is the reduced one then."""
        for bucket in self._buckets:
            for parameter in list(bucket.missing):
                bucket.take(parameter, self._is_dense)
        self._start_ready()
        wait_all([bucket.request for bucket in self._buckets])
        for bucket in self._buckets:
            bucket.give()
        self.reset()

    def reset(self) -> None:
        """Forget a step that a change has ended."""
        for bucket in self._buckets:
            bucket.reset()
        self._left = {p: self.passes for p in self._left}
        self._next = 0


class Distributed:
    """What DistributedOptimizer adds to an optimizer's class."""

    gradients: Gradients
    _is_skipped = False

    def synchronize(self) -> None:
        """Wait for the reduced gradients, to clip them: then call step inside
        of skip_synchronize. Parameters that were added or begin to learn
        after the optimizer was made are reduced as well."""
        self.gradients.take(self.trained())
        self.gradients.finish()

    def trained(self) -> typing.List[Parameter]:
        """What it trains now."""
        groups = self.param_groups  # type: ignore[attr-defined]
        return [p for group in groups for p in group["params"]
                if p.requires_grad]

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
            self.synchronize()
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
        self.gradients.passes = passes
        self.gradients.reset()


def DistributedOptimizer(  # pylint: disable=invalid-name
        optimizer: torch.optim.Optimizer, *, op: Op = Op.AVG,
        members: typing.Optional[Set] = None,
        compression: typing.Optional[str] = None, passes: int = 1,
        bucket_bytes: int = BUCKET_BYTES, prescale: float = 1.0,
        postscale: float = 1.0, sparse_as_dense: bool = False
        ) -> torch.optim.Optimizer:
    """The optimizer with reduced gradients; of the same class, and with the
    same state.

    members: the set that reduces; the world if none is named. compression:
    'f16' or 'bf16' on the way. passes: backward passes whose gradients are
    added before they are reduced.
    """
    plain = type(optimizer)
    kind = type(plain.__name__, (Distributed, plain), {"plain_class": plain})
    made = kind.__new__(kind)
    made.__dict__.update({key: value
                          for key, value in optimizer.__dict__.items()
                          if key != "step"})  # a scheduler's
    made.gradients = Gradients(
        made.trained(), op=op, members=members, compression=compression,
        passes=passes, bucket_bytes=bucket_bytes, prescale=prescale,
        postscale=postscale, sparse_as_dense=sparse_as_dense)
    return made
