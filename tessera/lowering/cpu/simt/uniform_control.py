"""Control flow that a whole group follows together: its condition is the same in all lanes.

Carried values that are uniform are scalars of the loop; those that differ between lanes are kept in slots; tiles are
handed to tile lowering.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from tessera.core.mlir import ir
from tessera.lowering.analysis.ir_tree import IrTree, Node, is_tile
from tessera.lowering.cpu.simt.context_arrays import ContextSlot, store
from tessera.lowering.cpu.simt.lane_context import LaneContext
from tessera.lowering.cpu.simt.masked_control import MaskedControl
from tessera.lowering.cpu.simt.parallel_regions import ParallelRegions, Tail
from tessera.lowering.cpu.simt.vectors import Mask, Scalar
from tessera.lowering.cpu.tile.lowering import TileLowering


class UniformControl:
    """Emits loops and branches at group level; `block` emits the operations of one block."""

    def __init__(
        self,
        code: LaneContext,
        control: MaskedControl,
        parallel_regions: ParallelRegions,
        tiles: TileLowering,
        block: Callable[[IrTree], None],
    ) -> None:
        self.code = code
        self.control = control
        self.parallel_regions = parallel_regions
        self.tiles = tiles
        self.block = block

    def emit(self, node: Node) -> None:
        """Emit `scf.if`, `scf.for` or `scf.while`."""
        {"scf.if": self._if, "scf.for": self._for, "scf.while": self._while}[node.name](node)

    # -- what is carried ---------------------------------------------------------------------------------------

    def scalars(self, values: Sequence[ir.Value]) -> list[int]:
        """Return the numbers of the values that are scalars of the group."""
        return [n for n, v in enumerate(values) if not is_tile(v) and self.code.shape(v).kind == "uniform"]

    def lanes(self, values: Sequence[ir.Value]) -> list[int]:
        """Return the numbers of the values that differ between lanes."""
        return [n for n, v in enumerate(values) if not is_tile(v) and self.code.shape(v).kind != "uniform"]

    def tiles_of(self, values: Sequence[ir.Value]) -> list[int]:
        """Return the numbers of the values that are tiles."""
        return [n for n, v in enumerate(values) if is_tile(v)]

    @contextmanager
    def inside(self) -> Generator[None]:
        """Open a scope: values defined in it are gone after it, and it has its own pending lane code."""
        outer, self.parallel_regions.pending = self.parallel_regions.pending, []
        with self.code.scope():
            yield
        self.parallel_regions.pending = outer

    def keeping(self, values: Sequence[ir.Value], slots: Sequence[ContextSlot]) -> Tail:
        """Return a tail that puts `values` into `slots`, in the active lanes."""

        def tail(mask: Mask) -> None:
            lanes = [self.code.lane(v) for v in values]
            for slot, lane in zip(slots, lanes, strict=True):
                store(self.code, slot, lane, mask)

        return tail

    def keep(self, values: Sequence[ir.Value], slots: Sequence[ContextSlot], end: Node | None = None) -> None:
        """Emit pending lane code, and put `values` into `slots` at its end."""
        if slots:
            self.parallel_regions.flush(self.keeping(values, slots), values, end)
        else:
            self.parallel_regions.flush(end=end)

    def finish(self, block: IrTree, targets: Sequence[ir.Value], ends: Sequence[ir.Value]) -> list[ir.Value]:
        """End a block that hands `ends` to `targets`: the scalars among them are returned."""
        lanes = self.lanes(targets)
        self.keep([ends[n] for n in lanes], [self.parallel_regions.slot(targets[n]) for n in lanes], block.end)
        for number in self.tiles_of(targets):
            self.tiles.yield_to(targets[number], ends[number])
        return [self.code.scalar(ends[n]) for n in self.scalars(targets)]

    def define(self, values: Sequence[ir.Value], numbers: Sequence[int], made: Sequence[ir.Value]) -> None:
        """Give the values with these numbers their target scalars."""
        for number, scalar in zip(numbers, made, strict=True):
            self.code.define(values[number], Scalar(scalar))

    def share_slots(self, values: Sequence[ir.Value], others: Sequence[ir.Value]) -> None:
        """Let each value that differs between lanes share the context slot of its counterpart."""
        for number in self.lanes(values):
            self.parallel_regions.adopt(others[number], self.parallel_regions.slot(values[number]))

    def types(self, values: Sequence[ir.Value], numbers: Sequence[int]) -> list[str]:
        """Return the target types of scalars."""
        return [self.code.element(values[n]) for n in numbers]

    # -- control flow ------------------------------------------------------------------------------------------

    def _if(self, node: Node) -> None:
        self.parallel_regions.flush()
        results = node.results
        for number in self.tiles_of(results):
            self.tiles.enter_loop(None, results[number])

        def side(block: IrTree) -> Callable[[], list[ir.Value]]:
            def emit() -> list[ir.Value]:
                with self.inside():
                    self.block(block)
                    return self.finish(block, results, block.end.operands)

            return emit

        then, *rest = (side(block) for block in node.blocks)
        scalars = self.scalars(results)
        condition = self.code.scalar(node.operands[0])
        types = self.types(results, scalars)
        made = self.code.kernel.flow.branch(condition, then, rest[0] if rest else None, types)
        self.define(results, scalars, made)
        for number in self.tiles_of(results):
            self.tiles.leave_loop(results[number], results[number])

    def _for(self, node: Node) -> None:
        (body,) = node.blocks
        lower, upper, step = (self.code.scalar(v) for v in node.operands[:3])
        initial, arguments = node.operands[3:], body.arguments[1:]
        start = self.enter(arguments, initial)
        scalars = self.scalars(arguments)

        def inside(index: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            with self.inside():
                self.code.define(body.arguments[0], Scalar(index))
                self.define(arguments, scalars, carried)
                self.block(body)
                return self.finish(body, arguments, body.end.operands)

        made = self.control.count(node, lower, upper, step, start, inside)
        self.define(node.results, scalars, made)
        self.share_slots(arguments, node.results)
        for number in self.tiles_of(arguments):
            self.tiles.leave_loop(arguments[number], node.results[number])

    def enter(self, arguments: Sequence[ir.Value], initial: Sequence[ir.Value]) -> list[ir.Value]:
        """Hand a loop's initial values to its block arguments; the scalars among them are returned."""
        lanes = self.lanes(arguments)
        self.keep([initial[n] for n in lanes], [self.parallel_regions.slot(arguments[n]) for n in lanes])
        for number in self.tiles_of(arguments):
            self.tiles.enter_loop(initial[number], arguments[number])
        return [self.code.scalar(initial[n]) for n in self.scalars(arguments)]

    def _while(self, node: Node) -> None:
        before, after = node.blocks
        start = self.enter(before.arguments, node.operands)
        for number in self.tiles_of(after.arguments):
            self.tiles.enter_loop(None, after.arguments[number])
        carried_numbers, passed_numbers = self.scalars(before.arguments), self.scalars(after.arguments)

        def condition(*carried: ir.Value) -> tuple[ir.Value, list[ir.Value]]:
            with self.inside():
                self.define(before.arguments, carried_numbers, carried)
                self.block(before)
                test, *passed = before.end.operands
                scalars = self.finish(before, after.arguments, passed)
                return self.code.kernel.flow.both(self.code.scalar(test), self.code.kernel.flow.going()), scalars

        def inside(*passed: ir.Value) -> list[ir.Value]:
            with self.inside():
                self.define(after.arguments, passed_numbers, passed)
                self.block(after)
                return self.finish(after, before.arguments, after.end.operands)

        types = self.types(after.arguments, passed_numbers)
        made = self.code.kernel.flow.repeat(start, condition, inside, types)
        self.define(node.results, passed_numbers, made)
        self.share_slots(after.arguments, node.results)
        for number in self.tiles_of(after.arguments):
            self.tiles.leave_loop(after.arguments[number], node.results[number])
