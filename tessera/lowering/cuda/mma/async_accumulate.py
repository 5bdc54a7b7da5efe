"""Keep several MMAs of a loop in flight, as in attention's backward pass: each runs until its result is needed.

before: `for i: s = dot(k, q[i]); dp = dot(v, do[i]); acc = dot(f(s), do[i], acc); dk = dot(g(s, dp), q[i], dk)`
after:  each MMA is waited for where its accumulators are first read, and accumulators that only the next iteration's
        MMA updates are not waited for at all.  The first MMA, whose operands all come through pipelines, is issued one
        iteration early, after the last one, so that the tensor cores are busy while an iteration begins.  The last
        iteration issues one for an iteration that never comes, on whatever bytes are there; its result is not read.
"""

from collections.abc import Sequence
from typing import Protocol

from tessera.core.mlir import AnyOp, ir
from tessera.lowering.base.emit import required
from tessera.lowering.cuda.isa import sm90
from tessera.lowering.cuda.mma import overlapped_mma
from tessera.lowering.cuda.mma.wgmma_operands import Operand, Product, issue
from tessera.lowering.cuda.schedule.multibuffer import AsyncMmaPlan, accumulates, is_transposed, source_load
from tessera.lowering.cuda.storage.emit_context import TileContext
from tessera.lowering.cuda.storage.environment import Emitted
from tessera.lowering.cuda.storage.register_tiles import Pending, RegisterTile
from tessera.lowering.cuda.storage.shared_tile import SharedTile


class AccumulateContext(overlapped_mma.OverlapContext, TileContext, Protocol):
    """Declare what such a loop needs of the emitter."""


class AsyncAccumulation:
    """Emit one such loop."""

    def __init__(self, host: AccumulateContext, plan: AsyncMmaPlan) -> None:
        self._host = host
        self._plan = plan
        self._issued: list[AnyOp] = []
        loads = [source_load(value) for value in plan.first.operands]
        self._early = [load for load in loads if load is not None and plan.holds(load)]
        self._more: ir.Value | None = None
        self._early_accumulators: list[ir.Value] = []

    # -- the loop ----------------------------------------------------------------------------------------------

    def begin_loop(self, some: ir.Value, start: Sequence[ir.Value]) -> list[ir.Value]:
        """Emit the prologue: issue the first iteration's first MMA if the i1 `some` holds; return the carried values.

        Accumulators that start as constants get their registers before that MMA is issued.  LLVM would put them there
        after it, and ptxas serializes all MMAs if accumulators are written while one is in flight.
        """
        fixed = [number for number, value in enumerate(start) if _is_constant(value)]
        ready = list(start)
        for number, value in zip(fixed, self._settled([start[number] for number in fixed]), strict=True):
            ready[number] = value
        return ready + self._issue_early(some)

    def begin_round(self, values: Sequence[ir.Value], not_first: ir.Value, more: ir.Value) -> None:
        """Wait for the MMA issued early, and define its accumulators.

        ptxas does not track the order of MMAs from one iteration into the next, and would serialize them all without
        this wait.

        not_first, more: whether there are iterations before and after this one
        """
        host, first = self._host, self._plan.first
        self._more = more
        self._issued = []
        accumulators = sm90.wgmma_wait(host.build, 0, values)
        with host.build.when(not_first):
            host.stages.release_rings(host, self._plan.loop)
        host.env[first.results[0]] = RegisterTile(host.layout(first.results[0]), "f32", tuple(accumulators))

    def end_round(self) -> list[ir.Value]:
        """Return the accumulators of the next iteration's first MMA."""
        return self._early_accumulators

    def end_loop(self, some: ir.Value) -> None:
        """Emit the epilogue of the loop: wait for everything in flight."""
        host = self._host
        accumulators = [value for value in self._plan.loop.results if _is_accumulator(host.env[value])]
        for value in accumulators:
            tile = host.env.registers(value)
            done = sm90.wgmma_wait(host.build, 0, tile.values)
            host.env[value] = RegisterTile(tile.layout, tile.element, tuple(done))
        if not accumulators:  # the MMA of the iteration that never comes still writes its registers
            sm90.wgmma_wait(host.build, 0)
        with host.build.when(some):
            host.stages.release_rings(host, self._plan.loop)

    # -- products ----------------------------------------------------------------------------------------------

    def holds(self, op: AnyOp) -> bool:
        """Return whether the loop's body contains an operation."""
        return self._plan.holds(op)

    def is_early(self, op: AnyOp) -> bool:
        """Return whether `op` was issued in the previous iteration."""
        return op == self._plan.first

    def issued(self, op: AnyOp, accumulators: Sequence[ir.Value]) -> None:
        """Record that `op` was issued: other MMAs may take its accumulators now, but nothing may read them yet."""
        host = self._host
        self._issued.append(op)
        value = op.results[0]
        if accumulates(op):
            host.env[value] = RegisterTile(host.layout(value), "f32", tuple(accumulators))
        else:
            host.env[value] = self._pending(op, accumulators)
        if op == self._plan.last:
            self._early_accumulators = self._issue_early(required(self._more))
            self._issued.append(self._plan.first)

    def _settled(self, values: Sequence[ir.Value]) -> Sequence[ir.Value]:
        """Return these values, held in registers."""
        return sm90.wgmma_wait(self._host.build, 0, values) if values else ()

    def _pending(self, op: AnyOp, accumulators: Sequence[ir.Value]) -> Pending:
        layout = self._host.layout(op.results[0])

        def settle(after: Sequence[ir.Value]) -> RegisterTile:
            del after
            behind = len(self._issued) - 1 - self._issued.index(op)
            done = sm90.wgmma_wait(self._host.build, behind, accumulators)
            return RegisterTile(layout, "f32", tuple(done))

        return Pending(settle)

    def _issue_early(self, some: ir.Value) -> list[ir.Value]:
        """Issue the first MMA of the next iteration, if `some` holds."""
        host, op = self._host, self._plan.first
        with host.build.when(some):
            for load in self._early:
                host.stages.wait(load, host.stages.coming(host, load))
        a, b = list(op.operands)
        (m, k), n = ir.ShapedType(a.type).shape, ir.ShapedType(b.type).shape[1]
        left, right = self._operand(a), self._operand(b)
        operands = Operand(left, left.transposed), Operand(right, not right.transposed)
        product = Product((m, n, k), str(ir.ShapedType(a.type).element_type), operands[1], left=operands[0])
        return issue(host.build, host.warp_set, product, None)

    def _operand(self, value: ir.Value) -> SharedTile:
        host, turned = self._host, is_transposed(value)
        load = required(source_load(value))
        if load in self._early:
            return host.stages.at(host, load, host.stages.coming(host, load), transposed=turned)
        found = host.env.shared(load.results[0])
        return SharedTile(found.address, found.panels, found.element, turned)


def _is_accumulator(meaning: Emitted) -> bool:
    """Return whether a loop's result may be the accumulators of an MMA in flight."""
    return isinstance(meaning, RegisterTile) and meaning.element == "f32"


def _is_constant(value: ir.Value) -> bool:
    """Return whether a value is an f32 constant, as accumulators initially are."""
    known = not isinstance(value.owner, ir.Block) and value.owner.operation.name.endswith(".constant")
    return known and str(value.type) == "f32"
