"""Analyse divergence, how values vary over the lanes of a group: forward dataflow over Tile IR.

The CPU target computes uniform values once a group as scalars, linear ones as one scalar a warp, the others as a vector
of 32; the CUDA target puts barriers where all lanes of a group come by, and gives lane 0 what runs once.  Control
dependence counts: what is merged under a condition that varies is varying, and so is what a loop carries whose trip
count varies.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tessera.core.mlir import AnyOp, ir
from tessera.lowering.analysis.integers import LARGEST_EXTENT
from tessera.lowering.analysis.ir_tree import IrTree, Node, is_tile

LANES: Final = 32
"""Lanes of a warp, which is one vector."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """How one value varies.

    kind: "uniform" (one value a group), "linear" (base + lane * stride; the base is one scalar a warp; a stride of
          0 is one value a warp, of any type) or "varying"
    limit: where it is not None, every lane's value is known to lie in [0, limit]
    align: a number that divides the base
    known: the value, where it is an integer constant
    """

    kind: str
    stride: int = 0
    limit: int | None = None
    align: int = 1
    known: int | None = None

    @property
    def scalar(self) -> bool:
        """Return whether all lanes of a warp hold the same value."""
        return self.kind != "varying" and self.stride == 0

    @property
    def natural(self) -> bool:
        """Return whether no lane's value is negative."""
        return self.limit is not None


UNIFORM: Final = Divergence("uniform")
VARYING: Final = Divergence("varying")


def join(a: Divergence, b: Divergence) -> Divergence:
    """Return the shape of a value that is now `a`, now `b`, as all lanes of a warp agree."""
    limit = None if a.limit is None or b.limit is None else max(a.limit, b.limit)
    if "varying" in (a.kind, b.kind) or a.stride != b.stride:
        return Divergence("varying", limit=limit)
    kind = "uniform" if a.kind == b.kind == "uniform" else "linear"
    known = a.known if a.known == b.known else None
    return Divergence(kind, a.stride, limit, math.gcd(a.align, b.align), known)


def merge(a: Divergence, b: Divergence, control: Divergence) -> Divergence:
    """Return the shape of a value that is `a` or `b` depending on a condition of shape `control`."""
    joined = join(a, b)
    if control.kind == "uniform":
        return joined
    if control.scalar:
        return joined if joined.kind == "varying" else replace(joined, kind="linear", known=None)
    return Divergence("varying", limit=joined.limit)


def elementwise(shapes: Sequence[Divergence], limit: int | None = None) -> Divergence:
    """Return the shape of a function of values of these shapes that is applied lane by lane."""
    if any(not s.scalar for s in shapes):
        return Divergence("varying", limit=limit)
    return Divergence("linear" if any(s.kind == "linear" for s in shapes) else "uniform", limit=limit)


