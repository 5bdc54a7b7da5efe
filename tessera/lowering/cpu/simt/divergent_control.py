"""Control flow around barriers (or other work of the whole group) that lanes follow each in its own way.

The group takes part as long as any lane does: a region, one word a warp, says which lanes run, and lane code inside
runs for them alone.  So a barrier is passed by the group as a whole, whatever the control flow around it.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from tessera.core.mlir import ir
from tessera.lowering.analysis.ir_tree import IrTree, Node, is_tile
from tessera.lowering.cpu.simt.context_arrays import store
from tessera.lowering.cpu.simt.parallel_regions import ParallelRegion
from tessera.lowering.cpu.simt.uniform_control import UniformControl
from tessera.lowering.cpu.simt.vectors import Lane, Linear, Mask, Scalar, Vector


class DivergentControl(UniformControl):
    """Emits branches and loops whose condition differs between lanes, at group level."""

    def emit(self, node: Node) -> None:
        """Emit `scf.if`, `scf.for` or `scf.while`."""
        {"scf.if": self._lane_if, "scf.for": self._lane_for, "scf.while": self._lane_while}[node.name](node)

    @contextmanager
    def _within(self, region: ParallelRegion) -> Generator[None]:
        """Emit a block that runs for the lanes of `region`."""
        outer, self.parallel_regions.region = self.parallel_regions.region, region
        with self.inside():
            yield
        self.parallel_regions.region = outer

    def _kept(self, values: Sequence[ir.Value]) -> list[int]:
        """Return the numbers of the results that are kept lane by lane: all but tiles."""
        return [n for n, v in enumerate(values) if not is_tile(v)]

    # -- if ----------------------------------------------------------------------------------------------------

    def _lane_if(self, node: Node) -> None:
        code, parallel_regions = self.code, self.parallel_regions
        condition = node.operands[0]
        regions = [parallel_regions.new_region() for _ in node.blocks]

        def choose(mask: Mask) -> None:
            for number, region in enumerate(regions):
                parallel_regions.fill(region, code.vectors.narrow(mask, code.lane(condition), negated=number == 1))

        parallel_regions.flush(choose, [condition], regions=regions)
        for number in self.tiles_of(node.results):
            self.tiles.enter_loop(None, node.results[number])
        for region, block in zip(regions, node.blocks, strict=True):
            code.kernel.flow.branch(parallel_regions.occupied(region), self._side(node, block, region))
        for number in self.tiles_of(node.results):
            self.tiles.leave_loop(node.results[number], node.results[number])

    def _side(self, node: Node, block: IrTree, region: ParallelRegion) -> Callable[[], list[ir.Value]]:
        def emit() -> list[ir.Value]:
            with self._within(region):
                self.block(block)
                self.finish(block, node.results, block.end.operands)
            return []

        return emit

    # -- for ---------------------------------------------------------------------------------------------------

    def _lane_for(self, node: Node) -> None:
        code, parallel_regions = self.code, self.parallel_regions
        (body,) = node.blocks
        index, *arguments = body.arguments
        lower, upper, _, *initial = node.operands
        kept, scalars = self._kept(node.results), self.scalars(arguments)
        start = self.enter(arguments, initial)
        self.keep([initial[n] for n in kept], [parallel_regions.slot(node.results[n]) for n in kept])
        moving = code.shape(index).kind != "uniform"
        if moving:
            self.keep([lower], [parallel_regions.slot(index)])
        else:
            start = [code.scalar(lower), *start]
        numbers = [0, *(1 + n for n in scalars)] if not moving else [1 + n for n in scalars]
        region = parallel_regions.new_region()

        def condition(*carried: ir.Value) -> tuple[ir.Value, list[ir.Value]]:
            def choose(mask: Mask) -> None:
                running = self.control.less(code.lane(index), code.shape(index), upper)
                parallel_regions.fill(region, code.vectors.narrow(mask, running))

            with self.inside():
                self.define(body.arguments, numbers, carried)
                parallel_regions.flush(choose, [index, upper], regions=[region])
                return code.kernel.flow.both(parallel_regions.occupied(region), code.kernel.flow.going()), list(carried)

        def inside(*carried: ir.Value) -> list[ir.Value]:
            with self._within(region):
                self.define(body.arguments, numbers, carried)
                self.block(body)
                return self._next(node, body, moving=moving)

        code.kernel.flow.repeat(start, condition, inside)
        for number in self.tiles_of(arguments):
            self.tiles.leave_loop(arguments[number], node.results[number])

    def _next(self, node: Node, body: IrTree, *, moving: bool) -> list[ir.Value]:
        """End an iteration: results are kept for the lanes that ran it, the index moves on."""
        code, parallel_regions = self.code, self.parallel_regions
        index, *arguments = body.arguments
        ends, step = body.end.operands, node.operands[2]
        lanes, kept = self.lanes(arguments), self._kept(node.results)
        values = [ends[n] for n in (*lanes, *kept)]
        slots = [parallel_regions.slot(arguments[n]) for n in lanes] + [
            parallel_regions.slot(node.results[n]) for n in kept
        ]

        def tail(mask: Mask) -> None:
            self.keeping(values, slots)(mask)
            if moving:
                store(code, parallel_regions.slot(index), self._advanced(index, step), mask)

        parallel_regions.flush(tail, [*values, index, step], body.end)
        for number in self.tiles_of(arguments):
            self.tiles.yield_to(arguments[number], ends[number])
        scalars = [code.scalar(ends[n]) for n in self.scalars(arguments)]
        if moving:
            return scalars
        return [code.vectors.integer("addi", code.scalar(index), code.scalar(step)), *scalars]

    def _advanced(self, index: ir.Value, step: ir.Value) -> Lane:
        code = self.code
        shape = code.shape(index)
        now = code.shaped(code.lane(index), shape)
        following = self.control.next_index(now, shape, step)
        if shape.kind == "varying":
            return Vector(following)
        return Linear(following, shape.stride) if shape.stride else Scalar(following)

    # -- while -------------------------------------------------------------------------------------------------

    def _lane_while(self, node: Node) -> None:
        code, parallel_regions = self.code, self.parallel_regions
        before, after = node.blocks
        start = self.enter(before.arguments, node.operands)
        for number in self.tiles_of(after.arguments):
            self.tiles.enter_loop(None, after.arguments[number])
        region = parallel_regions.new_region()
        parallel_regions.flush(lambda mask: parallel_regions.fill(region, mask), regions=[region])
        carried_numbers, passed_numbers = self.scalars(before.arguments), self.scalars(after.arguments)

        def condition(*carried: ir.Value) -> tuple[ir.Value, list[ir.Value]]:
            with self._within(region):
                self.define(before.arguments, carried_numbers, carried)
                self.block(before)
                scalars = self._pass(node, before, after, region)
                return code.kernel.flow.both(parallel_regions.occupied(region), code.kernel.flow.going()), scalars

        def inside(*passed: ir.Value) -> list[ir.Value]:
            with self._within(region):
                self.define(after.arguments, passed_numbers, passed)
                self.block(after)
                return self.finish(after, before.arguments, after.end.operands)

        code.kernel.flow.repeat(start, condition, inside, self.types(after.arguments, passed_numbers))
        for number in self.tiles_of(after.arguments):
            self.tiles.leave_loop(after.arguments[number], node.results[number])

    def _pass(self, node: Node, before: IrTree, after: IrTree, region: ParallelRegion) -> list[ir.Value]:
        """End the condition: what is passed becomes the result of every lane that asked; some lanes leave."""
        code, parallel_regions = self.code, self.parallel_regions
        test, *passed = before.end.operands
        lanes, kept = self.lanes(after.arguments), self._kept(node.results)
        values = [passed[n] for n in (*lanes, *kept)]
        slots = [parallel_regions.slot(after.arguments[n]) for n in lanes] + [
            parallel_regions.slot(node.results[n]) for n in kept
        ]

        def tail(mask: Mask) -> None:
            self.keeping(values, slots)(mask)
            parallel_regions.fill(region, code.vectors.narrow(mask, code.lane(test)))

        parallel_regions.flush(tail, [*values, test], before.end, [region])
        for number in self.tiles_of(after.arguments):
            self.tiles.yield_to(after.arguments[number], passed[number])
        return [code.scalar(passed[n]) for n in self.scalars(after.arguments)]
