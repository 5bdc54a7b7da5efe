"""Index maps: which element of its operand a view's element is.

Each axis of the operand is a quasi-affine function of the result's axes: a constant and terms
`scale * (axis // divisor % modulus)`, so transposes, reshapes, slices, strides, flips, windows (convolution), splits
and broadcasts are one kind of value.  Elements whose index lies outside the operand are `fill` (padding).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

_MOST_KNOWN: Final = 4096
"""Reshapes that are remembered: the layers of a model ask for the same ones."""


@dataclass(frozen=True, slots=True, order=True)
class Term:
    """`scale * (axis // divisor % modulus)`; modulus 0: none is taken."""

    axis: int
    scale: int = 1
    divisor: int = 1
    modulus: int = 0


@dataclass(frozen=True, slots=True)
class Affine:
    """`constant` plus the sum of `terms`."""

    constant: int = 0
    terms: tuple[Term, ...] = ()

    def at(self, index: Sequence[int]) -> int:
        """Return the value for one index of the result."""
        total = self.constant
        for term in self.terms:
            part = index[term.axis] // term.divisor
            total += term.scale * (part % term.modulus if term.modulus else part)
        return total

    @property
    def axis(self) -> int | None:
        """The axis that this is, unchanged; None where it is anything else."""
        if self.constant == 0 and len(self.terms) == 1 and self.terms[0] == Term(self.terms[0].axis):
            return self.terms[0].axis
        return None


@dataclass(frozen=True, slots=True)
class IndexMap:
    """A view.  shape: of the result; axes: one function an axis of the operand.

    padded: whether indices may lie outside the operand, where the result is 0
    """

    shape: tuple[int, ...]
    axes: tuple[Affine, ...]
    padded: bool = False

    @property
    def permutation(self) -> tuple[int, ...] | None:
        """Result axis by operand axis, where each of the operand's axes is one of the result's, and all of them."""
        found = [affine.axis for affine in self.axes]
        known = [axis for axis in found if axis is not None]
        if len(known) == len(found) and sorted(known) == list(range(len(self.shape))):
            return tuple(known)
        return None

    def is_identity(self, shape: Sequence[int]) -> bool:
        """Return whether a view of an operand of `shape` is that operand; an extent of 1 has index 0 alone."""
        if tuple(shape) != self.shape or self.padded:
            return False
        return 0 in self.shape or all(
            affine.axis == axis or (size == 1 and affine.at((0,) * len(shape)) == 0 and self._alone(affine))
            for axis, (size, affine) in enumerate(zip(shape, self.axes, strict=True))
        )

    def _alone(self, affine: Affine) -> bool:
        """Return whether an index is the same everywhere."""
        return all(self.shape[term.axis] == 1 for term in affine.terms)


def identity(shape: Sequence[int]) -> IndexMap:
    """Return the view that changes nothing."""
    return IndexMap(tuple(shape), tuple(Affine(0, (Term(axis),)) for axis in range(len(shape))))


def transpose(shape: Sequence[int], permutation: Sequence[int]) -> IndexMap:
    """Return the view whose axis i is axis `permutation[i]` of an operand of `shape`."""
    places = {axis: place for place, axis in enumerate(permutation)}
    axes = tuple(Affine(0, (Term(places[axis]),)) for axis in range(len(shape)))
    return IndexMap(tuple(shape[axis] for axis in permutation), axes)


def window(shape: Sequence[int], starts: Sequence[int], steps: Sequence[int], extents: Sequence[int]) -> IndexMap:
    """Return the view of `extents` elements along each axis from `starts` on, `steps` apart; outside it is 0."""
    axes = tuple(
        Affine(start, (Term(axis, step),)) for axis, (start, step) in enumerate(zip(starts, steps, strict=True))
    )
    last = [start + step * (extent - 1) for start, step, extent in zip(starts, steps, extents, strict=True)]
    outside = any(
        extent and (min(start, end) < 0 or max(start, end) >= size)
        for start, end, extent, size in zip(starts, last, extents, shape, strict=True)
    )
    return IndexMap(tuple(extents), axes, outside)


def broadcast(shape: Sequence[int], places: Sequence[int], result: Sequence[int]) -> IndexMap:
    """Return the view of shape `result` whose axis `places[i]` is axis i of the operand; extents of 1 are repeated."""
    axes = tuple(
        Affine() if size == 1 and result[place] != 1 else Affine(0, (Term(place),))
        for size, place in zip(shape, places, strict=True)
    )
    return IndexMap(tuple(result), axes)


def reshape(shape: Sequence[int], result: Sequence[int]) -> IndexMap:
    """Return the view with the same elements in row-major order.

    Axes are grouped so that each group of the operand holds as many elements as one of the result: within a group an
    operand's axis is a quotient and a remainder of the group's linear index, which is a sum of the result's axes.
    """
    found = _reshape(tuple(shape), tuple(result))
    if isinstance(found, str):
        raise ValueError(found)
    return found


@lru_cache(_MOST_KNOWN)
def _reshape(shape: tuple[int, ...], result: tuple[int, ...]) -> IndexMap | str:
    """Return the view of `reshape`, or why there is none."""
    if math.prod(shape) != math.prod(result):
        return f"{shape} has not as many elements as {result}"
    if 0 in shape:
        return IndexMap(result, tuple(Affine() for _ in shape))
    axes: list[Affine] = []
    mine, theirs = 0, 0
    while mine < len(shape) or theirs < len(result):
        mine_end, theirs_end = _group(shape, result, mine, theirs)
        made = _group_axes(shape[mine:mine_end], result[theirs:theirs_end], theirs)
        if made is None:
            return f"the extents {shape} and {result} do not nest"
        axes += made
        mine, theirs = mine_end, theirs_end
    return IndexMap(result, tuple(axes))


def _group(shape: Sequence[int], result: Sequence[int], mine: int, theirs: int) -> tuple[int, int]:
    """Return where the smallest groups of axes with the same number of elements end."""
    mine_end, theirs_end = min(mine + 1, len(shape)), min(theirs + 1, len(result))
    while True:
        a, b = math.prod(shape[mine:mine_end]), math.prod(result[theirs:theirs_end])
        if a == b:
            return mine_end, theirs_end
        if a < b:
            mine_end += 1
        else:
            theirs_end += 1


def _group_axes(shape: Sequence[int], result: Sequence[int], first: int) -> list[Affine] | None:
    """Return the operand's axes of one group, of the result's axes from `first` on; None: they do not nest."""
    total, strides = 1, [0] * len(result)
    for place in reversed(range(len(result))):
        strides[place] = total
        total *= result[place]
    found: list[Affine] = []
    inner = math.prod(shape)
    for size in shape:
        inner //= size
        digit = _digit(inner, size, result, strides, first)
        if digit is None:
            return None
        found.append(digit)
    return found


def _digit(inner: int, size: int, result: Sequence[int], strides: Sequence[int], first: int) -> Affine | None:
    """Return `linear // inner % size` of the linear index `sum(strides * axis)`; None: it is no quasi-affine function.

    An axis whose stride is a multiple of `inner * size` does not count, one whose span stays below `inner` neither.
    Where neither the strides nor the spans divide, the digit mixes several axes: extents that do not nest, which
    `reshape_by_rows` avoids by going over the flat form.
    """
    if size == 1:
        return Affine()
    terms: list[Term] = []
    for place, (extent, stride) in enumerate(zip(result, strides, strict=True)):
        span = extent * stride
        if extent == 1 or stride % (inner * size) == 0 or inner % span == 0:
            continue
        if stride % inner == 0:
            modulus = inner * size // stride if span > inner * size else 0
            terms.append(Term(first + place, stride // inner, 1, modulus))
        elif inner % stride == 0:
            modulus = size if span > inner * size else 0
            terms.append(Term(first + place, 1, inner // stride, modulus))
        else:
            return None
    return Affine(0, tuple(terms))


def nests(shape: Sequence[int], result: Sequence[int]) -> bool:
    """Return whether `reshape(shape, result)` is one index map: each extent splits or joins whole ones."""
    given, wanted = tuple(shape), tuple(result)
    return not isinstance(_reshape(given, wanted), str) or math.prod(given) != math.prod(wanted)


def is_reshape(index_map: IndexMap, shape: Sequence[int]) -> bool:
    """Return whether a view of an operand of `shape` has its elements in the same order: no copy is needed."""
    if index_map.padded or math.prod(shape) != math.prod(index_map.shape):
        return False
    if 0 in shape:
        return True
    # Along an axis of extent 1 there is index 0 alone: such terms do not count, and `reshape` makes none.
    axes = tuple(
        Affine(affine.constant, tuple(term for term in affine.terms if index_map.shape[term.axis] != 1))
        for affine in index_map.axes
    )
    return nests(shape, index_map.shape) and reshape(shape, index_map.shape).axes == axes


def orienting(index_map: IndexMap, shape: Sequence[int]) -> tuple[int, ...] | None:
    """Return the permutation of an operand of `shape` after which a view of it is a reshape; None: there is none.

    Heads that are transposed and joined, (b, s, h * d) of (b, h, s, d), are joined heads of (b, s, h, d).
    """
    if index_map.padded or math.prod(shape) != math.prod(index_map.shape) or any(a.constant for a in index_map.axes):
        return None

    def place(axis: int) -> tuple[int, int]:
        terms = index_map.axes[axis].terms
        return min((term.axis, -term.divisor) for term in terms) if terms else (-1, axis)

    order = tuple(sorted(range(len(shape)), key=place))
    turned = IndexMap(index_map.shape, tuple(index_map.axes[axis] for axis in order))
    return order if is_reshape(turned, [shape[axis] for axis in order]) else None


def compose(outer: IndexMap, inner: IndexMap) -> IndexMap | None:
    """Return the view `outer` of the view `inner` as one view of inner's operand; None where it is none.

    A quotient or remainder of a sum is a sum of those only where the sum is a single axis, or nothing carries over.
    """
    axes: list[Affine] = []
    for affine in inner.axes:
        total = affine.constant
        merged: dict[tuple[int, int, int], int] = {}
        for term in affine.terms:
            replaced = _through(term, outer.axes[term.axis])
            if replaced is None:
                return None
            total += replaced.constant
            for each in replaced.terms:
                key = (each.axis, each.divisor, each.modulus)
                merged[key] = merged.get(key, 0) + each.scale
        terms = [Term(axis, scale, divisor, modulus) for (axis, divisor, modulus), scale in merged.items() if scale]
        axes.append(Affine(total, tuple(terms)))
    # What is outside `inner`'s result is 0, whatever lies at the operand's index: only views inside of it compose.
    if outer.padded:
        return None
    return IndexMap(outer.shape, tuple(axes), inner.padded)


def _through(term: Term, affine: Affine) -> Affine | None:
    """Return `term` with `affine` in place of its axis."""
    if term.divisor == 1 and term.modulus == 0:
        scaled = tuple(Term(t.axis, t.scale * term.scale, t.divisor, t.modulus) for t in affine.terms)
        return Affine(affine.constant * term.scale, scaled)
    if not affine.terms:
        part = affine.constant // term.divisor
        return Affine(term.scale * (part % term.modulus if term.modulus else part))
    axis = affine.axis
    return None if axis is None else Affine(0, (Term(axis, term.scale, term.divisor, term.modulus),))
