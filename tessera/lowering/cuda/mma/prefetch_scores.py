"""Loops with two products in a row whose first one is issued a round ahead, where registers hold two rounds' scores.

before: `for i: s = dot(q, k[i]); p, c = f(s, c); acc = dot(p, v[i], g(acc))`
after:  round i begins with its s; the product with v[i - 1] is issued in front of the first arithmetic on it, that with
        k[i + 1] behind the last, and both are waited for where their sums are first used.  Nobody ever waits for a
        product that has just been issued.  The last round issues one as well, of bytes that mean nothing, and nobody
        reads its sums.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from tessera.lowering.cuda.isa import sm90
from tessera.lowering.cuda.mma import overlapped_mma as overlap
from tessera.lowering.cuda.mma.overlapped_mma import OverlappedMma
from tessera.lowering.cuda.schedule.mma_overlap import OverlapPlan
from tessera.lowering.cuda.storage.emit_context import TileContext, WindowContext
from tessera.lowering.cuda.storage.register_tiles import RegisterTile


class ScorePrefetchContext(overlap.OverlapContext, TileContext, WindowContext, Protocol):
    """What such a loop asks of the code around it."""

    overlap: OverlappedMma | None


class ScorePrefetch(OverlappedMma):
    """One such loop while its code is emitted; `scores`: the sums of the first product, of this or the next round."""

    def __init__(self, host: ScorePrefetchContext, plan: OverlapPlan, *, turns: bool) -> None:
        super().__init__(host, plan, turns=turns)
        self._around = host
        self._loads = [op for op in plan.ahead if op.name == "tessera.load"]
        self._flies = False
        self._more: Any = None

    def start(self) -> None:
        """The first product of the first round: there is nothing to do beside it."""
        self._begin_first(None)
        self.end()

    def begin(self, more: Any) -> None:
        """In front of a round: look whether the next one's factors are there, which takes a while."""
        super().begin(more)
        self._host.stages.look_ahead(self._host, self._loads)
        self._more = more

    def end(self) -> None:
        """Behind a round: wait for the next one's scores where nothing has."""
        if self._flies:
            self._waited((), ())

    def skips(self, op: Any) -> bool:
        """What gives the scores was done in the round before."""
        if op == self._plan.first:
            result = op.results[0]
            self._host.env[result] = RegisterTile(self._around.layout(result), "f32", tuple(self.scores))
        return op in self._plan.ahead

    def after(self, op: Any) -> None:
        """Behind the last operation that reads the scores: the first product of the next round."""
        if op != self._plan.readers[1]:
            return
        host = self._host
        if op.results and isinstance(host.env.get(op.results[0]), RegisterTile):
            # What was read must be read before the registers are written again.
            found: RegisterTile = host.env[op.results[0]]
            values = tuple(sm90.pinned(host.build, found.values))
            host.env[op.results[0]] = RegisterTile(found.layout, found.element, values)
        self._turn(mine=True)
        self._begin_first(self._more)
        # ptxas moves the arithmetic that follows up in front of the product, but not past a branch.
        self._look()

    def runs(self, op: Any, sums: Sequence[Any]) -> bool:
        """Whether `op` is the first product."""
        if op != self._plan.first:
            return False
        self.scores = list(sums)
        return True

    def enter(self, op: Any) -> None:
        """The turn is for exponentials."""

    def leave(self, op: Any) -> None:
        """It ends where products are waited for."""

    def _begin_first(self, more: Any | None) -> None:
        """Issue the first product of the next round, if there is one (an i1; None: there is)."""
        host = self._around
        host.stages.go_on(host, self._loads, more)
        before, host.overlap = host.overlap, self
        for op in self._plan.ahead:
            host.repeat(op)
        host.overlap = before
        self._flies, self._more = True, more

    def _waited(self, sums: Sequence[Any], after: Sequence[Any]) -> Sequence[Any]:
        """Wait for both products; gives the second one's sums."""
        host = self._host
        if not self._flies:
            return super()._waited(sums, after)
        done = sm90.wgmma_wait(host.build, 0, [*sums, *self.scores], after)
        self.scores, self._flies = done[len(sums) :], False
        host.stages.release_ahead(host, self._loads, self._more)
        return done[: len(sums)]
