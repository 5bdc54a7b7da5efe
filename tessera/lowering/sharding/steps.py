"""Find the collectives from one sharding to another, and what each moves.

before: f32[64@tp, 32]{sum: dp}    wanted: f32[64, 32@dp]
steps:  reduce_scatter of axis 1 over dp, all_gather of axis 0 over tp
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Final

from tessera.core.graph.graph import Tensor
from tessera.core.placement.placement import Placement
from tessera.core.placement.splits import Split
from tessera.lowering.sharding.placements import Axes, dims_of

ALL_REDUCE: Final = "all_reduce"
REDUCE_SCATTER: Final = "reduce_scatter"
ALL_GATHER: Final = "all_gather"
ALL_TO_ALL: Final = "all_to_all"
SLICE: Final = "slice"


@dataclass(frozen=True, slots=True)
class Step:
    """One collective over the devices along `axes` of the mesh.

    dim: the axis that is joined (all_gather, all_to_all) or cut (reduce_scatter, slice); -1: none
    to: of all_to_all, the axis that is cut
    before, after: the shardings around it
    """

    kind: str
    axes: Axes
    before: Placement
    after: Placement
    dim: int = -1
    to: int = -1

    def moved(self, type_: Tensor, extent: Callable[[Axes], int]) -> int:
        """Return the bytes that each device sends, of a value of `type_` as a whole.

        extent: of the mesh along some axes
        """
        n = extent(self.axes)
        mine, made = (Fraction(type_.bytes, extent(placement.axes)) for placement in (self.before, self.after))
        factor, amount = {
            ALL_REDUCE: (2, mine), REDUCE_SCATTER: (1, mine), ALL_GATHER: (1, made), ALL_TO_ALL: (1, mine),
            SLICE: (0, 0),
        }[self.kind]  # fmt: skip
        return int(Fraction(factor * (n - 1), n) * amount)

    def __str__(self) -> str:
        where = "" if self.dim < 0 else f" axis {self.dim}" + (f" to {self.to}" if self.to >= 0 else "")
        return f"{self.kind}{where} over {', '.join(self.axes)}"


@lru_cache(maxsize=1024)  # a model has few pairs of placements, and asks for them once per operand
def steps_between(current: Placement, wanted: Placement) -> tuple[Step, ...]:
    """Return the collectives that turn one sharding into another, in order.

    Partial sums over several axes of the mesh are joined in one step: one tree.  What is only cut is cut first, so that
    the steps behind move less.
    """
    found = list(_joining(current, wanted))
    here = found[-1].after if found else current
    for make in (_cutting, _exchanging, _gathering, _cutting):
        for step in make(here, wanted):
            found.append(step)
            here = step.after
    assert here == wanted, f"{here} is not {wanted}"
    return tuple(found)


def moved_between(current: Placement, wanted: Placement, type_: Tensor, extent: Callable[[Axes], int]) -> int:
    """Return the bytes that each device sends to turn one sharding into another."""
    return sum(step.moved(type_, extent) for step in steps_between(current, wanted))


def _changed(sharding: Placement, dim: int, axes: Axes) -> Placement:
    return replace(sharding, splits=(*sharding.splits[:dim], Split(axes), *sharding.splits[dim + 1 :]))


def _joining(current: Placement, wanted: Placement) -> Iterator[Step]:
    axes = current.partial
    if not axes or wanted.partial:
        assert current.partial == wanted.partial, "partial sums stay, or are joined"
        return
    for dim, (mine, theirs) in enumerate(zip(dims_of(current), dims_of(wanted), strict=True)):
        if theirs[: len(mine) + len(axes)] == (*mine, *axes):
            made = replace(_changed(current, dim, (*mine, *axes)), partial=(), op="sum")
            yield Step(REDUCE_SCATTER, axes, current, made, dim)
            return
    yield Step(ALL_REDUCE, axes, current, replace(current, partial=(), op="sum"))


def _cutting(current: Placement, wanted: Placement) -> Iterator[Step]:
    """Yield what only cuts: axes of the mesh that no dimension has yet."""
    here = current
    for dim, theirs in enumerate(dims_of(wanted)):
        mine = dims_of(here)[dim]
        new = theirs[len(mine) :]
        if new and theirs[: len(mine)] == mine and not set(new) & set(here.axes):
            made = _changed(here, dim, theirs)
            yield Step(SLICE, new, here, made, dim)
            here = made


def _exchanging(current: Placement, wanted: Placement) -> Iterator[Step]:
    """Yield what moves an axis of the mesh, the innermost of one dimension, to the next place of another."""
    here, moved = current, True
    while moved:
        moved = False
        for dim, to in _pairs(dims_of(here)):
            extra, theirs, target = dims_of(here)[dim], dims_of(wanted)[dim], dims_of(here)[to]
            axes = extra[-1:]
            gone = (
                bool(axes)
                and theirs[: len(extra)] != extra
                and dims_of(wanted)[to][: len(target) + 1] == (*target, *axes)
            )
            if gone:
                made = _changed(_changed(here, dim, extra[:-1]), to, (*target, *axes))
                yield Step(ALL_TO_ALL, axes, here, made, dim, to)
                here, moved = made, True
                break


def _pairs(dims: Sequence[Axes]) -> Iterator[tuple[int, int]]:
    return ((a, b) for a in range(len(dims)) for b in range(len(dims)) if a != b)


def _gathering(current: Placement, wanted: Placement) -> Iterator[Step]:
    here = current
    for dim, theirs in enumerate(dims_of(wanted)):
        mine = dims_of(here)[dim]
        kept = 0
        while kept < min(len(mine), len(theirs)) and mine[kept] == theirs[kept]:
            kept += 1
        if mine[kept:]:
            made = _changed(here, dim, mine[:kept])
            yield Step(ALL_GATHER, mine[kept:], here, made, dim)
            here = made
