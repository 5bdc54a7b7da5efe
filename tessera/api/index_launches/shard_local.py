"""Call functions of operators with tensors on a mesh: a point a shard, where no point needs elements of another one.

The function is captured on the whole shapes, and the cuts of its arguments are carried through the graph, node by node.
What mixes elements of several shards is refused, with the line that does.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, cast

import numpy as np

from tessera.api.index_launches.launch import LaunchedOver, LaunchReport
from tessera.core.errors.base import TesseraError
from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import BadIndexLaunch
from tessera.core.graph.expr import Expr
from tessera.core.graph.graph import Graph, Node, Value
from tessera.core.graph.index_maps import IndexMap
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.placement import Placement
from tessera.core.placement.sharded_type import ShardedType
from tessera.core.placement.splits import Split
from tessera.dist.tensors import Tensor
from tessera.graphs.function import GraphFunction
from tessera.graphs.ready import Captured
from tessera.graphs.structure import unflatten
from tessera.graphs.trace import is_operand
from tessera.lowering.graph.expand_calls import expand_calls

Cuts = tuple[Split, ...]
"""How each dimension of a value is cut."""
_WHOLE: Final = Split()
_RESHARD: Final = "bring it together first: X = dist.reshard(X, ...); or say what a point does with index_launch(...)"


def on_mesh(values: Sequence[object]) -> bool:
    """Return whether one of the values is a tensor on a mesh."""
    return any(isinstance(each, Tensor) for each in values)


def launch_on_shards(
    function: GraphFunction[..., object], arguments: Sequence[object], keywords: Mapping[str, object]
) -> object:
    """Run a function on the shards of its arguments; what it returns becomes tensors on the mesh.

    Returns the report of the launch where the function returns nothing.
    Raises BadIndexLaunch where a point would need elements of another one.
    """
    values = (*arguments, *keywords.values())
    tensors = [each for each in values if isinstance(each, Tensor)]
    mesh = tensors[0].mesh
    whole = _captured(function, arguments, keywords, larger=1)
    given = [_cuts(each) for each in values if isinstance(each, Tensor) or is_operand(each)]
    launched = LaunchedOver(function, tuple(a for a in mesh.axes if any(a in each.placement.axes for each in tensors)))
    try:
        cuts = _outputs(whole.graph, given)
        made = iter([_declared(value, cut, mesh) for value, cut in zip(whole.graph.outputs, cuts, strict=True)])
        returned = unflatten(whole.structure, made.__next__)
        if getattr(function, "regions", None):
            returned, written = cast("tuple[object, dict[str, Tensor]]", returned)
            _require_written_so(written, launched.bound(arguments, keywords))
        _require_same(function.name, whole.graph, _captured(function, arguments, keywords, larger=2).graph)
    except TesseraError as mistake:
        raise at_call(mistake.with_source(whole.graph.source)) from None
    report = launched(*arguments, **keywords)
    return _filled(returned, report)


def _captured(
    function: GraphFunction[..., object], arguments: Sequence[object], keywords: Mapping[str, object], *, larger: int
) -> Captured:
    """Return the function captured on whole shapes, with dimensions that are cut `larger` times what they are."""

    def example(value: object) -> object:
        if not isinstance(value, Tensor):
            return value
        pairs = zip(value.shape, value.placement.splits, strict=True)
        shape = tuple(extent * larger if split.axes else extent for extent, split in pairs)
        return np.broadcast_to(np.zeros((), value.dtype), shape)

    named = {name: example(value) for name, value in keywords.items()}
    return function.graph_for(*map(example, arguments), **named)


def _cuts(value: object) -> Cuts:
    return value.placement.splits if isinstance(value, Tensor) else (_WHOLE,) * np.ndim(cast("int", value))


def _declared(value: Value, cuts: Cuts, mesh: Mesh) -> Tensor:
    return Tensor(ShardedType(value.type.dtype, value.type.shape, Placement(cuts)), mesh)


def _outputs(captured: Graph, given: Sequence[Cuts]) -> list[Cuts]:
    """Return the cuts of a graph's outputs, from those of its inputs; arrays that it closes over are whole."""
    graph = expand_calls(captured)
    rest = [(_WHOLE,) * len(value.type.shape) for value in graph.inputs[len(given) :]]
    known: dict[Value, Cuts] = dict(zip(graph.inputs, (*given, *rest), strict=True))
    for node in graph.nodes:
        operands = [known[each] for each in node.operands]
        for result in node.results:
            known[result] = _result(node, operands, len(result.type.shape))
    return [known[value] for value in graph.outputs]


