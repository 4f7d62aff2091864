"""Collectives of tensors that autograd goes through, what all ranks begin with,
and memory that workers of a host share."""

from __future__ import annotations

import typing

import torch

from .._abi import Op
from .._context import Context, current, init
from .._errors import Invalid
from .._sets import Set
from ._group import as_moved, as_rows, dense, returned

Tensor = torch.Tensor


def context() -> Context:
    """The context of this process; one that is not elastic is made if there
    is none."""
    return current() or init()


def members_of(members: Set | None) -> Set:
    """The world, if no set is named."""
    return context().world if members is None else members


def _copy(to: Tensor, used: Tensor) -> None:
    for target, source in returned(to, used):
        target.detach().copy_(source)


# --------------------------------------------------------------- gradients

class _AllReduce(torch.autograd.Function):
    """The gradient of a sum over ranks is the sum of theirs."""

    @staticmethod
    def forward(ctx: typing.Any, tensor: Tensor, op: Op, members: Set,
                prescale: float, postscale: float) -> Tensor:
        ctx.given = op, members, prescale, postscale
        return members.allreduce(
            dense(tensor), op=op, prescale=prescale,
            postscale=postscale).view(tensor.shape)

    @staticmethod
    def backward(ctx: typing.Any, *gradients: Tensor) -> typing.Any:
        if ctx.given[0] not in (Op.SUM, Op.AVG):
            raise Invalid("allreduce has a gradient for sums and averages "
                          "only")
        return _AllReduce.apply(gradients[0], *ctx.given), \
            None, None, None, None


class _AllGather(torch.autograd.Function):
    """Each rank's rows get the sum of all ranks' gradients of them."""

    @staticmethod
    def forward(ctx: typing.Any, tensor: Tensor, members: Set) -> Tensor:
        rows = dense(tensor)
        ctx.members = members
        ctx.counts = [int(n) for n in members.allgather(
            torch.tensor([len(rows)]))]
        out = rows.new_empty((sum(ctx.counts),) + tuple(rows.shape[1:]))
        members.start_allgatherv(as_rows(rows), ctx.counts,
                                 as_rows(out)).wait()
        return out

    @staticmethod
    def backward(ctx: typing.Any, *gradients: Tensor) -> typing.Any:
        mine = ctx.members.reduce_scatter(dense(gradients[0]),
                                          counts=ctx.counts)
        return mine, None


class _Broadcast(torch.autograd.Function):
    """The root gets the sum of all gradients."""

    @staticmethod
    def forward(ctx: typing.Any, tensor: Tensor, root: int,
                members: Set) -> Tensor:
        ctx.given = root, members
        made = dense(tensor).clone()
        members.broadcast(as_moved(made), root)
        return made.view(tensor.shape)

    @staticmethod
    def backward(ctx: typing.Any, *gradients: Tensor) -> typing.Any:
        root, members = ctx.given
        summed = members.reduce(dense(gradients[0]), root=root)
        return (torch.zeros_like(gradients[0]) if summed is None
                else summed.view(gradients[0].shape)), None, None


class _AllToAll(torch.autograd.Function):
    """Gradients take the way back."""

    @staticmethod
    def forward(ctx: typing.Any, tensor: Tensor, counts: list[int],
                members: Set) -> typing.Any:
        rows = dense(tensor)
        came = [int(n) for n in members.alltoall(torch.tensor(counts))]
        ctx.given = came, members
        out = rows.new_empty((sum(came),) + tuple(rows.shape[1:]))
        members.start_alltoallv(as_rows(rows), counts, came,
                                as_rows(out)).wait()
        splits = torch.tensor(came, dtype=torch.int32)
        ctx.mark_non_differentiable(splits)
        return out, splits

    @staticmethod
    def backward(ctx: typing.Any, *gradients: Tensor) -> typing.Any:
        return _AllToAll.apply(gradients[0], *ctx.given)[0], None, None


class _ReduceScatter(torch.autograd.Function):
    """Each row's gradient is that of the rank that has it."""

    @staticmethod
    def forward(ctx: typing.Any, tensor: Tensor, op: Op, members: Set,
                prescale: float, postscale: float) -> Tensor:
        rows = dense(tensor)
        ctx.scale = prescale * postscale * \
            (1 / members.size if op == Op.AVG else 1)
        ctx.members = members
        return members.reduce_scatter(rows, op=op, prescale=prescale,
                                      postscale=postscale)

    @staticmethod
    def backward(ctx: typing.Any, *gradients: Tensor) -> typing.Any:
        rows = dense(gradients[0])
        return _AllGather.apply(rows * ctx.scale, ctx.members), \
            None, None, None, None


def _need_rows(what: str, tensor: Tensor) -> None:
    if tensor.dim() == 0:
        raise Invalid(f"{what} got a scalar, which has no rows to deal; pass "
                      "a tensor of at least one dimension")


def allreduce(tensor: Tensor, *, op: Op = Op.SUM, members: Set | None = None,
              prescale: float = 1.0, postscale: float = 1.0) -> Tensor:
    """A new tensor, reduced over all members."""
    return _AllReduce.apply(tensor, op, members_of(members), prescale,
                            postscale)


def allgather(tensor: Tensor, *, members: Set | None = None) -> Tensor:
    """The rows of all members; each may have another number of them."""
    return _AllGather.apply(tensor, members_of(members))


