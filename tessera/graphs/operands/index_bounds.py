"""Bounds of index arrays: an index outside its axis is refused where the host can read it.

A kernel cannot raise: an index outside gives 0, or changes nothing.  Looking at an array on a GPU would wait for it, so
there that is what remains.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tessera.core.base.dtypes import promote
from tessera.core.base.source import Source, Span
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.expr import Argument, cast
from tessera.core.graph.graph import Node, Value
from tessera.core.graph.index_maps import is_reshape
from tessera.runtime.arrays.host import AnyArray
from tessera.runtime.arrays.interop import is_torch
from tessera.runtime.memory.device_arrays import is_on_device


@dataclass(frozen=True, slots=True)
class IndexBound:
    """An input of a graph whose integers pick among `extent` elements.

    input: its number; lowest: 0, or -extent where negative indices count from the end; span: of the subscript
    """

    input: int
    lowest: int
    extent: int
    span: Span


def same_integers(value: Value, producers: Mapping[Value, Node]) -> Value:
    """Return the value that another one has the integers of, in another shape, order or longer dtype; or itself."""
    while (node := producers.get(value)) is not None:
        operand = node.operands[0] if node.operands else value
        if node.op == "view":
            every_one = is_reshape(node.index_map, operand.type.shape) or node.index_map.permutation is not None
        else:
            every_one = node.op == "map" and node.expr == cast(Argument(0, operand.type.dtype), node.result.type.dtype)
            every_one = every_one and promote(operand.type.dtype, node.result.type.dtype) == node.result.type.dtype
        if not every_one:
            return value
        value = operand
    return value


def first_outside(bounds: Sequence[IndexBound], arrays: Sequence[object]) -> tuple[IndexBound, int] | None:
    """Return a bound and an index in host memory that breaks it; None where all are inside.

    arrays: of the inputs; those of NumPy, and PyTorch's in host memory, are looked at
    """
    for bound in bounds:
        numbers = _on_host(arrays[bound.input])
        if numbers is None or not numbers.size:
            continue
        for index in (int(numbers.min()), int(numbers.max())):
            if not bound.lowest <= index < bound.extent:
                return bound, index
    return None


def require_inside(bounds: Sequence[IndexBound], arrays: Sequence[object], source: Source) -> None:
    """Raise OperandMismatch, with the place in the captured function, for an index that is outside of its axis."""
    broken = first_outside(bounds, arrays)
    if broken is not None:
        bound, index = broken
        hint = f"indices go from {bound.lowest} to {bound.extent - 1}" if bound.extent else "the axis is empty"
        message = f"index {index} is outside an axis of {bound.extent}"
        raise OperandMismatch(message, bound.span, hint).with_source(source)


def _on_host(array: object) -> AnyArray | None:
    """Return the integers of an array in host memory; None for other arrays."""
    if type(array) is np.ndarray:
        return array if array.dtype.kind in "iu" else None
    if is_torch(array) and not is_on_device(array):
        return _on_host(np.asarray(array))
    return None
