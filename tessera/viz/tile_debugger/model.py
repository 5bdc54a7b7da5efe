"""The tiles view's model: a trace as plain data, with values within a budget, statistics and slices in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tessera.viz.tile_debugger.elements import Flags, Numbers, Runs, runs_of, slice_text
from tessera.viz.tile_debugger.trace import Focus, Step, Touch, Trace, Variable

BINS: Final = 16
MOST_VALUES: Final = 1024
"""Values of one variable that are shown without asking; of larger ones a regular sample."""
MOST_ELEMENTS: Final = 1 << 16
"""Elements of an array whose contents are part of the page."""
_ALL_CONTENTS: Final = 600_000
_ALL_VALUES: Final = 400_000
"""Bytes of contents and of values in all, as they are before they are written as text."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Facts about the values that exist: how many, finite least and greatest, mean, how many are NaN or infinite.

    bins: a histogram of the finite ones, from least to greatest; absent: elements of a tile that do not exist
    """

    count: int
    least: float | None
    greatest: float | None
    mean: float | None
    nan: int
    inf: int
    absent: int
    bins: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class VariableModel:
    """A variable as a statement left it.

    values: None where they are left to the live view; stride: of the sample along each axis, 1 for all
    exists: which of `values` exist, where not all do
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    by_lane: bool
    stats: Statistics
    values: Numbers | None = None
    stride: tuple[int, ...] = ()
    exists: Numbers | None = None


@dataclass(frozen=True, slots=True, eq=False)
class TouchModel:
    """One access: elements, and who touched each, as runs; `asked`: start and stop of a tile's window, edge or not."""

    array: int
    writes: bool
    text: str
    elements: Runs
    lanes: Runs | None
    asked: tuple[tuple[int, int], ...]
    outside: int
    absent: int
    values: Numbers | None


@dataclass(frozen=True, slots=True, eq=False)
class StepModel:
    """One statement of one tile; `active`: lanes that executed it as runs, None for all."""

    tile: int
    line: int
    kind: str
    trips: tuple[tuple[str, int | None, int], ...]
    touches: tuple[TouchModel, ...]
    variables: tuple[VariableModel, ...]
    active: Runs | None