def _result(node: Node, operands: Sequence[Cuts], rank: int) -> Cuts:
    """Return how the result of a node is cut.  Raises BadIndexLaunch where a point would lack elements."""
    if not any(split.axes for each in operands for split in each):
        return (_WHOLE,) * rank
    if node.op == "map":
        return _joined(node, operands, cast("Sequence[Sequence[int]]", node.attributes["axes"]), range(rank))
    if node.op == "contract":
        labels = cast("Sequence[Sequence[int]]", node.attributes["labels"])
        return _joined(node, operands, labels, cast("Sequence[int]", node.attributes["result"]))
    if node.op == "reduce":
        removed = cast("Sequence[int]", node.attributes["axes"])
        kept = [axis for axis in range(len(operands[0])) if axis not in removed]
        return _joined(node, operands, [range(len(operands[0]))], kept)
    if isinstance(node.body, IndexMap):
        return _viewed(node, operands[0], node.body)
    if node.op in ("concat", "scan"):
        axis = cast("int", node.attributes["axis"])
        if not any(each[axis].axes for each in operands):
            return _joined(node, operands, [range(rank)] * len(operands), range(rank))
    raise _refused(node, f"{_name(node)} mixes elements of several shards")


def _joined(node: Node, operands: Sequence[Cuts], labels: Sequence[Sequence[int]], result: Sequence[int]) -> Cuts:
    """Return the cuts of a result's axes: equal labels are one axis, which every operand cuts in the same way."""
    found: dict[int, Split] = {}
    for cuts, names in zip(operands, labels, strict=True):
        for split, name in zip(cuts, names, strict=True):
            if found.setdefault(name, split) != split:
                one, other = (_by(each) for each in (found[name], split))
                raise _refused(node, f"{_name(node)} meets elements that are {one}, and others that are {other}")
    for name, split in found.items():
        if split.axes and name not in result:
            raise _refused(node, f"{_name(node)} sums or reduces along a dimension that is {_by(split)}")
    return tuple(found.get(name, _WHOLE) for name in result)


def _viewed(node: Node, cuts: Cuts, view: IndexMap) -> Cuts:
    found = [_WHOLE] * len(view.shape)
    extents = node.operands[0].type.shape
    for split, affine, extent in zip(cuts, view.axes, extents, strict=True):
        if split.axes:
            if affine.axis is None or view.shape[affine.axis] != extent:
                raise _refused(node, f"{_name(node)} moves elements along a dimension that is {_by(split)}")
            found[affine.axis] = split
    return tuple(found)


def _require_same(name: str, whole: Graph, larger: Graph) -> None:
    """Raise BadIndexLaunch where a function uses an extent that is cut as a number: a shard's is another one."""
    for one, other in zip(_computed(whole), _computed(larger), strict=False):
        if one != other:
            what = f"{name} uses the extent of a dimension that is cut as a number"
            raise BadIndexLaunch(what, hint="hand the number over as an argument")


def _computed(graph: Graph) -> Iterator[tuple[object, ...]]:
    for node in graph.nodes:
        yield (node.op, len(node.operands), node.body if isinstance(node.body, Expr) else None)


def _require_written_so(written: Mapping[str, Tensor], given: Mapping[str, object]) -> None:
    """Raise BadIndexLaunch where what is written is cut in another way than the tensor that it is written to."""
    for name, value in written.items():
        target = given[name]
        if isinstance(target, Tensor) and target.placement.splits != value.placement.splits:
            what = f"{name} is {target.type}, and what is written to it is {value.type}"
            raise BadIndexLaunch(what, hint=f"declare {name} so, or reshard the others")


def _filled(returned: object, report: LaunchReport) -> object:
    """Return the tensors that a function returned, with what its points returned in them."""
    if returned is None:
        return report
    made = [returned] if isinstance(returned, Tensor) else list(cast("Sequence[object]", returned))
    for rank, result in zip(report.ranks, report.results, strict=True):
        parts = [result] if isinstance(returned, Tensor) else list(cast("Sequence[object]", result))
        for tensor, part in zip(made, parts, strict=True):
            if isinstance(tensor, Tensor):
                tensor.put(rank, np.asarray(part))
    return returned


def _by(split: Split) -> str:
    return f"cut by {'*'.join(split.axes)}" if split.axes else "whole"


def _name(node: Node) -> str:
    return node.origin.composite[-1] if node.origin.composite else node.op


def _refused(node: Node, what: str) -> BadIndexLaunch:
    return BadIndexLaunch(what, node.span, hint=_RESHARD)
