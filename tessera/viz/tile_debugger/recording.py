"""Record a launch within bounds: one tile to learn what a tile costs, then as many tiles as fit, edges among them."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from typing import Final, cast

import numpy as np

from tessera.core.base.plurals import counted
from tessera.core.program.program import Program
from tessera.core.progress import working
from tessera.core.targets import ORACLE
from tessera.kernels.kernel import Kernel
from tessera.profiling.argument_clones import copied_together, downloaded
from tessera.runtime.arrays.host import AnyArray, as_array, is_array
from tessera.runtime.binding.grid import Grid
from tessera.runtime.launch.interpreter import Interpreter
from tessera.runtime.memory.device_arrays import device_view, is_on_device
from tessera.session.session import resolve_target
from tessera.viz.tile_debugger.recorder import Budget, Recorder, RecordingFull, Wanted, tile_loops
from tessera.viz.tile_debugger.trace import Tile, Trace, Trip

LANES_AT_ONCE: Final = 128
"""Lanes that are one tile where a kernel has no groups: a common block size, whole warps."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a recording: tiles, statements, and work in elements computed (about 40 million a second)."""

    tiles: int = 64
    steps: int = 6000
    work: int = 25_000_000


@dataclass(frozen=True, slots=True)
class Launch:
    """A call to record: the kernel's name and program, arguments as arrays of this process and numbers, the grid."""

    name: str
    program: Program
    values: tuple[object, ...]
    types: tuple[type, ...]
    grid: Grid | None

    @classmethod
    def of(
        cls, kernel: Kernel, arguments: tuple[object, ...], keywords: Mapping[str, object], grid: Grid | None
    ) -> "Launch":
        """Return the launch of a call; arrays of a GPU are copied here.  Raises the mistakes of the call."""
        names = [parameter.arg for parameter in kernel.source.function.args.args]
        given = kernel.ordered(arguments, keywords)
        values = _here(given, names)
        target = resolve_target(ORACLE)
        described = kernel.described(values, target)
        on_oracle = kernel.on_target(target)
        return cls(kernel.source.name, on_oracle.program(values), values, described.types, grid)


def record(launch: Launch, limits: Limits | None = None, tile: int | None = None) -> Trace:
    """Record a launch on copies of what it writes; `tile`: only the tile of this number.

    Raises what the launch raises; a number that no tile has is an IndexError.
    """
    limits = limits or Limits()
    loops = tile_loops(launch.program)
    first = _run(launch, Wanted(lambda place: place == 0, [lambda n: n == 0 for _ in loops], 0), limits, 1)
    sizes = sizes_of(first)
    total = math.prod(sizes)
    if tile is not None:
        if not 0 <= tile < total:
            raise IndexError(f"{launch.name} has {counted(total, 'tile')}, and no tile {tile}")
        chosen = [{int(place)} for place in np.unravel_index(tile, sizes)]
    else:
        chosen = choose(sizes, _affordable(first, limits))
    if total == 1 or (math.prod(map(len, chosen)) == 1 and tile in (None, 0)):
        return _trace(launch, first, sizes, limits)
    windows, trips = chosen[: len(sizes) - len(loops)], chosen[len(sizes) - len(loops) :]
    extents = sizes[: len(windows)]
    places = {int(np.ravel_multi_index(place, extents)) for place in product(*windows)}
    wanted = Wanted(places.__contains__, [positions.__contains__ for positions in trips], max(places))
    count = math.prod(map(len, chosen))
    return _trace(launch, _run(launch, wanted, limits, count), sizes, limits)


def sizes_of(recorder: Recorder) -> tuple[int, ...]:
    """Return how many tiles there are along each axis: of the grid, of the pieces of a group, of the loops."""
    geometry = recorder.geometry
    return (*geometry.grid, recorder.pieces, *recorder.counts)


def _affordable(first: Recorder, limits: Limits) -> int:
    by_work = limits.work // max(1, first.work)
    by_steps = limits.steps // max(1, len(first.steps))
    return max(1, min(limits.tiles, by_work, by_steps))


def tile_number(sizes: Sequence[int], window: int, trips: Sequence[int]) -> int:
    """Return the number of a tile in its launch, by the number of its window and the trips of the loops over tiles."""
    indices = (*np.unravel_index(window, sizes[: len(sizes) - len(trips)]), *trips)
    return int(np.ravel_multi_index([min(int(n), size - 1) for n, size in zip(indices, sizes, strict=True)], sizes))


def choose(sizes: Sequence[int], most: int) -> list[set[int]]:
    """Choose places along each axis, at most `most` tiles: the first ones and the last, where edges are.

    Axes get a place more in turns, the last one (which varies fastest) first.
    """
    counts = [1] * len(sizes)
    grows = True
    while grows:
        grows = False
        for axis in reversed(range(len(sizes))):
            more = counts[axis] + 1
            if more <= sizes[axis] and math.prod(counts) // counts[axis] * more <= most:
                counts[axis] = more
                grows = True
    return [
        set(range(count)) if count < 2 else {*range(count - 1), size - 1}
        for count, size in zip(counts, sizes, strict=True)
    ]