class DivergenceAnalysis:
    """The shape of every value of a kernel, and which operations only some lanes reach.

    group: the lanes of a group along each axis; None where the whole launch is one group
    lane_tiles: whether lanes may have tiles of their own, made of their values or where only some of them run; tiles
                belong to the whole group otherwise, whatever its lanes do
    """

    def __init__(self, body: IrTree, group: tuple[int, ...] | None, *, lane_tiles: bool = False) -> None:
        self._group, self._lane_tiles = group, lane_tiles
        self._divergent: set[AnyOp] = set()
        self._shapes: dict[ir.Value, Divergence] = dict.fromkeys(body.arguments, UNIFORM)
        self._block(body)
        self._mark(body, divergent=False)

    def of(self, value: ir.Value) -> Divergence:
        """Return the shape of a Tile IR value."""
        return self._shapes[value]

    def operands(self, node: Node) -> list[Divergence]:
        """Return the shapes of an operation's operands."""
        return [self._shapes[v] for v in node.operands]

    def varies(self, value: ir.Value) -> bool:
        """Return whether a value may differ between lanes of a group."""
        return self._shapes[value].kind != "uniform"

    def is_divergent(self, op: AnyOp) -> bool:
        """Return whether only some lanes of a group may reach an operation."""
        return op.operation in self._divergent

    def is_uniform(self, op: AnyOp) -> bool:
        """Return whether a whole group reaches an operation together, with the same operands."""
        return op.operation not in self._divergent and not any(map(self.varies, op.operands))

    def _mark(self, block: IrTree, *, divergent: bool) -> None:
        for node in (*block.nodes, block.end):
            if divergent:
                self._divergent.add(node.op)
            inside = divergent or any(map(self.varies, _control_of(node)))
            for inner in node.blocks:
                self._mark(inner, divergent=inside)

    def _block(self, block: IrTree) -> None:
        for node in block.nodes:
            self._node(node)

    def _node(self, node: Node) -> None:
        match node.name:
            case "scf.if":
                self._if(node)
            case "scf.for":
                self._for(node)
            case "scf.while":
                self._while(node)
            case _:
                self._leaf(node)

    def _leaf(self, node: Node) -> None:
        if not node.results:
            return
        (result,) = node.results
        if is_tile(result) or any(is_tile(v) for v in node.operands):
            self._shapes[result] = elementwise(self.operands(node)) if self._lane_tiles else UNIFORM
            return
        rule = _RULES.get(node.name)
        shapes = self.operands(node)
        if node.name == "tessera.id":
            self._shapes[result] = id_divergence(node.text("of"), node.number("axis"), self._group)
        else:
            self._shapes[result] = rule(node, shapes) if rule else elementwise(shapes)

    def _if(self, node: Node) -> None:
        control = self._shapes[node.operands[0]]
        for block in node.blocks:
            self._block(block)
        ends = [block.end.operands for block in node.blocks]
        for index, result in enumerate(node.results):
            yes, no = (self._shapes[end[index]] for end in ends)
            if control.known is not None:
                self._shapes[result] = yes if control.known else no
            else:
                self._shapes[result] = self._merged(result, yes, no, control)

    def _for(self, node: Node) -> None:
        (body,) = node.blocks
        lower, upper, step = self.operands(node)[:3]
        control = elementwise([lower, upper, step])
        self._shapes[body.arguments[0]] = _induction(lower, upper, step)
        carried = body.arguments[1:]
        self._loop(carried, node.operands[3:], body, body)
        for result, argument in zip(node.results, carried, strict=True):
            shape = self._shapes[argument]
            self._shapes[result] = self._merged(result, shape, shape, control)

    def _while(self, node: Node) -> None:
        before, after = node.blocks

        def pass_on() -> None:
            condition, *passed = (self._shapes[v] for v in before.end.operands)
            for argument, result, shape in zip(after.arguments, node.results, passed, strict=True):
                self._shapes[argument] = shape
                self._shapes[result] = self._merged(result, shape, shape, condition)

        self._loop(before.arguments, node.operands, before, after, pass_on)

    def _loop(
        self,
        carried: Sequence[ir.Value],
        initial: Sequence[ir.Value],
        first: IrTree,
        last: IrTree,
        between: Callable[[], None] = lambda: None,
    ) -> None:
        """Run the body until the carried values' shapes do not change any more.

        Inside a loop, lanes that left it do not count: what is the same in all others is uniform there.
        """
        now = [replace(self._shapes[v], known=None, limit=None) for v in initial]
        while True:
            self._shapes.update(zip(carried, now, strict=True))
            self._block(first)
            between()
            if last is not first:
                self._block(last)
            ends = [self._shapes[v] for v in last.end.operands]
            following = [self._merged(v, a, b, UNIFORM) for v, a, b in zip(carried, now, ends, strict=True)]
            following = [replace(s, known=None, limit=None) for s in following]
            if following == now:
                return
            now = following

    def _merged(self, value: ir.Value, a: Divergence, b: Divergence, control: Divergence) -> Divergence:
        """Return `merge` for one Tile IR value."""
        return UNIFORM if is_tile(value) and not self._lane_tiles else merge(a, b, control)


def _control_of(node: Node) -> Sequence[ir.Value]:
    """Return what decides how often a lane runs what is inside an operation."""
    match node.name:
        case "scf.if":
            return node.operands[:1]
        case "scf.for":
            return node.operands[:3]
        case "scf.while":
            return node.blocks[0].end.operands[:1]
        case _:
            return ()


