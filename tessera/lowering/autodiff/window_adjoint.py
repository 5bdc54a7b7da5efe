"""The transpose of a product of windows: a product of the cotangent's windows, the view and the contraction as one.

before: u = view(x): u[n, p, q, r, s, c] = x[n, p + r - 1, q + s - 1, c]; y[n, p, q, f] = sum u * w[f, r, s, c]
after:  v = view(y'): v[n, h, w, r, s, f] = y'[n, h - r + 1, w - s + 1, f]; x'[n, h, w, c] = sum v * w[f, r, s, c]

One after the other, the transposes of both would write the cotangent of every window, and add what overlaps.  Where
windows are some elements apart, the cotangent gets zeros in between.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tessera.core.graph.graph import Node, Value
from tessera.core.graph.index_maps import Affine, IndexMap, Term
from tessera.core.graph.infer import labels_of, numbers
from tessera.lowering.autodiff.derived_builder import DerivedBuilder
from tessera.lowering.autodiff.transpose import factor_dtype
from tessera.lowering.autodiff.view_adjoint import spread


@dataclass(frozen=True, slots=True)
class _Window:
    """An axis of the viewed operand that is read at `constant + step * place + dilation * tap`.

    place: the label of the windows, an axis of the product; tap: the one of the filter, which is summed
    """

    place: int
    step: int
    tap: int
    dilation: int
    constant: int


@dataclass(frozen=True, slots=True)
class _Plain:
    """An axis that is one label of the contraction, or several that nest: groups of channels."""

    labels: tuple[int, ...]


def window_adjoint(builder: DerivedBuilder, view: Node, contract: Node, place: int, cotangent: Value) -> Value | None:
    """Return the cotangent of what `view` views, of that of `contract`, of which the view is operand `place`.

    None: it is no view of windows whose places stay and whose taps are summed, with the other operand
    """
    labels, result = labels_of(contract.attributes["labels"]), numbers(contract.attributes["result"])
    mine, theirs = labels[place], labels[1 - place]
    axes = _axes(view.index_map, mine, result, theirs)
    shape = view.operands[0].type.shape
    if axes is None or not any(isinstance(axis, _Window) for axis in axes):
        return None
    extents = dict(zip(mine, view.result.type.shape, strict=True))
    if any(prod(extents[each] for each in axis.labels) != size
           for axis, size in zip(axes, shape, strict=True) if isinstance(axis, _Plain)):  # fmt: skip
        return None
    other, exact = contract.operands[1 - place], bool(contract.attributes["exact"])
    kind = factor_dtype(other.type.dtype, cotangent.type.dtype, exact=exact)
    seen, seen_labels = _windows(builder, builder.cast(cotangent, kind), axes, shape, (result, extents))
    wanted = [label for axis in axes for label in (axis.labels if isinstance(axis, _Plain) else (axis.place,))]
    made = builder.contract(seen, builder.cast(other, kind), (seen_labels, theirs), wanted, exact=exact)
    return builder.reshape(made, shape)


def _axes(
    index_map: IndexMap, mine: Sequence[int], result: Sequence[int], theirs: Sequence[int]
) -> list[_Window | _Plain] | None:
    """Return what the axes of the viewed operand are; None where one is anything else, or a label is read twice."""
    found: list[_Window | _Plain] = []
    for affine in index_map.axes:
        if not affine.terms or any(term.divisor != 1 or term.modulus or term.scale < 1 for term in affine.terms):
            return None
        labels = [mine[term.axis] for term in affine.terms]
        if len(labels) == 2 and labels[0] in result and labels[0] not in theirs and labels[1] not in result:
            (step, dilation) = (term.scale for term in affine.terms)
            found.append(_Window(labels[0], step, labels[1], dilation, affine.constant))
        elif affine.constant == 0 and _nests(affine, index_map.shape):
            found.append(_Plain(tuple(labels)))
        else:
            return None
    used = [label for axis in found for label in (axis.labels if isinstance(axis, _Plain) else (axis.place, axis.tap))]
    known = set(result) | set(theirs)
    return found if sorted(used) == sorted(mine) and all(label in known for label in used) else None


def _nests(affine: Affine, shape: Sequence[int]) -> bool:
    """Return whether terms are the digits of one axis, the last one least."""
    weight = 1
    for term in reversed(affine.terms):
        if term.scale != weight:
            return False
        weight *= shape[term.axis]
    return True


def _windows(
    builder: DerivedBuilder, cotangent: Value, axes: Sequence[_Window | _Plain], shape: Sequence[int],
    known: tuple[Sequence[int], dict[int, int]],
) -> tuple[Value, tuple[int, ...]]:  # fmt: skip
    """Return the windows of the cotangent, and their labels: those of the product, of which places are pixels now.

    known: the labels of the cotangent's axes, and the extents of taps by their labels
    """
    result, extents = known
    windows = [(axis, size) for axis, size in zip(axes, shape, strict=True) if isinstance(axis, _Window)]
    for window, _ in windows:
        cotangent = spread(builder, cotangent, result.index(window.place), window.step)
    # Taps come before pixels, which lie side by side in memory.
    first = min(result.index(window.place) for window, _ in windows)
    taps = [window.tap for window, _ in windows]
    labels = (*result[:first], *taps, *result[first:])
    view_shape = [extents[label] if label in taps else cotangent.type.shape[result.index(label)] for label in labels]
    index = [Affine(0, (Term(labels.index(label)),)) for label in result]
    for window, size in windows:
        place = labels.index(window.place)
        terms = (Term(place), Term(labels.index(window.tap), -window.dilation))
        index[result.index(window.place)] = Affine(-window.constant, terms)
        view_shape[place] = size
    return builder.view(cotangent, IndexMap(tuple(view_shape), tuple(index), padded=True)), labels
