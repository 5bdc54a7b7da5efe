"""Run a cascade in NumPy: lift a block of elements, merge two states, lower a state.

Whatever emits a cascade is compared with this.  Merging is associative up to rounding, so the order of blocks, and
whether they are merged one after the other or as a tree, does not matter.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tessera.core.graph.expr import Expr
from tessera.core.schedule.cascade import Anchor, Cascade, Extremum, Moment, Region, moves
from tessera.lowering.schedule.cascades.evaluate import Array, evaluate


@dataclass(frozen=True, slots=True)
class CascadeState:
    """The state of the loop.  anchors: running ones are -inf while nothing was visible; used, they are 0 then."""

    moments: tuple[Array, ...]
    anchors: tuple[Array, ...]
    centres: tuple[Array, ...]
    extrema: tuple[Array, ...]


def lift(cascade: Cascade, atoms: Sequence[Array]) -> CascadeState:
    """Return the state of one block.

    atoms: arrays of one rank whose axis 0 is the reduced one; the others broadcast.  Those that do not vary have
    extent 1 along it.
    """
    extent = _extent(cascade.region, atoms)
    with np.errstate(all="ignore"):
        extrema = tuple(_extremum(each, atoms, extent) for each in cascade.extrema)
        anchors = tuple(_anchor(each, atoms, extent) for each in cascade.anchors)
        centres: list[Array] = []
        for centre in cascade.centres:
            if centre.anchor is not None:
                centres.append(finite(anchors[centre.anchor]))
                continue
            values = _over(_values(centre.atom, atoms), extent)
            visible = _visible(cascade, centre.indicator, None, atoms, extent)
            total = np.where(visible, values, 0).sum(axis=0)
            number = np.maximum(
                np.broadcast_to(visible, np.broadcast_shapes(visible.shape, values.shape)).sum(axis=0), 1
            )
            centres.append(np.asarray(total / number, centre.atom.dtype.numpy))
        moments = tuple(_moment(cascade, each, atoms, anchors, centres, extent) for each in cascade.moments)
    return CascadeState(moments, anchors, tuple(centres), extrema)


def finite(anchor: Array) -> Array:
    """Return the anchor as it is used: 0 while nothing was visible."""
    return np.where(np.isneginf(anchor), np.asarray(0, anchor.dtype), anchor)


def merge(cascade: Cascade, a: CascadeState, b: CascadeState, slack: float = 0.0) -> CascadeState:
    """Return the state of the elements of both; slack: how far running anchors may lag behind the maximum.

    Anchors that are an extremum do not lag.
    """
    exact = {each.anchor for each in cascade.extrema}
    with np.errstate(all="ignore"):
        anchors = tuple(
            np.maximum(one, two)
            if place in exact or not slack
            else np.where(np.isfinite(one) & (two - one <= slack), one, two)
            for place, (one, two) in enumerate(zip(a.anchors, b.anchors, strict=True))
        )
        extrema = tuple(
            (np.maximum if each.kind == "max" else np.minimum)(one, two)
            for each, one, two in zip(cascade.extrema, a.extrema, b.extrema, strict=True)
        )
        centres: list[Array] = []
        for place, centre in enumerate(cascade.centres):
            if centre.anchor is not None:
                centres.append(finite(anchors[centre.anchor]))
                continue
            assert centre.count is not None
            one, two = a.moments[centre.count], b.moments[centre.count]
            part = two / np.maximum(one + two, 1)
            centres.append(a.centres[place] + (b.centres[place] - a.centres[place]) * part)
        moments = tuple(
            _moved(cascade, a, anchors, centres, place) + _moved(cascade, b, anchors, centres, place)
            for place in range(len(cascade.moments))
        )
    return CascadeState(moments, anchors, tuple(centres), extrema)


def lower(cascade: Cascade, state: CascadeState, atoms: Sequence[Array]) -> tuple[Array | None, ...]:
    """Return the results; atoms: only those that do not vary are looked at, their axis 0 is dropped."""
    invariant = [
        np.asarray(each)[0] if place in cascade.region.invariant else np.zeros((), each.dtype)
        for place, each in enumerate(atoms)
    ]
    anchors = [finite(each) for each in state.anchors]
    arguments = [*state.moments, *anchors, *state.centres, *state.extrema, *invariant]
    return tuple(None if each is None else evaluate(each, arguments) for each in cascade.lower)


def evaluate_reductions(region: Region, atoms: Sequence[Array]) -> tuple[Array, ...]:
    """Return the results of a region as they are written: one reduction after the other."""
    extent = _extent(region, atoms)
    results: list[Array] = []
    with np.errstate(all="ignore"):
        for reduction in region.reductions:
            values = _values(reduction.body, [*atoms, *(each[None] for each in results)])
            if reduction.kind == "map":
                results.append(values[0])
                continue
            values = _over(values, extent)
            if reduction.kind == "sum":
                results.append(values.sum(axis=0))
            else:
                results.append(values.max(axis=0) if reduction.kind == "max" else values.min(axis=0))
    return tuple(results)


def _extent(region: Region, atoms: Sequence[Array]) -> int:
    varying = [len(each) for place, each in enumerate(atoms) if place not in region.invariant]
    return max(varying)


def _values(expr: Expr, atoms: Sequence[Array]) -> Array:
    """Return the values of an expression over atoms, numbers too with the rank of atoms."""
    values = evaluate(expr, atoms)
    return values.reshape((1,) * atoms[0].ndim) if values.ndim == 0 else values


def _over(values: Array, extent: int) -> Array:
    """Return values for every element of the axis."""
    return np.broadcast_to(values, (extent, *values.shape[1:]))


def _visible(
    cascade: Cascade, indicator: Expr | None, anchor: int | None, atoms: Sequence[Array], extent: int
) -> Array:
    """Return which elements count: where the condition holds and the exponent is not -inf."""
    visible = np.ones((extent,) + (1,) * (atoms[0].ndim - 1), np.bool_)
    if indicator is not None:
        visible = visible & _over(_values(indicator, atoms), extent)
    if anchor is not None:
        visible = visible & ~np.isneginf(_over(_values(cascade.anchors[anchor].exponent, atoms), extent))
    return visible


def _extremum(extremum: Extremum, atoms: Sequence[Array], extent: int) -> Array:
    values = _over(_values(extremum.body, atoms), extent)
    return values.max(axis=0) if extremum.kind == "max" else values.min(axis=0)


def _anchor(anchor: Anchor, atoms: Sequence[Array], extent: int) -> Array:
    values = _over(_values(anchor.exponent, atoms), extent)
    if anchor.constant is not None:
        return np.full(values.shape[1:], anchor.constant, values.dtype)
    if anchor.indicator is not None:
        visible = _over(_values(anchor.indicator, atoms), extent)
        values = np.where(visible, values, np.asarray(-np.inf, values.dtype))
    return values.max(axis=0)


def _moment(
    cascade: Cascade,
    moment: Moment,
    atoms: Sequence[Array],
    anchors: Sequence[Array],
    centres: Sequence[Array],
    extent: int,
) -> Array:
    values = _values(moment.payload, atoms)
    for centre, power in moment.centred:
        values = values * (_values(cascade.centres[centre].atom, atoms) - centres[centre]) ** power
    if moment.anchor is not None:
        exponent = _values(cascade.anchors[moment.anchor].exponent, atoms)
        values = values * np.exp(exponent - finite(anchors[moment.anchor]))
    visible = _visible(cascade, moment.indicator, moment.anchor, atoms, extent)
    values = np.where(visible, _over(values, extent), np.asarray(0, moment.dtype.numpy))
    return values.sum(axis=0, dtype=moment.dtype.numpy)


def _moved(
    cascade: Cascade, state: CascadeState, anchors: Sequence[Array], centres: Sequence[Array], place: int
) -> Array:
    """Return a moment relative to other anchors and centres."""
    moment = cascade.moments[place]
    total = np.zeros((), moment.dtype.numpy)
    for move in moves(cascade, place):
        part = state.moments[move.moment] * move.weight
        for centre, power in move.powers:
            part = part * (state.centres[centre] - centres[centre]) ** power
        total = total + part
    if moment.anchor is None:
        return np.asarray(total, moment.dtype.numpy)
    old, new = state.anchors[moment.anchor], anchors[moment.anchor]
    # An empty part may be as far from the new anchor as floats go: it stays nothing.
    return np.where(np.isneginf(old), np.asarray(0, moment.dtype.numpy), total * np.exp(finite(old) - finite(new)))
