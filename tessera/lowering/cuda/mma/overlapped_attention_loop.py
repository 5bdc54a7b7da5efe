"""Emit an attention loop whose last MMA is issued in the next iteration; `overlapped_mma` shows the result."""

from collections.abc import Sequence
from typing import Protocol

from tessera.core.mlir import AnyOp, Index, ir
from tessera.lowering.cuda.mma import prefetch_scores
from tessera.lowering.cuda.mma.overlapped_mma import Kept, OverlappedMma
from tessera.lowering.cuda.mma.prefetch_scores import ScorePrefetch
from tessera.lowering.cuda.schedule.mma_overlap import OverlapPlan
from tessera.lowering.cuda.storage.register_tiles import RegisterTile
from tessera.lowering.cuda.storage.warps import ROLLED


class OverlappedLoopContext(prefetch_scores.ScorePrefetchContext, Protocol):
    """Declare what such a loop needs of the emitter."""

    def block(self, block: ir.Block) -> None:
        """Emit every operation of `block` but its terminator."""
        ...

    def values_of(self, value: ir.Value, target: ir.Value) -> list[ir.Value]:
        """Return the scalars that stand for `value`, in the layout of `target`."""
        ...

    def kinds_of(self, value: ir.Value) -> list[str]:
        """Return the types of the scalars that stand for a value."""
        ...

    def rounds_of(self, rings: Sequence[int]) -> list[ir.Value]:
        """Return the states of pipelines, as values that a loop carries."""
        ...

    def take(self, targets: Sequence[ir.Value], values: list[ir.Value]) -> list[ir.Value]:
        """Define `targets` from the front of `values` and return the rest."""
        ...

    def take_rounds(self, rings: Sequence[int], values: list[ir.Value]) -> None:
        """Continue with the states of pipelines at the front of `values`."""
        ...


class OverlappedLoop:
    """Emit one `scf.for` with two MMAs; `pingpong`: warp groups take turns at issuing them."""

    def __init__(self, host: OverlappedLoopContext, op: AnyOp, plan: OverlapPlan, *, pingpong: bool) -> None:
        self._host = host
        self._op = op
        self._plan = plan
        self._overlap = (
            ScorePrefetch(host, plan, pingpong=pingpong)
            if plan.prefetched
            else OverlappedMma(host, plan, pingpong=pingpong)
        )
        self._inner = op.regions[0].blocks[0]
        self._carried = list(self._inner.arguments)[1:]
        last = list(list(self._inner.operations)[-1].operation.operands)
        pairs = enumerate(zip(last, self._carried, strict=True))
        self._others = [pair for number, pair in pairs if number != plan.number]
        self._rings = host.stages.inside(op)

    def emit(self) -> None:
        """Emit the loop, or nothing where it has no iterations."""
        host, build, rings = self._host, self._host.build, self._rings
        before = dict(host.rounds)
        lower, upper, _ = self._bounds()
        kinds = [kind for value in self._op.results for kind in host.kinds_of(value)] + ["i32", "i32"] * len(rings)
        new = build.create("scf.if", [build.compare("slt", lower, upper)], kinds, regions=2)
        for region, branch in zip(new.regions, (self._whole, self._nothing), strict=True):
            host.rounds = dict(before)
            with build.at(region.blocks.append()):
                build.create("scf.yield", branch())
        host.take_rounds(rings, host.take(list(self._op.results), list(new.results)))

    def _bounds(self) -> list[ir.Value]:
        return [self._host.build.index(self._host.env.scalar(v)) for v in list(self._op.operands)[:3]]

    def _whole(self) -> list[ir.Value]:
        """Emit the first iteration, the others, and the last MMA."""
        host, build = self._host, self._host.build
        host.take(self._carried, self._initial())
        lower, upper, step = self._bounds()
        self._overlap.start()
        ends = build.loop(build.add(lower, step), upper, step, self._round(lower), self._body, ROLLED)
        waiting = self._take(ends)
        accumulators = self._carried[self._plan.number]
        host.env[accumulators] = self._overlap.finish(waiting, host.layout(accumulators))
        return [v for value in self._carried for v in host.values_of(value, value)] + host.rounds_of(self._rings)

    def _nothing(self) -> list[ir.Value]:
        return self._initial() + self._host.rounds_of(self._rings)

    def _initial(self) -> list[ir.Value]:
        initial = list(self._op.operands)[3:]
        return [v for pair in zip(initial, self._carried, strict=True) for v in self._host.values_of(*pair)]

    def _body(self, index: Index, values: list[ir.Value]) -> Sequence[ir.Value]:
        self._overlap.waiting = self._take(values)
        accumulators = self._carried[self._plan.number]
        # Its layout is needed before its values exist.
        self._host.env[accumulators] = RegisterTile(self._host.layout(accumulators), "f32", ())
        return self._round(index)

    def _round(self, index: Index) -> list[ir.Value]:
        """Emit one iteration and return the values that it passes to the next."""
        host = self._host
        _, upper, step = self._bounds()
        host.env[self._inner.arguments[0]] = index
        self._overlap.begin(host.build.compare("slt", host.build.add(index, step), upper))
        with host.overlapping(self._overlap):
            host.block(self._inner)
        self._overlap.end()
        rest = [v for pair in self._others for v in host.values_of(*pair)]
        return [*rest, *host.rounds_of(self._rings), *self._overlap.scores, *self._kept().values()]

    def _take(self, values: Sequence[ir.Value]) -> Kept:
        """Define the values that an iteration begins with, and return the MMA that waits to be issued."""
        rest = self._host.take([argument for _, argument in self._others], list(values))
        self._host.take_rounds(self._rings, rest)
        rest = rest[2 * len(self._rings) :]
        count = len(self._overlap.scores)
        self._overlap.scores = rest[:count]
        return self._kept().like(rest[count:])

    def _kept(self) -> Kept:
        kept = self._overlap.kept
        if kept is None:
            message = "the loop kept no product"
            raise AssertionError(message)
        return kept
