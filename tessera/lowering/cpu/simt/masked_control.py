"""Lane code with control flow: straight-line code, branches and loops under masks, inside one warp.

A condition that all lanes share is a branch.  One that varies narrows the mask: cheap bodies simply run masked,
others behind a branch on "is any lane active"; loops go on while any lane is active.
"""

from collections.abc import Callable, Sequence
from typing import Final

from tessera.core.base.source import NOWHERE
from tessera.core.errors.catalog import CompilerCrash
from tessera.core.mlir import ir
from tessera.core.tile.location import spans
from tessera.lowering.analysis.divergence import LANES, Divergence, elementwise
from tessera.lowering.analysis.ir_tree import IrTree, Node
from tessera.lowering.cpu.simt.copies import copy
from tessera.lowering.cpu.simt.lane_context import LaneContext
from tessera.lowering.cpu.simt.memory import read, write
from tessera.lowering.cpu.simt.structured_control import Body
from tessera.lowering.cpu.simt.trip_counts import is_short
from tessera.lowering.cpu.simt.vector_lanes import arithmetic, below, saturating
from tessera.lowering.cpu.simt.vectors import Lane, Linear, Mask, Prefix, Scalar, Vector
from tessera.lowering.cpu.simt.warp import identify, shuffle

_CHEAP: Final = 32
"""Cost up to which a masked body runs without a branch around it; an addition costs 1."""

_COSTS: Final = {"tessera.read": 2, "tessera.write": 2, "arith.divsi": 16, "arith.remsi": 16, "arith.divui": 16,
                 "arith.remui": 16, "arith.remf": 16, "tessera.shuffle": 2}  # fmt: skip
_MATH_COST: Final = 8
_GATHER_COST: Final = 16

_SMALL_BODY: Final = 64
"""Cost up to which the body of a loop is emitted twice: for full warps, and under a mask."""