def broadcast(tensor: Tensor, root: int = 0, *,
              members: Set | None = None) -> Tensor:
    """A new tensor with root's elements."""
    return _Broadcast.apply(tensor, root, members_of(members))


def alltoall(tensor: Tensor, counts: list[int] | None = None, *,
             members: Set | None = None) -> tuple[Tensor, Tensor]:
    """counts[r] rows go to rank r. Returns what has come, and how many rows
    of each rank."""
    group = members_of(members)
    _need_rows("alltoall", tensor)
    if counts is None:
        if len(tensor) % group.size:
            raise Invalid(f"alltoall of {len(tensor)} rows on a set of "
                          f"{group.size}; pass the splits")
        counts = [len(tensor) // group.size] * group.size
    return _AllToAll.apply(tensor, counts, group)


def reduce_scatter(tensor: Tensor, *, op: Op = Op.SUM,
                   members: Set | None = None,
                   prescale: float = 1.0, postscale: float = 1.0) -> Tensor:
    """This rank's rows of the reduction; if rows do not divide, the first
    ranks get one more."""
    _need_rows("reduce_scatter", tensor)
    return _ReduceScatter.apply(tensor, op, members_of(members), prescale,
                                postscale)


# --------------------------------------------------- equal on all ranks

def broadcast_parameters(parameters: typing.Any, root: int = 0, *,
                         members: Set | None = None) -> None:
    """Fill tensors with root's: a state_dict, named_parameters or parameters.
    """
    if isinstance(parameters, dict):
        parameters = sorted(parameters.items(), key=lambda item: item[0])
    group = members_of(members)
    for one in list(parameters):
        tensor = one[1] if isinstance(one, tuple) else one
        if not isinstance(tensor, torch.Tensor):
            raise Invalid(f"broadcast_parameters got {one!r:.60}; pass a "
                          "state_dict, named_parameters() or parameters()")
        used = dense(tensor)
        group.broadcast(as_moved(used), root)
        _copy(tensor, used)


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root: int = 0,
                              *, members: Set | None = None) -> None:
    """Give an optimizer root's state and options."""
    group = members_of(members)
    found = group.broadcast_object(optimizer.state_dict(), root)
    if group.rank != root:
        optimizer.load_state_dict(found)


def broadcast_object(value: typing.Any = None, root: int = 0, *,
                     members: Set | None = None) -> typing.Any:
    """The object that root has."""
    return members_of(members).broadcast_object(value, root)


def allgather_object(value: typing.Any, *, members: Set | None = None) -> list:
    """The objects of all members, by rank."""
    return members_of(members).allgather_object(value)


# ---------------------------------------------------------------- modules

class SyncBatchNorm(torch.nn.modules.batchnorm._BatchNorm):
    """Batch norm with the mean and the variance of all ranks' samples."""

    def __init__(self, num_features: int, eps: float = 1e-5,
                 momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True,
                 members: Set | None = None) -> None:
        super().__init__(num_features, eps, momentum, affine,
                         track_running_stats)
        self.members = members

    def _check_input_dim(self, tensor: Tensor) -> None:
        if tensor.dim() < 2:
            raise ValueError(f"SyncBatchNorm got {tensor.dim()} dimensions; "
                             "pass at least 2")

    def _take(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        self.num_batches_tracked.add_(1)
        factor = self.momentum if self.momentum is not None else \
            1 / self.num_batches_tracked.item()
        unbiased = variance * (count / (count - 1).clamp(min=1))
        for kept, new in ((self.running_mean, mean),
                          (self.running_var, unbiased)):
            kept.lerp_(new.to(kept.dtype), factor)

    def forward(self, tensor: Tensor) -> Tensor:
        """As of any batch norm."""
        self._check_input_dim(tensor)
        if not self.training and self.track_running_stats:
            return torch.nn.functional.batch_norm(
                tensor, self.running_mean, self.running_var, self.weight,
                self.bias, False, 0.0, self.eps)
        axes = [axis for axis in range(tensor.dim()) if axis != 1]
        shape = [1, -1] + [1] * (tensor.dim() - 2)
        given = tensor.dtype
        if given in (torch.float16, torch.bfloat16):
            tensor = tensor.float()  # a half can't count to 2049
        mine = tensor.numel() // tensor.shape[1]
        sums = torch.cat([tensor.sum(axes), tensor.new_tensor([mine])])
        sums = allreduce(sums, members=self.members)
        mean, count = sums[:-1] / sums[-1], sums[-1].detach()
        centred = tensor - mean.view(shape)
        variance = allreduce((centred ** 2).sum(axes),
                             members=self.members) / count
        if self.training and self.track_running_stats:
            with torch.no_grad():
                self._take(mean, variance, count)
        made = centred * (variance + self.eps).rsqrt().view(shape)
        if self.affine:
            made = made * self.weight.view(shape) + self.bias.view(shape)
        return made.to(given)


# ----------------------------------------------------------------- memory

def empty(*shape: typing.Any, dtype: torch.dtype | None = None) -> Tensor:
    """A tensor, of zeros, in memory that collectives use between the workers
    of one host without copies (Context.alloc): allocate few and large ones."""
    sizes = list(shape[0]) if shape and not isinstance(shape[0], int) \
        else list(shape)
    kind = dtype or torch.get_default_dtype()
    item = torch.empty(0, dtype=kind).element_size()
    count = 1
    for size in sizes:
        count *= size
    return torch.from_numpy(context().alloc(max(1, count) * item, "uint8")) \
        .view(kind)[:count].view(sizes)
