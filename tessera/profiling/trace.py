"""Chrome trace export: the format that Perfetto, chrome://tracing and Speedscope open.

One process a launch, named after kernel and device; one thread a lane of each multiprocessor or core, as tiles that run
beside each other on one of them must not lie in one track.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tessera.core.planning.device_trace import TraceEvent
from tessera.core.work import Numbers
from tessera.performance.launch_geometry import coordinates
from tessera.performance.slot_packing import packed_lanes

if TYPE_CHECKING:
    from tessera.profiling.results import Profile

_MICROSECOND: Final = 1e3
_LANES: Final = 64
"""Tracks set aside for each unit."""


def write_trace(launches: "Sequence[Profile]", path: str | Path) -> Path:
    """Write the tiles of launches, one process each, as trace events; return the path."""
    target = Path(path)
    events = [event for number, launch in enumerate(launches) for event in trace_events(launch, number)]
    text = json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}, separators=(",", ":"))
    target.write_text(text, encoding="utf-8")
    return target


def trace_events(profile: "Profile", process: int = 0) -> Iterator[TraceEvent]:
    """Yield the events of one launch: names of its tracks, tiles as complete events, phases inside them.

    Phases are sums over a tile's iterations, so they are laid out one after the other from the tile's beginning.
    """
    tiles = profile.tiles
    lanes = packed_lanes(tiles.unit, tiles.start, tiles.end)
    name = f"{profile.kernel} on {profile.machine.name}"
    yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}
    threads = sorted({(int(unit), int(lane)) for unit, lane in zip(tiles.unit, lanes, strict=True)})
    for unit, lane in threads:
        label = f"{profile.machine.unit} {unit}" + (f", slot {lane}" if lane else "")
        thread = _thread(unit, lane)
        yield {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": label}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": process, "tid": thread, "args": {"sort_index": thread}}
    sizes = profile.grid_sizes
    for index in range(len(tiles)):
        yield from _tile_events(profile, process, index, int(lanes[index]), coordinates(int(tiles.group[index]), sizes))


def _tile_events(
    profile: "Profile", process: int, index: int, lane: int, place: tuple[int, ...]
) -> Iterator[TraceEvent]:
    tiles = profile.tiles
    group, thread = int(tiles.group[index]), _thread(int(tiles.unit[index]), lane)
    start, duration = float(tiles.start[index]), float(tiles.duration[index])
    yield {
        "ph": "X", "name": f"tile {group}", "cat": "tile", "pid": process, "tid": thread,
        "ts": start / _MICROSECOND, "dur": duration / _MICROSECOND,
        "args": {
            "tile": group, "place": list(place), "unit": int(tiles.unit[index]),
            "bytes read": float(tiles.read[index]), "bytes written": float(tiles.written[index]),
        },
    }  # fmt: skip
    for name, values in tiles.phases.items():
        length = min(float(_at(values, index)), duration)
        yield {
            "ph": "X", "name": name, "cat": "phase", "pid": process, "tid": thread,
            "ts": start / _MICROSECOND, "dur": length / _MICROSECOND, "args": {"tile": group},
        }  # fmt: skip
        start, duration = start + length, duration - length


def _at(values: Numbers, index: int) -> float:
    return float(values[index])


def _thread(unit: int, lane: int) -> int:
    return (unit + 1) * _LANES + min(lane, _LANES - 1)
