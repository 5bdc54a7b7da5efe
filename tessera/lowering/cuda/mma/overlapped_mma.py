"""Loops with two products in a row, as attention has: the second one runs beside the next round's arithmetic.

before: `for i: s = dot(q, k[i]); p, c = f(s, c); acc = dot(p, v[i], g(acc))`
after:  the product with v[i] is issued in round i + 1, in front of the first arithmetic on that round's s, and waited
        for where its sum is first used.  A lane that issues a product whose left factor is in registers waits until the
        tensor cores have read it, so ptxas spreads these instructions among the arithmetic.  The first round has none
        to issue, and the last one is issued behind the loop.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

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
    """What an overlapped loop asks of the code around it."""

    stages: Pipelines


@dataclass(frozen=True, slots=True)
class Kept:
    """A product that was not issued yet: its sums so far, and the round of the ring that holds its right factor."""

    sums: tuple[Any, ...]
    words: tuple[Any, ...]
    now: PipelineState

    def values(self) -> list[Any]:
        """As values that a loop carries."""
        return [*self.sums, *self.words, *self.now.values()]

    def like(self, values: Sequence[Any]) -> "Kept":
        """The same kind of thing out of a loop's values."""
        cut = len(self.sums) + len(self.words)
        return Kept(tuple(values[: len(self.sums)]), tuple(values[len(self.sums) : cut]), PipelineState(*values[cut:]))


class OverlappedMma:
    """One such loop while its code is emitted: what is done where an operation of its body stands, and what later.

    waiting: the second product of the round before, which was not issued yet
    scores: registers that a round takes from the one before; none here
    """

    def __init__(self, host: OverlapContext, plan: OverlapPlan, *, turns: bool) -> None:
        self._host = host
        self._plan = plan
        self._turns = turns
        self._mine = False
        self._product: Product | None = None
        self.kept: Kept | None = None
        self.waiting: Kept | None = None
        self.scores: list[Any] = []
        self._round: PipelineState | None = None
        self._looked = False

    # -- the loop ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """In front of the loop."""

    def begin(self, more: Any) -> None:
        """In front of a round; `more` (an i1): another one follows."""
        del more
        self._round = self._host.stages.coming(self._host, self._plan.load)
        self._looked = False

    def end(self) -> None:
        """Behind a round."""

    def finish(self, waiting: Kept, layout: Any) -> RegisterTile:
        """Behind the loop: the last product."""
        sums = self._issue(waiting)
        done = sm90.wgmma_wait(self._host.build, 0, sums, waiting.words)
        self._host.stages.release(self._host, self._plan.load, waiting.now)
        return RegisterTile(layout, "f32", tuple(done))

    # -- operations --------------------------------------------------------------------------------------------

    def skips(self, op: Any) -> bool:
        """Whether an operation of the body was done already."""
        del op
        return False

    def before(self, op: Any) -> None:
        """In front of an operation: the second product of the round before, where it should be issued."""
        if op != self._plan.readers[0]:
            return
        self.leave(op)
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            self._begin_second(waiting)

    def after(self, op: Any) -> None:
        """Behind an operation."""

    def keeps(self, op: Any, product: Product, sums: Sequence[Any]) -> bool:
        """Whether `op` is the product to be issued later: then remember it."""
        if op != self._plan.second:
            return False
        self._turn(mine=False)
        if not self._looked:
            self._look()
        self._product = product
        self.kept = Kept(tuple(sums), product.words, self._host.stages.now(self._plan.load))
        return True

    def enter(self, op: Any) -> None:
        """In front of the first product: this warp group's turn."""
        if op == self._plan.first:
            self._turn(mine=True)

    def leave(self, op: Any) -> None:
        """In front of the arithmetic on its sums: the other warp group's turn."""
        del op
        self._turn(mine=False)

    def runs(self, op: Any, sums: Sequence[Any]) -> bool:
        """Whether product `op`, which was issued just now, is waited for later; `sums`: its registers."""
        del op, sums
        return False

    # -- the second product ------------------------------------------------------------------------------------

    @property
    def _sums(self) -> Any:
        """The loop's carried value that is the sum of the second product."""
        return self._plan.loop.regions[0].blocks[0].arguments[1 + self._plan.number]

    def _begin_second(self, waiting: Kept) -> None:
        host, sums = self._host, self._issue(waiting)
        layout = host.env[self._sums].layout

        def settle(after: Sequence[Any]) -> RegisterTile:
            # ptxas moves a wait up as far as it can, in front of the very work that it should come behind, but not
            # past a branch: looking at a barrier is one.
            self._turn(mine=False)
            if self._looked:
                host.stages.wait(self._plan.load, waiting.now)
            else:
                self._look()
            # The hardware may read the registers of the left factor until then.
            done = self._waited(sums, (*after, *waiting.words))
            host.stages.release(host, self._plan.load, waiting.now)
            return RegisterTile(layout, "f32", tuple(done))

        host.env[self._sums] = Pending(settle)

    def _waited(self, sums: Sequence[Any], after: Sequence[Any]) -> Sequence[Any]:
        """Wait for all that runs; gives the second product's sums."""
        return sm90.wgmma_wait(self._host.build, 0, sums, after)

    def _issue(self, waiting: Kept) -> list[Any]:
        host, product = self._host, self._product
        if product is None:
            message = "no product was kept"
            raise AssertionError(message)
        tile = host.stages.at(host, self._plan.load, waiting.now, transposed=product.right.tile.transposed)
        right = Operand(tile, product.right.outer_major)
        again = Product(product.shape, product.element, right, words=waiting.words)
        return issue(host.build, host.team, again, waiting.sums)

    def _look(self) -> None:
        """Wait for the right factor of this round's second product; behind the first time it is there."""
        if self._round is not None:
            self._host.stages.wait(self._plan.load, self._round)
            self._looked = True

    def _turn(self, *, mine: bool) -> None:
        """Begin or end this warp group's turn, of which the other one has none."""
        if self._turns and mine != self._mine:
            turn(self._host.build, self._host.team, mine=mine)
            self._mine = mine


def turn(build: IndexBuilder, team: WarpSet, *, mine: bool) -> None:
    """Wait for this warp group's turn, or (not `mine`) give the turn to the other one."""
    if team.lanes != 2 * GROUP_LANES:
        return
    group = group_number(build, team)
    if not mine:
        group = build.value("arith.xori", [group, build.word(1)], "i32")
    team.in_turn = mine
    barrier = build.value("arith.addi", [group, build.word(_FIRST_BARRIER)], "i32")
    what = "sync" if mine else "arrive"
    inline_ptx(build, f"bar.{what} $0, {team.lanes};", "r", [barrier])


def begin_turns(build: IndexBuilder, team: WarpSet) -> None:
    """Once, in front of everything: the second warp group gives the first one its turn."""
    if team.lanes == 2 * GROUP_LANES:
        with build.when(build.compare("uge", team.thread, GROUP_LANES)):
            sm90.named_barrier_arrive(build, _FIRST_BARRIER, team.lanes)
