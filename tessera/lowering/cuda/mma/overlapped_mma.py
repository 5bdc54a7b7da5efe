"""Overlap MMAs with softmax in attention loops: the second MMA runs beside the next iteration's arithmetic.

before: `for i: s = dot(q, k[i]); p, c = f(s, c); acc = dot(p, v[i], g(acc))`
after:  the MMA with v[i] is issued in iteration i + 1, before the first arithmetic on that iteration's s, and waited
        for where its accumulators are first read.  A lane that issues an MMA whose operand A is in registers waits
        until the tensor cores have read it, so ptxas spreads these instructions among the arithmetic.  The first
        iteration has none to issue, and the last one is issued after the loop.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tessera.core.layouts import Layout
from tessera.core.mlir import AnyOp, ir
from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.cuda.base.inline_ptx import inline_ptx
from tessera.lowering.cuda.isa import sm90
from tessera.lowering.cuda.mma.wgmma_operands import GROUP_LANES, Operand, Product, group_number, issue
from tessera.lowering.cuda.pipeline import producer_consumer as stages
from tessera.lowering.cuda.pipeline.mbarrier_pipeline import PipelineState
from tessera.lowering.cuda.pipeline.producer_consumer import Pipelines
from tessera.lowering.cuda.schedule.mma_overlap import OverlapPlan
from tessera.lowering.cuda.storage.register_tiles import Pending, RegisterTile
from tessera.lowering.cuda.storage.warps import WarpSet

_FIRST_BARRIER = 2


class OverlapContext(stages.PipelineContext, Protocol):
    """Declare what an overlapped loop needs of the emitter."""

    stages: Pipelines


@dataclass(frozen=True, slots=True)
class Kept:
    """Hold an MMA that was not issued yet: its accumulators, operand A, and the pipeline stage of operand B."""

    accumulators: tuple[ir.Value, ...]
    words: tuple[ir.Value, ...]
    now: PipelineState

    def values(self) -> list[ir.Value]:
        """Return it as values that a loop carries."""
        return [*self.accumulators, *self.words, *self.now.values()]

    def like(self, values: Sequence[ir.Value]) -> "Kept":
        """Read an MMA of the same shape from a loop's values."""
        cut = len(self.accumulators) + len(self.words)
        return Kept(
            tuple(values[: len(self.accumulators)]),
            tuple(values[len(self.accumulators) : cut]),
            PipelineState(*values[cut:]),
        )