class MaskedControl:
    """Emits the operations of a warp, or the scalar ones of a group, one after the other."""

    def __init__(self, code: LaneContext) -> None:
        self._code = code

    def nodes(self, nodes: Sequence[Node], mask: Mask) -> None:
        """Emit `nodes` for the lanes of `mask`."""
        for node in nodes:
            with self._code.emit.located(node.location):
                self.node(node, mask)

    def node(self, node: Node, mask: Mask) -> None:
        """Emit one operation for the lanes of `mask`."""
        region = {"scf.if": self._if, "scf.for": self._for, "scf.while": self._while}.get(node.name)
        effect = _EFFECTS.get(node.name)
        if region is not None:
            region(node, mask)
        elif effect is not None:
            effect(self._code, node, mask)
        elif node.name.startswith(("arith.", "math.")):
            arithmetic(self._code, node)
        else:
            places = spans(node.location)
            msg = f"the CPU target has no code for '{node.name}'"
            raise CompilerCrash(msg, places[0] if places else NOWHERE)

    # -- if ----------------------------------------------------------------------------------------------------

    def _if(self, node: Node, mask: Mask) -> None:
        code = self._code
        condition = code.shape(node.operands[0])
        if condition.known is not None:
            self._inline(node, mask, 0 if condition.known else 1)
        elif condition.scalar:
            self._branch(node, mask)
        elif (settled := self._settled(node.operands[0], mask)) is not None:
            self._inline(node, mask, 0 if settled else 1)
        else:
            self._masked_if(node, mask)

    def _settled(self, condition: ir.Value, mask: Mask) -> bool | None:
        """Return what a condition is in every active lane; None where the facts about these lanes do not decide it."""
        lane = self._code.lane(condition)
        if isinstance(lane, Prefix) and lane.exact and lane.facts <= mask.facts:
            return not lane.negated
        return None

    def _inline(self, node: Node, mask: Mask, number: int) -> None:
        if number < len(node.blocks):
            block = node.blocks[number]
            self.nodes(block.nodes, mask)
            for result, value in zip(node.results, block.end.operands, strict=True):
                self._code.define(result, self._code.lane(value))

    def _branch(self, node: Node, mask: Mask) -> None:
        code = self._code
        shapes = [code.shape(v) for v in node.results]
        then, *rest = (self._side(block, mask, shapes) for block in node.blocks)
        types = [self._type(v, s) for v, s in zip(node.results, shapes, strict=True)]
        made = code.kernel.flow.branch(code.scalar(node.operands[0]), then, rest[0] if rest else None, types)
        self._define(node.results, made, shapes)

    def _side(self, block: IrTree, mask: Mask, shapes: list[Divergence]) -> Callable[[], list[ir.Value]]:
        """Emits a block in a scope of its own and gives what it yields, as values of these shapes."""

        def emit() -> list[ir.Value]:
            with self._code.scope():
                self.nodes(block.nodes, mask)
                return self._ends(block, shapes)

        return emit

    def _masked_if(self, node: Node, mask: Mask) -> None:
        code = self._code
        condition = code.lane(node.operands[0])
        shapes = [code.shape(v) for v in node.results]
        sides: list[list[ir.Value]] = []
        for number, block in enumerate(node.blocks):
            inner = code.vectors.narrow(mask, condition, negated=number == 1)
            if sum(self.cost(inside) for inside in block.nodes) <= _CHEAP:
                self.nodes(block.nodes, inner)
                sides.append(self._ends(block, shapes))
            else:
                sides.append(self._guarded(block, inner, node.results, shapes))
        if shapes:
            bits = code.vectors.vector(condition)
            merged = [code.vectors.select(bits, yes, no) for yes, no in zip(*sides, strict=True)]
            self._define(node.results, merged, shapes)

    def _guarded(
        self, block: IrTree, mask: Mask, results: Sequence[ir.Value], shapes: list[Divergence]
    ) -> list[ir.Value]:
        """Emit a block behind a branch on whether any lane is active; zeros where none is."""
        code = self._code
        active = Mask(mask.count, mask.vector, mask.facts, some=True)
        types = [self._type(v, s) for v, s in zip(results, shapes, strict=True)]
        zeros = (lambda: [self.zero(kind) for kind in types]) if types else None
        return list(code.kernel.flow.branch(code.vectors.some(mask), self._side(block, active, shapes), zeros, types))

    def cost(self, node: Node) -> int:
        """Return a rough cost of one operation under a mask; anything with loops is dear."""
        if node.name == "scf.if":
            return 1 + sum(self.cost(inner) for block in node.blocks for inner in block.nodes)
        if node.name in ("tessera.read", "tessera.write"):
            indices = node.operands[1:] if node.name == "tessera.read" else node.operands[2:]
            gathers = any(self._code.shape(v).kind == "varying" for v in indices)
            return _GATHER_COST if gathers else _COSTS[node.name]
        if node.blocks:
            return _CHEAP + 1
        return _COSTS.get(node.name, _MATH_COST if node.name.startswith("math.") else 1)

    # -- for ---------------------------------------------------------------------------------------------------

    def _for(self, node: Node, mask: Mask) -> None:
        bounds = elementwise([self._code.shape(v) for v in node.operands[:3]])
        if bounds.scalar:
            self._counted(node, mask)
        else:
            self._masked_for(node, mask)

    def _counted(self, node: Node, mask: Mask) -> None:
        code = self._code
        (body,) = node.blocks
        shapes = [code.shape(v) for v in body.arguments]
        initial = self._carried(node.operands[3:], shapes[1:])

        def inside(index: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            with code.scope():
                self._define(body.arguments, [index, *carried], shapes)
                self.nodes(body.nodes, mask)
                return self._ends(body, shapes[1:])

        lower, upper, step = (code.scalar(v) for v in node.operands[:3])
        self._define(node.results, self.count(node, lower, upper, step, initial, inside), shapes[1:])

    def count(
        self, node: Node, lower: ir.Value, upper: ir.Value, step: ir.Value, initial: list[ir.Value], body: Body
    ) -> Sequence[ir.Value]:
        """Emit a counted loop that looks at the cancel flag as often as its length asks for."""
        flow = self._code.kernel.flow
        if is_short(node, self._code.shapes):
            return flow.count(lower, upper, step, initial, body)
        inner = [other for other in node.walk() if other is not node]
        innermost = not any(other.name in ("scf.for", "scf.while") or other.has_tiles for other in inner)
        return flow.watched(lower, upper, step, initial, body, innermost=innermost)

    def _masked_for(self, node: Node, mask: Mask) -> None:
        """Emit a loop whose bounds differ from lane to lane: lanes leave when their own range is over.

        Carried: the index, the loop's own values, and, for those that all active lanes share, what is held for the
        lanes that left.
        """
        code, vectors = self._code, self._code.vectors
        (body,) = node.blocks
        shapes = [code.shape(v) for v in body.arguments]
        start = code.shaped(code.lane(node.operands[0]), shapes[0])
        count = len(node.results)
        shared = [n for n in range(count) if shapes[1 + n].kind != "varying"]

        def active(index: ir.Value) -> Mask:
            inside = self.less(code.lane_of(index, shapes[0]), shapes[0], node.operands[1])
            return vectors.narrow(mask, inside)

        def condition(index: ir.Value, *carried: ir.Value) -> tuple[ir.Value, list[ir.Value]]:
            with code.scope():
                go_on = code.kernel.flow.both(vectors.some(active(index)), code.kernel.flow.going())
            return go_on, [index, *carried]

        def advance(index: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            own, held = carried[:count], carried[count:]
            with code.scope():
                now = active(index)
                now = Mask(now.count, now.vector, now.facts, some=True)
                self._define(body.arguments, [index, *own], shapes)
                self.nodes(body.nodes, now)
                lanes = [code.lane(v) for v in body.end.operands]
                following = [
                    code.base(lane) if n in shared else vectors.keep(now, vectors.vector(lane), own[n])
                    for n, lane in enumerate(lanes)
                ]
                kept = [vectors.keep(now, vectors.vector(lanes[n]), old) for n, old in zip(shared, held, strict=True)]
                return [self.next_index(index, shapes[0], node.operands[2]), *following, *kept]

        initial = self._carried(node.operands[3:], shapes[1:])
        if self._runs_full(node, mask):
            start, *initial = self._full_iterations(node, start, initial, mask)
        holding = [vectors.vector(code.lane_of(initial[n], shapes[1 + n])) for n in shared]
        made = code.kernel.flow.repeat([start, *initial, *holding], condition, advance)
        results = list(made[1 : 1 + count])
        for number, value in zip(shared, made[1 + count :], strict=True):
            results[number] = value
        for result, value in zip(node.results, results, strict=True):
            code.define(result, Vector(value))

    def _runs_full(self, node: Node, mask: Mask) -> bool:
        """Return whether to run the iterations that all lanes take part in first, without a mask."""
        code = self._code
        index, upper, step = (code.shape(v) for v in (node.blocks[0].arguments[0], *node.operands[1:3]))
        if not (mask.all and index.kind == "linear" and index.stride == 1 and upper.scalar and step.scalar):
            return False
        inner = [node for node in node.walk() if node.name in ("scf.for", "scf.while")]
        return len(inner) == 1 and sum(self.cost(n) for n in node.blocks[0].nodes) <= _SMALL_BODY

    def _full_iterations(self, node: Node, start: ir.Value, initial: list[ir.Value], mask: Mask) -> Sequence[ir.Value]:
        """Iterate while lane 31 is below the upper bound; gives the next index and the carried values."""
        code, vectors = self._code, self._code.vectors
        (body,) = node.blocks
        shapes = [code.shape(v) for v in body.arguments]
        upper, step = (code.scalar(v) for v in node.operands[1:3])
        limit = saturating(code, "ssub", upper, vectors.constant(LANES - 1, "i64"))

        def inside(index: ir.Value, _: ir.Value, *own: ir.Value) -> list[ir.Value]:
            with code.scope():
                self._define(body.arguments, [index, *own], shapes)
                self.nodes(body.nodes, Mask(facts=mask.facts | {(index, upper)}))
                return [vectors.integer("addi", index, step), *self._ends(body, shapes[1:])]

        return code.kernel.flow.watched(start, limit, step, [start, *initial], inside, innermost=True)

    def next_index(self, index: ir.Value, shape: Divergence, step: ir.Value) -> ir.Value:
        """Return the index of the next iteration."""
        code = self._code
        amount = code.shaped(code.lane(step), shape if shape.kind == "varying" else code.shape(step))
        return code.emit.value("arith.addi", [index, amount], index.type)

    def less(self, index: Lane, shape: Divergence, bound: ir.Value) -> Lane:
        """index < bound, lane by lane."""
        code, vectors = self._code, self._code.vectors
        limit = code.lane(bound)
        if isinstance(limit, Scalar) and isinstance(index, Scalar):
            return Scalar(vectors.compare("slt", index.value, limit.value))
        if isinstance(limit, Scalar) and isinstance(index, Linear) and index.stride == 1:
            safe = shape.natural and code.shape(bound).natural
            return below(code, index.base, limit.value, safe=safe)
        return Vector(vectors.compare("slt", vectors.vector(index), vectors.vector(limit), vectors.wide("i1")))

    # -- while -------------------------------------------------------------------------------------------------

    def _while(self, node: Node, mask: Mask) -> None:
        condition = self._code.shape(node.blocks[0].end.operands[0])
        if condition.scalar:
            self._shared_while(node, mask)
        else:
            self._masked_while(node, mask)

    def _shared_while(self, node: Node, mask: Mask) -> None:
        """Emit a loop that all lanes leave together."""
        code = self._code
        before, after = node.blocks
        first = [code.shape(v) for v in before.arguments]
        second = [code.shape(v) for v in node.results]

        def condition(*carried: ir.Value) -> tuple[ir.Value, list[ir.Value]]:
            with code.scope():
                self._define(before.arguments, carried, first)
                self.nodes(before.nodes, mask)
                test, *passed = before.end.operands
                go_on = code.kernel.flow.both(code.scalar(test), code.kernel.flow.going())
                return go_on, self._carried(passed, second)

        def advance(*passed: ir.Value) -> list[ir.Value]:
            with code.scope():
                self._define(after.arguments, passed, second)
                self.nodes(after.nodes, mask)
                return self._ends(after, first)

        types = [self._type(v, s) for v, s in zip(node.results, second, strict=True)]
        made = code.kernel.flow.repeat(self._carried(node.operands, first), condition, advance, types)
        self._define(node.results, made, second)

    def _masked_while(self, node: Node, mask: Mask) -> None:
        """Lanes leave one by one; what a lane passed when it left is held for it until the last one leaves.

        Carried: the active lanes, the loop's own values, what is held.  Passed: the active lanes, what is held, and
        once more what is the same in all lanes that are still active.
        """
        code, vectors = self._code, self._code.vectors
        before, after = node.blocks
        first = [code.shape(v) for v in before.arguments]
        inside = [code.shape(v) for v in after.arguments]
        held_types = [vectors.wide(code.element(v)) for v in node.results]
        shared = [n for n, shape in enumerate(inside) if shape.kind != "varying"]

        def condition(active: ir.Value, *carried: ir.Value) -> tuple[ir.Value, list[ir.Value]]:
            own, held = carried[: len(first)], carried[len(first) :]
            with code.scope():
                self._define(before.arguments, own, first)
                now = Mask(vector=active, some=mask.some)
                self.nodes(before.nodes, now)
                test, *passed = before.end.operands
                lanes = [code.lane(v) for v in passed]
                kept = [vectors.keep(now, vectors.vector(new), old) for new, old in zip(lanes, held, strict=True)]
                staying = vectors.narrow(now, code.lane(test))
                go_on = code.kernel.flow.both(vectors.some(staying), code.kernel.flow.going())
                return go_on, [vectors.bits(staying), *kept, *(code.base(lanes[n]) for n in shared)]

        def advance(active: ir.Value, *passed: ir.Value) -> list[ir.Value]:
            held, bases = passed[: len(inside)], passed[len(inside) :]
            with code.scope():
                for argument, value in zip(after.arguments, held, strict=True):
                    code.define(argument, Vector(value))
                for number, base in zip(shared, bases, strict=True):
                    code.define(after.arguments[number], code.lane_of(base, inside[number]))
                self.nodes(after.nodes, Mask(vector=active, some=True))
                return [active, *self._ends(after, first), *held]

        initial = [vectors.bits(mask), *self._carried(node.operands, first), *(self.zero(t) for t in held_types)]
        types = [vectors.wide("i1"), *held_types, *(self._type(after.arguments[n], inside[n]) for n in shared)]
        made = code.kernel.flow.repeat(initial, condition, advance, types)
        self._define(node.results, made[1 : 1 + len(inside)], [code.shape(v) for v in node.results])

    # -- small parts -------------------------------------------------------------------------------------------

    def _carried(self, values: Sequence[ir.Value], shapes: Sequence[Divergence]) -> list[ir.Value]:
        code = self._code
        return [code.shaped(code.lane(v), s) for v, s in zip(values, shapes, strict=True)]

    def _ends(self, block: IrTree, shapes: Sequence[Divergence]) -> list[ir.Value]:
        return self._carried(block.end.operands, shapes)

    def _define(self, values: Sequence[ir.Value], made: Sequence[ir.Value], shapes: Sequence[Divergence]) -> None:
        for value, target, shape in zip(values, made, shapes, strict=True):
            self._code.define(value, self._code.lane_of(target, shape))

    def _type(self, value: ir.Value, shape: Divergence) -> str:
        """Return the type of the target value that carries a Tile IR value of this shape."""
        element = self._code.element(value)
        return self._code.vectors.wide(element) if shape.kind == "varying" else element

    def zero(self, kind: str) -> ir.Value:
        """Zeros of a vector type (text)."""
        if "!llvm.ptr" in kind:
            return self._code.emit.value("llvm.mlir.zero", (), kind)
        return self._code.vectors.constant(0, kind)


_EFFECTS: Final[dict[str, Callable[[LaneContext, Node, Mask], None]]] = {
    "tessera.read": read,
    "tessera.write": write,
    "tessera.shuffle": shuffle,
    "tessera.id": lambda code, node, _: identify(code, node),
    "tessera.copy": lambda code, node, _: copy(code, node),
    "tessera.dim": lambda code, node, _: code.define(node.results[0], Scalar(code.kernel.symbol(node.text("symbol")))),
    # a warp runs in lockstep: lanes of one warp need no synchronization
    "tessera.group_sync": lambda _code, _node, _mask: None,
}
