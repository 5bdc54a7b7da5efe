"""The code of a loop whose last product is issued in the next round: see `overlap` for what becomes of it."""

from collections.abc import Sequence
from typing import Any, Protocol

from tessera.lowering.cuda.mma import prefetch_scores
from tessera.lowering.cuda.mma.overlapped_mma import Kept, OverlappedMma
from tessera.lowering.cuda.mma.prefetch_scores import ScorePrefetch
from tessera.lowering.cuda.schedule.mma_overlap import OverlapPlan
from tessera.lowering.cuda.storage.register_tiles import RegisterTile
from tessera.lowering.cuda.storage.warps import ROLLED


class OverlappedLoopContext(prefetch_scores.ScorePrefetchContext, Protocol):
    """What such a loop asks of the code around it."""

    def block(self, block: Any) -> None:
        """Emit every operation of `block` but its terminator."""
        ...

    def values_of(self, value: Any, target: Any) -> list[Any]:
        """The scalars that stand for `value`, in the layout of `target`."""
        ...

    def kinds_of(self, value: Any) -> list[str]:
        """The types of the scalars that stand for a value."""
        ...

    def rounds_of(self, rings: Sequence[int]) -> list[Any]:
        """The rounds of rings, as values that a loop carries."""
        ...

    def take(self, targets: list[Any], values: list[Any]) -> list[Any]:
        """Define `targets` from the front of `values`; gives the rest."""
        ...

    def take_rounds(self, rings: Sequence[int], values: list[Any]) -> None:
        """Go on with the rounds of rings at the front of `values`."""
        ...


class OverlappedLoop:
    """One `scf.for` with two products; `turns`: warp groups take turns at issuing them."""

    def __init__(self, host: OverlappedLoopContext, op: Any, plan: OverlapPlan, *, turns: bool) -> None:
        self._host = host
        self._op = op
        self._plan = plan
        self._overlap = ScorePrefetch(host, plan, turns=turns) if plan.ahead else OverlappedMma(host, plan, turns=turns)
        self._inner = op.regions[0].blocks[0]
        self._carried = list(self._inner.arguments)[1:]
        last = list(list(self._inner.operations)[-1].operation.operands)
        pairs = enumerate(zip(last, self._carried, strict=True))
        self._others = [pair for number, pair in pairs if number != plan.number]
        self._rings = host.stages.inside(op)

    def emit(self) -> None:
        """Emit the loop, or nothing where it has no rounds."""
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

    def _bounds(self) -> list[Any]:
        return [self._host.build.index(self._host.env[v]) for v in list(self._op.operands)[:3]]

    def _whole(self) -> list[Any]:
        """The first round, the others, and the last product."""
        host, build = self._host, self._host.build
        host.take(self._carried, self._initial())
        lower, upper, step = self._bounds()
        self._overlap.start()
        ends = build.loop(build.add(lower, step), upper, step, self._round(lower), self._body, ROLLED)
        waiting = self._take(ends)
        sums = self._carried[self._plan.number]
        host.env[sums] = self._overlap.finish(waiting, host.layout(sums))
        return [v for value in self._carried for v in host.values_of(value, value)] + host.rounds_of(self._rings)

    def _nothing(self) -> list[Any]:
        return self._initial() + self._host.rounds_of(self._rings)

    def _initial(self) -> list[Any]:
        initial = list(self._op.operands)[3:]
        return [v for pair in zip(initial, self._carried, strict=True) for v in self._host.values_of(*pair)]

    def _body(self, index: Any, values: list[Any]) -> Sequence[Any]:
        self._overlap.waiting = self._take(values)
        sums = self._carried[self._plan.number]
        # Its layout is asked for before its values are there.
        self._host.env[sums] = RegisterTile(self._host.layout(sums), "f32", ())
        return self._round(index)

    def _round(self, index: Any) -> list[Any]:
        """One round; gives what the next one takes."""
        host = self._host
        _, upper, step = self._bounds()
        host.env[self._inner.arguments[0]] = index
        self._overlap.begin(host.build.compare("slt", host.build.add(index, step), upper))
        before, host.overlap = host.overlap, self._overlap
        host.block(self._inner)
        host.overlap = before
        self._overlap.end()
        rest = [v for pair in self._others for v in host.values_of(*pair)]
        return [*rest, *host.rounds_of(self._rings), *self._overlap.scores, *self._kept().values()]

    def _take(self, values: Sequence[Any]) -> Kept:
        """Define what a round begins with; gives the product that waits to be issued."""
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