@dataclass(frozen=True, slots=True, eq=False)
class ArrayModel:
    """An array; `before`: its elements before the launch, None where there are too many for a page."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    shared: bool
    mutable: bool
    before: Numbers | None


@dataclass(frozen=True, slots=True)
class TileModel:
    """A tile, and the slice of each array that it reads and writes, in words; `valued`: whether its values are here."""

    number: int
    name: str
    lanes: tuple[int, int]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    valued: bool


@dataclass(frozen=True, slots=True, eq=False)
class TilesModel:
    """Model of the tiles view; see `trace.Trace` for the words.

    findings: what is not as expected; focus: where the view begins
    """

    kernel: str
    kind: str
    total: int
    lanes: int
    grid: tuple[int, ...]
    first_line: int
    lines: tuple[str, ...]
    arrays: tuple[ArrayModel, ...]
    tiles: tuple[TileModel, ...]
    steps: tuple[StepModel, ...]
    left_out: tuple[str, ...]
    findings: tuple[str, ...] = ()
    focus: Focus | None = None


def model_of(trace: Trace) -> TilesModel:
    """Return the model of a trace."""
    first, last = trace.span
    shown = _with_contents(trace)
    arrays = tuple(
        ArrayModel(
            each.name,
            each.dtype,
            each.shape,
            each.shared,
            each.mutable,
            plain(each.before) if show and each.before is not None else None,
        )
        for each, show in zip(trace.arrays, shown, strict=True)
    )
    valued = _with_values(trace)
    tiles = tuple(
        TileModel(tile.number, tile.name, tile.lanes, *_slices(trace, number), number in valued)
        for number, tile in enumerate(trace.tiles)
    )
    steps = tuple(step_model(trace, step, shown, values=step.tile in valued) for step in trace.steps)
    said = trace.left_out
    if len(valued) < len(trace.tiles):
        hidden = len(trace.tiles) - len(valued)
        said = (*said, f"values of variables are here for {len(valued):,} tiles, and statistics alone for {hidden:,}")
    large = [
        a.name
        for a, show in zip(trace.arrays, shown, strict=True)
        if not show and not a.shared and a.before is not None
    ]
    if large:
        said = (*said, f"the contents of {', '.join(large)} are too large for this page; accesses are exact")
    lines = tuple(trace.source.line(number) for number in range(first, last + 1))
    return TilesModel(
        trace.kernel, trace.kind, trace.total, trace.lanes, trace.grid, first, lines, arrays, tiles, steps, said
    )


def step_model(trace: Trace, step: Step, shown: Sequence[bool], *, values: bool) -> StepModel:
    """Return the model of one step, with values or statistics alone."""
    touches = tuple(_touch(trace, touch, values=shown[touch.array]) for touch in step.touches)
    variables = tuple(variable_model(each, values=values) for each in step.variables)
    trips = tuple((trip.name, trip.index, trip.number) for trip in step.trips)
    active = None if step.active is None else runs_of(np.flatnonzero(step.active))
    return StepModel(step.tile, step.line, step.kind, trips, touches, variables, active)


def variable_model(variable: Variable, *, values: bool, most: int = MOST_VALUES) -> VariableModel:
    """Return the model of a variable; of more than `most` values a sample, about as many along every axis."""
    data = variable.values
    stats = statistics(data, variable.exists)
    shape = data.shape
    if not values:
        return VariableModel(variable.name, variable.dtype, shape, variable.by_lane, stats)
    stride = sample_stride(shape, most)
    picked = tuple(slice(None, None, step) for step in stride)
    exists = None if variable.exists is None else variable.exists[picked].astype(np.uint8)
    return VariableModel(
        variable.name, variable.dtype, shape, variable.by_lane, stats, plain(data[picked]), stride, exists
    )


def sample_stride(shape: Sequence[int], most: int) -> tuple[int, ...]:
    """Return a stride an axis, such that at most `most` elements are left; the longest axes are thinned first."""
    stride = [1] * len(shape)

    def left(axis: int) -> int:
        return -(-shape[axis] // stride[axis])

    while np.prod([left(axis) for axis in range(len(shape))], dtype=np.int64) > most:
        longest = max(range(len(shape)), key=left)
        stride[longest] += 1
    return tuple(stride)


def statistics(data: Numbers, exists: Flags | None = None) -> Statistics:
    """Return facts about the values that exist."""
    flat = np.asarray(data).reshape(-1)
    absent = 0
    if exists is not None:
        kept = exists.reshape(-1)
        absent = int((~kept).sum())
        flat = flat[kept]
    numbers = flat.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    nan = int(np.isnan(numbers).sum())
    inf = len(numbers) - len(finite) - nan
    if not len(finite):
        return Statistics(len(numbers), None, None, None, nan, inf, absent, ())
    least, greatest = float(finite.min()), float(finite.max())
    bins: tuple[int, ...] = (len(finite),)
    if greatest > least:
        # Scaled first: the width of the range may be more than a double holds.
        scaled = (finite / 2 - least / 2) / (greatest / 2 - least / 2)
        places = np.minimum((scaled * BINS).astype(np.int64), BINS - 1)
        bins = tuple(int(n) for n in np.bincount(places, minlength=BINS))
    with np.errstate(over="ignore"):
        mean = float(finite.mean())
    return Statistics(len(numbers), least, greatest, mean, nan, inf, absent, bins)


def plain(data: Numbers) -> Numbers:
    """Return numbers of a type that the page reads: floats of 16 and 8 bits become f32."""
    array = np.asarray(data)
    if array.dtype == np.bool_:
        return array.astype(np.uint8)
    if array.dtype.kind in "iu":
        return array if array.dtype.itemsize < 8 else array.astype(np.float64)
    return array.astype(np.float64 if array.dtype == np.float64 else np.float32)


def _with_contents(trace: Trace) -> tuple[bool, ...]:
    """Decide whose contents are part of the page: arrays in order, as long as there is budget."""
    budget = _ALL_CONTENTS
    found: list[bool] = []
    for array in trace.arrays:
        size = array.size * 4
        fits = array.size <= MOST_ELEMENTS and size <= budget and (array.shared or array.before is not None)
        budget -= size if fits else 0
        found.append(fits)
    return tuple(found)


def _with_values(trace: Trace) -> set[int]:
    """Choose the tiles whose values are part of the page: the first, the last, then the others in order."""
    order = list(range(len(trace.tiles)))
    order = [*order[:2], *order[-1:], *order[2:-1]] if len(order) > 3 else order
    budget = _ALL_VALUES
    found: set[int] = set()
    for tile in order:
        steps = (trace.steps[number] for number in trace.by_tile[tile])
        size = sum(min(MOST_VALUES, each.values.size) * 4 for step in steps for each in step.variables)
        if size > budget:
            break
        budget -= size
        found.add(tile)
    return found


def _touch(trace: Trace, touch: Touch, *, values: bool) -> TouchModel:
    shape = trace.arrays[touch.array].shape
    asked = tuple((start, start + extent) for start, extent in zip(touch.starts, touch.extents, strict=True))
    return TouchModel(
        touch.array, touch.writes, slice_text(shape, touch.elements), runs_of(touch.elements),
        None if touch.lanes is None else runs_of(touch.lanes), asked, touch.outside, touch.absent,
        plain(touch.values) if values and touch.values is not None else None,
    )  # fmt: skip


def _slices(trace: Trace, tile: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what a tile reads and writes of each array, in words; "" for nothing."""
    found: tuple[list[str], list[str]] = ([], [])
    for array, known in enumerate(trace.arrays):
        for writes in (False, True):
            touched = [
                touch.elements
                for number in trace.by_tile[tile]
                for touch in trace.steps[number].touches
                if touch.array == array and touch.writes == writes
            ]
            elements = np.unique(np.concatenate(touched)) if touched else np.zeros(0, np.int64)
            found[writes].append(slice_text(known.shape, elements) if len(elements) else "")
    return tuple(found[0]), tuple(found[1])
