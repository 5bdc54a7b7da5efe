"""Gradients of PyTorch through graphs: a call on tensors that require them is one node of PyTorch's own graph.

before: `op.softmax(w)`, w a torch tensor that requires a gradient; the result was a constant to PyTorch
after:  the result has a `grad_fn`, whose backward pass runs the derivative of the captured graph, also under
        `create_graph=True`, as that is a call on tensors again
"""

import functools
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Protocol, TypeAlias, cast

from tessera.runtime.arrays.interop import is_tensor

Run: TypeAlias = Callable[..., tuple[object, ...]]
"""Computes results of arrays."""
Pull: TypeAlias = Callable[[Sequence[object], Sequence[object], tuple[int, ...]], tuple[object, ...]]
"""Computes the cotangents of the arrays that numbers name, of all arrays and the cotangents of the results."""


class _Context(Protocol):
    """PyTorch's memory from a node's forward pass to its backward pass."""

    saved_tensors: Sequence[object]
    needs_input_grad: Sequence[bool]
    arrays: Sequence[object]
    pull: Pull

    def save_for_backward(self, *tensors: object) -> None: ...
    def mark_non_differentiable(self, *tensors: object) -> None: ...


class _NodeType(Protocol):
    def apply(self, run: Run, pull: Pull, *arrays: object) -> tuple[object, ...]: ...


def requires_gradients(arrays: Sequence[object]) -> bool:
    """Return whether PyTorch would record an operation on these arrays."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    return any(is_tensor(each) and each.requires_grad for each in arrays) and bool(torch.is_grad_enabled())


def recorded(run: Run, pull: Pull, arrays: Sequence[object]) -> tuple[object, ...]:
    """Return the results of `run` as those of one differentiable operation of PyTorch.

    Arrays of other libraries among the operands have no gradient; results of integers have none either.
    """
    return _node_type(sys.modules["torch"]).apply(run, pull, *arrays)


@functools.cache
def _node_type(torch: ModuleType) -> _NodeType:
    """Return a `torch.autograd.Function`, which can only be told of where PyTorch is imported."""

    def forward(context: _Context, run: Run, pull: Pull, *arrays: object) -> tuple[object, ...]:
        results = run(*arrays)
        context.pull = pull
        # Tensors are saved by PyTorch, which notices where one is written before it is needed again.
        context.arrays = [None if is_tensor(each) else each for each in arrays]
        context.save_for_backward(*(each for each in arrays if is_tensor(each)))
        context.mark_non_differentiable(*(each for each in results if is_tensor(each) and not _is_float(each)))
        return results

    def backward(context: _Context, *cotangents: object) -> tuple[object, ...]:
        saved = iter(context.saved_tensors)
        arrays = [next(saved) if each is None else each for each in context.arrays]
        _, _, *needed = context.needs_input_grad
        numbers = tuple(number for number, each in enumerate(needed) if each)
        gradients = dict(zip(numbers, context.pull(arrays, cotangents, numbers), strict=True))
        return None, None, *(gradients.get(number) for number in range(len(arrays)))

    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return cast("_NodeType", type("TesseraGraph", (torch.autograd.Function,), methods))


def _is_float(tensor: object) -> bool:
    return bool(getattr(tensor, "is_floating_point")())  # noqa: B009 - no other library's arrays come here
