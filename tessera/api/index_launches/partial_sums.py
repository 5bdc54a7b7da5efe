"""Prove that what the points of a kernel write are partial sums: linear in what is cut, along every path of its graph.

The kernel is raised to a graph on small arrays.  Along a mesh axis a value is whole on every device, a shard, or a
partial sum; a product or a sum along the dimension that is cut makes a partial sum of a shard.  Sums of partial sums,
their products with what is whole, and conversions between floats are partial sums again.  Everything else is not: a
maximum, a bias that every point would add.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast
from weakref import WeakKeyDictionary

import numpy as np

from tessera.api.index_launches.point_signature import PointParameter
from tessera.core.base.dtypes import DType
from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import BadIndexLaunch, NoImplementation
from tessera.core.graph.expr import Apply, Argument, Expr
from tessera.core.graph.graph import Graph, Node, Value
from tessera.core.graph.index_maps import IndexMap
from tessera.graphs.raised_kernel import raise_kernel
from tessera.kernels.kernel import Kernel
from tessera.lowering.graph.expand_calls import expand_calls

_HINT: Final = (
    "write what is summed over alone, C[:] = A @ B, or gather first: declare the extent whole, K instead of K/tp"
)
_SMALL: Final = (4, 6, 5, 7, 3, 8, 9, 2)
_PROVED: Final[WeakKeyDictionary[Kernel, set[tuple[object, ...]]]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class _State:
    """A value along one mesh axis.  cut: the dimensions of which each device has a shard; partial: a partial sum."""

    cut: frozenset[int] = frozenset()
    partial: bool = False


class _NoSum(Exception):
    """A node that makes no partial sum."""


def require_sums(
    kernel: Kernel, parameters: Sequence[PointParameter], partial: Mapping[str, Sequence[str]],
    dtypes: Mapping[str, DType], numbers: Mapping[str, object],
) -> None:  # fmt: skip
    """Raise BadIndexLaunch where points do not hold partial sums of each parameter in `partial`, along its axes.

    dtypes: of the arrays; numbers: the other arguments
    """
    axes = {axis for each in partial.values() for axis in each}
    key = (tuple(sorted((name, tuple(each)) for name, each in partial.items())), tuple(sorted(dtypes.items(), key=str)))
    proved = _PROVED.setdefault(kernel, set())
    if key in proved:
        return
    given = _examples(parameters, dtypes, numbers)
    divided = {axis: 1 for each in parameters for extent in each.extents or () for axis in extent.axes}
    try:
        raised = raise_kernel(kernel.with_constants(dict(divided))).graph_for(*given.values())
    except NoImplementation:
        raise
    except TesseraError as mistake:
        what = f"what the points of {kernel.source.name} hold cannot be seen to be partial sums: {mistake.message}"
        raise BadIndexLaunch(what, hint=_HINT) from None
    graph = expand_calls(raised.graph)
    arrays = [each for each in parameters if each.name in dtypes]
    written = [each.name for each in parameters if each.writes]
    for axis in sorted(axes):
        states = [_given(each, axis, partial) for each in arrays]
        try:
            found = dict(zip(written, _run(graph, states), strict=True))
        except _NoSum as mistake:
            what = f"the points of {kernel.source.name} hold no partial sums along {axis}: {mistake}"
            raise BadIndexLaunch(what, hint=_HINT) from None
        for name in (name for name, each in partial.items() if axis in each):
            if not found[name].partial:
                what = (
                    f"the points of {kernel.source.name} hold no partial sums along {axis}: {name} is the same in each"
                )
                raise BadIndexLaunch(what, hint=_HINT)
    proved.add(key)


def _examples(
    parameters: Sequence[PointParameter], dtypes: Mapping[str, DType], numbers: Mapping[str, object]
) -> dict[str, object]:
    names = dict.fromkeys(extent.name for each in parameters for extent in each.extents or ())
    sizes = {name: int(name) if name.isdigit() else _SMALL[place % len(_SMALL)] for place, name in enumerate(names)}
    found: dict[str, object] = {}
    for each in parameters:
        if each.name in dtypes and each.extents is not None:
            shape = tuple(sizes[extent.name] for extent in each.extents)
            found[each.name] = np.ones(shape, dtypes[each.name].numpy)
        elif each.name in numbers:
            found[each.name] = numbers[each.name]
    return found


def _given(parameter: PointParameter, axis: str, partial: Mapping[str, Sequence[str]]) -> _State:
    """Return the state of an argument; what is written begins as a partial sum: one device has it, others nothing."""
    if axis in partial.get(parameter.name, ()):
        return _State(partial=True)
    return _State(frozenset(n for n, extent in enumerate(parameter.extents or ()) if axis in extent.axes))


def _run(graph: Graph, given: Sequence[_State]) -> list[_State]:
    known: dict[Value, _State] = {value: _State() for value in graph.inputs}
    known.update(zip(graph.inputs, given, strict=False))
    for node in graph.nodes:
        found = _result(node, [known[each] for each in node.operands])
        known.update((each, found) for each in node.results)
    return [known[value] for value in graph.outputs]


def _result(node: Node, operands: Sequence[_State]) -> _State:
    if not any(each.cut or each.partial for each in operands):
        return _State()
    if node.op == "map":
        axes = cast("Sequence[Sequence[int]]", node.attributes["axes"])
        cut = frozenset(axes[n][axis] for n, each in enumerate(operands) for axis in each.cut)
        partial = _is_partial(node.expr, [each.partial for each in operands])
        if cut and partial:
            raise _NoSum("a partial sum meets a shard")
        return _State(cut, partial)
    if node.op == "contract":
        return _product(node, operands)
    if node.op == "reduce":
        return _reduced(node, operands[0])
    if isinstance(node.body, IndexMap):
        return _viewed(node.body, operands[0], node.operands[0].type.shape)
    raise _NoSum(f"{node.op} is none")


def _product(node: Node, operands: Sequence[_State]) -> _State:
    labels = cast("Sequence[Sequence[int]]", node.attributes["labels"])
    result = list(cast("Sequence[int]", node.attributes["result"]))
    cut = [frozenset(names[axis] for axis in each.cut) for names, each in zip(labels, operands, strict=True)]
    summed = [name for name in cut[0] | cut[1] if name not in result]
    if any(name not in mine and name in names for name in summed for mine, names in zip(cut, labels, strict=True)):
        raise _NoSum("a shard is multiplied with what is whole")
    if sum((operands[0].partial, operands[1].partial, bool(summed))) > 1:
        raise _NoSum("two partial sums are multiplied")
    kept = frozenset(result.index(name) for name in cut[0] | cut[1] if name in result)
    return _State(kept, bool(summed) or operands[0].partial or operands[1].partial)


def _reduced(node: Node, operand: _State) -> _State:
    removed = cast("Sequence[int]", node.attributes["axes"])
    across = bool(operand.cut & set(removed))
    if (across or operand.partial) and node.attributes["kind"] != "sum":
        raise _NoSum(f"a {node.attributes['kind']} along what is cut is none")
    kept = frozenset(axis - sum(each < axis for each in removed) for axis in operand.cut if axis not in removed)
    return _State(kept, across or operand.partial)


def _viewed(view: IndexMap, operand: _State, shape: Sequence[int]) -> _State:
    cut: set[int] = set()
    for axis in operand.cut:
        place = view.axes[axis].axis
        if place is None or view.shape[place] != shape[axis]:
            raise _NoSum("elements move along what is cut")
        cut.add(place)
    return _State(frozenset(cut), operand.partial)


def _is_partial(expr: Expr, partial: Sequence[bool]) -> bool:
    """Return whether an expression of elements is a partial sum.  Raises _NoSum where it is neither that nor whole."""
    if isinstance(expr, Argument):
        return partial[expr.number]
    if not isinstance(expr, Apply):
        return False
    parts = [_is_partial(each, partial) for each in expr.operands]
    if not any(parts):
        return False
    scaled = expr.opcode == "mul" and sum(parts) == 1
    divided = expr.opcode == "div" and parts == [True, False]
    added = expr.opcode in ("add", "sub") and all(parts)
    rounded = expr.opcode == "cast" and expr.dtype.is_float and expr.operands[0].dtype.is_float
    fused = expr.opcode == "fma" and sum(parts[:2]) == 1 and parts[2]
    if scaled or divided or added or rounded or fused or expr.opcode == "neg":
        return True
    raise _NoSum(f"{expr.opcode} of a partial sum is none")