def _run(launch: Launch, wanted: Wanted, limits: Limits, count: int) -> Recorder:
    """Record the tiles that are wanted, which are `count`."""
    mutable = {parameter.name: parameter.mutable for parameter in launch.program.parameters}
    budget = Budget(2 * limits.work, 2 * limits.steps)
    with working(f"recording {launch.name}", count) as task:
        recorder = Recorder(launch.program, wanted, budget, tile_loops(launch.program), mutable, task.step)
        interpreter = Interpreter(launch.program, launch.types, observer=recorder, lanes_at_once=LANES_AT_ONCE)
        with suppress(RecordingFull):  # it has what was wanted, or says that it is full
            interpreter(*copied_arguments(launch), grid=launch.grid)
    return recorder


def copied_arguments(launch: Launch) -> list[object]:
    """Return the arguments, with a copy, strides and all, of each array that is written, and of what overlaps with it.

    Arrays that share memory share it in their copies: a call refuses what overlaps without being the same array.
    """
    arrays = {id(value): cast("AnyArray", value) for value in launch.values if is_array(value)}
    written = {id(v) for v, p in zip(launch.values, launch.program.parameters, strict=False) if p.mutable}
    copies: dict[int, AnyArray] = {}
    for key in arrays.keys() & written:
        if key not in copies:
            group = [other for other, it in arrays.items() if other == key or np.may_share_memory(arrays[key], it)]
            copies.update(zip(group, copied_together([arrays[other] for other in group]), strict=True))
    return [copies.get(id(value), value) for value in launch.values]


def _here(values: Sequence[object], names: Sequence[str]) -> tuple[object, ...]:
    """Return arguments in this process's memory: arrays of a GPU in copies that overlap as these do."""
    views = {
        id(value): device_view(value, name)
        for value, name in zip(values, names, strict=True)
        if is_array(value) and is_on_device(value)
    }
    copies = dict(zip(views, downloaded(tuple(views.values())), strict=True)) if views else {}
    return tuple(
        copies[id(value)] if id(value) in copies else as_array(value, name) if is_array(value) else value
        for value, name in zip(values, names, strict=True)
    )


def _trace(launch: Launch, recorder: Recorder, sizes: Sequence[int], limits: Limits) -> Trace:
    program, geometry = launch.program, recorder.geometry
    kind = "trip" if recorder.loops else "block of lanes" if recorder.pieces > 1 else "group"
    tiles: list[Tile] = []
    for (place, trips), (window, made) in recorder.tiles.items():
        inside = len(trips) == len(recorder.loops)
        number = tile_number(sizes, place, trips) if inside else -1
        group = tuple(int(n) for n in np.unravel_index(window.number, geometry.grid))
        tiles.append(
            Tile(number, group, made, (window.first, window.past), _name(kind, group, made, window.first, window.past))
        )
    trace = Trace(
        launch.name, program.source, _lines(launch), tuple(recorder.arrays), tuple(tiles),
        tuple(recorder.steps), kind, math.prod(sizes) if tiles else 0,
        geometry.lanes if recorder.pieces == 1 else LANES_AT_ONCE, geometry.grid,
    )  # fmt: skip
    return replace(trace, left_out=_left_out(trace, recorder, limits))


def _name(kind: str, group: Sequence[int], trips: Sequence[Trip], first: int, past: int) -> str:
    if kind == "trip":
        return ", ".join(f"{trip.name}={trip.index}" for trip in trips) or "around the loops over tiles"
    if kind == "group":
        used = max((axis + 1 for axis, n in enumerate(group) if n), default=1)
        return f"group {', '.join(map(str, group[:used]))}"
    return f"lanes {first} to {past - 1}"


def _lines(launch: Launch) -> tuple[int, int]:
    """Return the first and last line of the kernel, in the file's own numbering."""
    program = launch.program
    lines = [op.span.line for op in program.body.walk() if op.span.line]
    first = min([program.span.line or program.source.first_line, *lines])
    return first, max([program.span.end_line, *(op.span.end_line for op in program.body.walk())])


def _left_out(trace: Trace, recorder: Recorder, limits: Limits) -> tuple[str, ...]:
    said: list[str] = []
    if not trace.tiles:
        said.append("no statement ran: the launch has no lanes, its loops have no trips, or it computes nothing")
    recorded = sum(tile.number >= 0 for tile in trace.tiles)
    if recorded < trace.total:
        said.append(
            f"{recorded:,} of {trace.total:,} tiles were recorded, the first ones and the last along each axis; "
            "the contents of arrays lack what the other tiles write"
        )
    if recorder.full:
        by_steps = len(recorder.steps) >= 2 * limits.steps
        why = f"{len(recorder.steps):,} statements" if by_steps else f"{recorder.work:,} elements computed"
        said.append(f"the recording ended early, after {why}")
    said += _without_a_value(trace)
    large = [array.name for array in trace.arrays if array.before is None and not array.shared]
    if large:
        said.append(f"the elements of {', '.join(large)} were not kept, for their size; accesses are exact")
    return tuple(said)


def _without_a_value(trace: Trace) -> list[str]:
    """Return a sentence per line and array whose stores leave out elements of the tiles that were recorded."""
    counts = Counter[tuple[int, int]]()
    for step in trace.steps:
        for touch in step.touches:
            counts[step.line, touch.array] += touch.absent
    why = "where what is stored has no value: it comes from outside of an array"
    return [
        f"line {line} leaves out {counted(count, 'element')} of {trace.arrays[array].name}, {why}"
        for (line, array), count in sorted(counts.items())
        if count
    ]