def id_divergence(of: str, axis: int | None, group: tuple[int, ...] | None) -> Divergence:
    """Return the shape of `tessera.id`; lanes are numbered with the last axis fastest."""
    if of in ("group", "grid_groups", "group_lanes"):
        return Divergence("uniform", limit=LARGEST_EXTENT)
    if of == "lane_in_warp":
        return Divergence("linear", 1, LANES - 1, LANES)
    if of == "warp":
        return Divergence("linear", limit=LARGEST_EXTENT)
    if group is None:
        return Divergence("linear", 1, LARGEST_EXTENT, LANES) if axis in (None, 0) else _known(0)
    extents = (*group, 1, 1)[:3]
    if axis is None:
        return Divergence("linear", 1, LARGEST_EXTENT, math.gcd(math.prod(extents), LANES) if of == "thread" else LANES)
    if extents[axis] == 1:
        return Divergence("uniform", limit=LARGEST_EXTENT) if of == "thread" else _known(0)
    below = math.prod(extents[axis + 1 :])
    align = math.gcd(extents[axis], LANES) if of == "thread" else LANES
    limit = LARGEST_EXTENT if of == "thread" else extents[axis] - 1
    if below == 1 and (extents[axis] % LANES == 0 or math.prod(extents) == extents[axis]):
        return Divergence("linear", 1, limit, align)
    return Divergence("linear", limit=limit) if below % LANES == 0 else Divergence("varying", limit=limit)


def _known(value: int) -> Divergence:
    return Divergence("uniform", 0, value if value >= 0 else None, abs(value) or LANES, value)


def _induction(lower: Divergence, upper: Divergence, step: Divergence) -> Divergence:
    limit = None if lower.limit is None else (_I64_MAX if upper.limit is None else max(lower.limit, upper.limit))
    if not step.scalar or lower.kind == "varying":
        return Divergence("varying", limit=limit)
    kind = "uniform" if lower.kind == step.kind == "uniform" else "linear"
    return Divergence(kind, lower.stride, limit, math.gcd(lower.align, step.align))


_I64_MAX: Final = (1 << 63) - 1


def _fit(node: Node, limit: int | None) -> int | None:
    """`limit`, if a result of this operation's type holds it: otherwise the operation may have wrapped around."""
    if limit is None:
        return None
    kind = node.results[0].type
    return limit if isinstance(kind, ir.IntegerType) and limit < 1 << (kind.width - 1) else None


def _constant(node: Node, _: list[Divergence]) -> Divergence:
    attribute = node.op.attributes["value"]
    return _known(int(attribute.value)) if isinstance(attribute, ir.IntegerAttr) else UNIFORM


def _linear(stride: int, shapes: list[Divergence], limit: int | None, align: int) -> Divergence:
    kind = "uniform" if stride == 0 and all(s.kind == "uniform" for s in shapes) else "linear"
    return Divergence(kind, stride, limit, align)


def _add(node: Node, shapes: list[Divergence]) -> Divergence:
    a, b = shapes
    limit = None if a.limit is None or b.limit is None else _fit(node, a.limit + b.limit)
    if "varying" in (a.kind, b.kind):
        return Divergence("varying", limit=limit)
    return _linear(a.stride + b.stride, shapes, limit, math.gcd(a.align, b.align))


def _subtract(_: Node, shapes: list[Divergence]) -> Divergence:
    a, b = shapes
    if "varying" in (a.kind, b.kind):
        return VARYING
    return _linear(a.stride - b.stride, shapes, None, math.gcd(a.align, b.align))


def _multiply(node: Node, shapes: list[Divergence]) -> Divergence:
    a, b = shapes
    limit = None if a.limit is None or b.limit is None else _fit(node, a.limit * b.limit)
    multiplier, other = (a, b) if a.known is not None else (b, a)
    if a.scalar and b.scalar:
        return _linear(0, shapes, limit, math.gcd(a.align * b.align, LANES))
    if multiplier.known is None or other.kind == "varying":
        return Divergence("varying", limit=limit)
    align = math.gcd(other.align * abs(multiplier.known), LANES)
    return _linear(other.stride * multiplier.known, shapes, limit, align)


