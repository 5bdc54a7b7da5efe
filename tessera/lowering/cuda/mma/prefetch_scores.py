"""Prefetch attention scores (intra-warpgroup pipelining): an iteration issues the first MMA of the next one.

before: `for i: s = dot(q, k[i]); p, c = f(s, c); acc = dot(p, v[i], g(acc))`
after:  iteration i begins with its s in registers, which have to hold the scores of two iterations.  The MMA with
        v[i - 1] is issued before the first arithmetic on s, that with k[i + 1] after the last, and both are waited for
        where their accumulators are first read, so no wait comes right after an issue.  The last iteration issues one
        as well, on bytes without meaning; its result is not read.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from tessera.core.mlir import AnyOp, ir
from tessera.lowering.cuda.isa import sm90
from tessera.lowering.cuda.mma import overlapped_mma as overlap
from tessera.lowering.cuda.mma.overlapped_mma import OverlappedMma
from tessera.lowering.cuda.schedule.mma_overlap import OverlapPlan
from tessera.lowering.cuda.storage.emit_context import TileContext, WindowContext
from tessera.lowering.cuda.storage.register_tiles import RegisterTile


class ScorePrefetchContext(overlap.OverlapContext, TileContext, WindowContext, Protocol):
    """Declare what such a loop needs of the emitter."""

    def overlapping(self, overlap: OverlappedMma) -> AbstractContextManager[None]:
        """Issue and delay MMAs as `overlap` says inside the `with`."""
        ...


class ScorePrefetch(OverlappedMma):
    """Emit one such loop; `scores`: the accumulators of the first MMA, of this iteration or the next."""

    def __init__(self, host: ScorePrefetchContext, plan: OverlapPlan, *, pingpong: bool) -> None:
        super().__init__(host, plan, pingpong=pingpong)
        self._around = host
        self._loads = [op for op in plan.prefetched if op.name == "tessera.load"]
        self._flies = False
        self._more: ir.Value | None = None

    def start(self) -> None:
        """Issue the first MMA of the first iteration and wait for it: there is nothing to overlap it with."""
        self._begin_first(None)
        self.end()

    def begin(self, more: ir.Value) -> None:
        """Begin an iteration: test early whether the next one's operands have arrived, as the answer takes a while."""
        super().begin(more)
        self._host.stages.test_next(self._host, self._loads)
        self._more = more

    def end(self) -> None:
        """End an iteration: wait for the next one's scores unless they were waited for."""
        if self._flies:
            self._waited((), ())

    def skips(self, op: AnyOp) -> bool:
        """Return whether `op` was emitted in the previous iteration, as all that computes the scores was."""
        if op == self._plan.first:
            result = op.results[0]
            self._host.env[result] = RegisterTile(self._around.layout(result), "f32", tuple(self.scores))
        return op in self._plan.prefetched

    def after(self, op: AnyOp) -> None:
        """Issue the first MMA of the next iteration after the last operation that reads the scores."""
        if op != self._plan.readers[1]:
            return
        host = self._host
        if op.results and isinstance(host.env.get(op.results[0]), RegisterTile):
            # What was read must be read before the registers are written again.
            found = host.env.registers(op.results[0])
            values = tuple(sm90.pinned(host.build, found.values))
            host.env[op.results[0]] = RegisterTile(found.layout, found.element, values)
        self._pass_turn(mine=True)
        self._begin_first(self._more)
        # ptxas would move the arithmetic that follows up before the MMA; it does not move it past a branch.
        self._look()

    def runs(self, op: AnyOp, accumulators: Sequence[ir.Value]) -> bool:
        """Return whether `op` is the first MMA, and keep its accumulators."""
        if op != self._plan.first:
            return False
        self.scores = list(accumulators)
        return True

    def enter(self, op: AnyOp) -> None:
        """Do nothing: here a turn covers the exponentials."""

    def leave(self, op: AnyOp) -> None:
        """Do nothing: the turn ends where MMAs are waited for."""

    def _begin_first(self, more: ir.Value | None) -> None:
        """Issue the first MMA of the next iteration, if there is one (an i1; None: there is)."""
        host = self._around
        host.stages.wait_next(host, self._loads, more)
        with host.overlapping(self):
            for op in self._plan.prefetched:
                host.repeat(op)
        self._flies, self._more = True, more

    def _waited(self, accumulators: Sequence[ir.Value], after: Sequence[ir.Value]) -> Sequence[ir.Value]:
        """Wait for both MMAs and return the second one's accumulators."""
        host = self._host
        if not self._flies:
            return super()._waited(accumulators, after)
        done = sm90.wgmma_wait(host.build, 0, [*accumulators, *self.scores], after)
        self.scores, self._flies = done[len(accumulators) :], False
        host.stages.release_next(host, self._loads, self._more)
        return done[: len(accumulators)]