class OverlappedMma:
    """Emit one such loop: decide which operations of its body are emitted in place and which are delayed.

    waiting: the second MMA of the previous iteration, which was not issued yet
    scores: registers that an iteration takes from the previous one; none here
    """

    def __init__(self, host: OverlapContext, plan: OverlapPlan, *, pingpong: bool) -> None:
        self._host = host
        self._plan = plan
        self._pingpong = pingpong
        self._mine = False
        self._product: Product | None = None
        self.kept: Kept | None = None
        self.waiting: Kept | None = None
        self.scores: list[ir.Value] = []
        self._round: PipelineState | None = None
        self._looked = False

    # -- the loop ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Emit the prologue of the loop."""

    def begin(self, more: ir.Value) -> None:
        """Begin an iteration; `more` (an i1): whether another one follows."""
        del more
        self._round = self._host.stages.coming(self._host, self._plan.load)
        self._looked = False

    def end(self) -> None:
        """End an iteration."""

    def finish(self, waiting: Kept, layout: Layout) -> RegisterTile:
        """Emit the epilogue of the loop: the last MMA."""
        accumulators = self._issue(waiting)
        done = sm90.wgmma_wait(self._host.build, 0, accumulators, waiting.words)
        self._host.stages.release(self._host, self._plan.load, waiting.now)
        return RegisterTile(layout, "f32", tuple(done))

    # -- operations --------------------------------------------------------------------------------------------

    def skips(self, op: AnyOp) -> bool:
        """Return whether an operation of the body was emitted already."""
        del op
        return False

    def before(self, op: AnyOp) -> None:
        """Issue the previous iteration's second MMA, if this operation is where it belongs."""
        if op != self._plan.readers[0]:
            return
        self.leave(op)
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            self._begin_second(waiting)

    def after(self, op: AnyOp) -> None:
        """Emit what follows an operation."""

    def keeps(self, op: AnyOp, product: Product, accumulators: Sequence[ir.Value]) -> bool:
        """Delay `op` and return true, if it is the MMA to issue in the next iteration."""
        if op != self._plan.second:
            return False
        self._pass_turn(mine=False)
        if not self._looked:
            self._look()
        self._product = product
        self.kept = Kept(tuple(accumulators), product.words, self._host.stages.now(self._plan.load))
        return True

    def enter(self, op: AnyOp) -> None:
        """Wait for this warp group's turn before the first MMA."""
        if op == self._plan.first:
            self._pass_turn(mine=True)

    def leave(self, op: AnyOp) -> None:
        """Pass the turn to the other warp group before the arithmetic on the accumulators."""
        del op
        self._pass_turn(mine=False)

    def runs(self, op: AnyOp, accumulators: Sequence[ir.Value]) -> bool:
        """Return whether `op`, just issued into `accumulators`, is waited for elsewhere."""
        del op, accumulators
        return False

    # -- the second product ------------------------------------------------------------------------------------

    @property
    def _accumulator(self) -> ir.Value:
        """Return the loop's carried value that the second MMA accumulates into."""
        return self._plan.loop.regions[0].blocks[0].arguments[1 + self._plan.number]

    def _begin_second(self, waiting: Kept) -> None:
        host, accumulators = self._host, self._issue(waiting)
        layout = host.env.registers(self._accumulator).layout

        def settle(after: Sequence[ir.Value]) -> RegisterTile:
            # ptxas moves a wait up as far as it can, before the very work that is to hide it, but not past a branch,
            # such as the test of an mbarrier.
            self._pass_turn(mine=False)
            if self._looked:
                host.stages.wait(self._plan.load, waiting.now)
            else:
                self._look()
            # The hardware may read the registers of operand A until then.
            done = self._waited(accumulators, (*after, *waiting.words))
            host.stages.release(host, self._plan.load, waiting.now)
            return RegisterTile(layout, "f32", tuple(done))

        host.env[self._accumulator] = Pending(settle)

    def _waited(self, accumulators: Sequence[ir.Value], after: Sequence[ir.Value]) -> Sequence[ir.Value]:
        """Wait for all MMAs in flight and return the second one's accumulators."""
        return sm90.wgmma_wait(self._host.build, 0, accumulators, after)

    def _issue(self, waiting: Kept) -> list[ir.Value]:
        host, product = self._host, self._product
        if product is None:
            message = "no product was kept"
            raise AssertionError(message)
        tile = host.stages.at(host, self._plan.load, waiting.now, transposed=product.right.tile.transposed)
        right = Operand(tile, product.right.outer_major)
        again = Product(product.shape, product.element, right, words=waiting.words)
        return issue(host.build, host.warp_set, again, waiting.accumulators)

    def _look(self) -> None:
        """Wait for operand B of this iteration's second MMA, once."""
        if self._round is not None:
            self._host.stages.wait(self._plan.load, self._round)
            self._looked = True

    def _pass_turn(self, *, mine: bool) -> None:
        """Begin or end this warp group's turn at issuing MMAs."""
        if self._pingpong and mine != self._mine:
            turn(self._host.build, self._host.warp_set, mine=mine)
            self._mine = mine


def turn(build: IndexBuilder, warp_set: WarpSet, *, mine: bool) -> None:
    """Wait for this warp group's turn, or (not `mine`) pass the turn to the other one."""
    if warp_set.lanes != 2 * GROUP_LANES:
        return
    group = group_number(build, warp_set)
    if not mine:
        group = build.value("arith.xori", [group, build.word(1)], "i32")
    warp_set.in_turn = mine
    barrier = build.value("arith.addi", [group, build.word(_FIRST_BARRIER)], "i32")
    what = "sync" if mine else "arrive"
    inline_ptx(build, f"bar.{what} $0, {warp_set.lanes};", "r", [barrier])


def begin_pingpong(build: IndexBuilder, warp_set: WarpSet) -> None:
    """Begin ping-pong scheduling: the second warp group passes the first turn to the first one."""
    if warp_set.lanes == 2 * GROUP_LANES:
        with build.when(build.compare("uge", warp_set.thread, GROUP_LANES)):
            sm90.named_barrier_arrive(build, _FIRST_BARRIER, warp_set.lanes)