def _shift_left(node: Node, shapes: list[Divergence]) -> Divergence:
    a, amount = shapes
    if amount.known is None or not 0 <= amount.known < LANES:
        return elementwise(shapes)
    return _multiply(node, [a, _known(1 << amount.known)])


def _whole_warps(a: Divergence, divisor: Divergence) -> bool:
    """Return whether dividing `a` by `divisor` never separates two lanes of a warp."""
    warps = divisor.known is not None and divisor.known > 0 and divisor.known % LANES == 0
    return warps and a.kind == "linear" and a.stride == 1 and a.natural and a.align % LANES == 0


def _divide(_: Node, shapes: list[Divergence]) -> Divergence:
    a, divisor = shapes
    limit = a.limit if divisor.natural else None
    return Divergence("linear", limit=limit) if _whole_warps(a, divisor) else elementwise(shapes, limit)


def _remainder(_: Node, shapes: list[Divergence]) -> Divergence:
    a, divisor = shapes
    if _whole_warps(a, divisor):
        return Divergence("linear", 1, a.limit, LANES)
    return elementwise(shapes, a.limit)


_SIGNED_LESS: Final = 2
_SIGNED_AT_LEAST: Final = 5


def _compare(node: Node, shapes: list[Divergence]) -> Divergence:
    a, b = shapes
    predicate = node.number("predicate")
    if a.natural and b.known is not None and b.known <= 0 and predicate in (_SIGNED_LESS, _SIGNED_AT_LEAST):
        return _known(int(predicate == _SIGNED_AT_LEAST))
    return elementwise(shapes)


def _select(_: Node, shapes: list[Divergence]) -> Divergence:
    condition, yes, no = shapes
    if condition.known is not None:
        return yes if condition.known else no
    return merge(yes, no, condition)


def _truncate(_: Node, shapes: list[Divergence]) -> Divergence:
    (a,) = shapes
    return Divergence(a.kind, a.stride, align=a.align)


def _extend_signed(_: Node, shapes: list[Divergence]) -> Divergence:
    return elementwise(shapes, shapes[0].limit)


def _extend_unsigned(node: Node, shapes: list[Divergence]) -> Divergence:
    kind = node.operands[0].type
    return elementwise(shapes, (1 << ir.IntegerType(kind).width) - 1)


def _largest(_: Node, shapes: list[Divergence]) -> Divergence:
    limits = [s.limit for s in shapes]
    if all(limit is None for limit in limits):
        return elementwise(shapes)
    return elementwise(shapes, _I64_MAX if None in limits else max(limit or 0 for limit in limits))


def _smallest(_: Node, shapes: list[Divergence]) -> Divergence:
    limits = [s.limit for s in shapes if s.limit is not None]
    return elementwise(shapes, min(limits) if len(limits) == len(shapes) else None)


def _shuffle(_: Node, shapes: list[Divergence]) -> Divergence:
    value = shapes[0]
    return value if value.scalar else Divergence("varying", limit=value.limit)


def _extent(_: Node, _shapes: list[Divergence]) -> Divergence:
    return Divergence("uniform", limit=LARGEST_EXTENT)


_RULES: Final[Mapping[str, Callable[[Node, list[Divergence]], Divergence]]] = {
    "arith.constant": _constant,
    "arith.addi": _add,
    "arith.subi": _subtract,
    "arith.muli": _multiply,
    "arith.shli": _shift_left,
    "arith.divsi": _divide,
    "arith.divui": _divide,
    "arith.remsi": _remainder,
    "arith.remui": _remainder,
    "arith.cmpi": _compare,
    "arith.select": _select,
    "arith.trunci": _truncate,
    "arith.extsi": _extend_signed,
    "arith.extui": _extend_unsigned,
    "arith.maxsi": _largest,
    "arith.minsi": _smallest,
    "tessera.shuffle": _shuffle,
    "tessera.dim": _extent,
}
