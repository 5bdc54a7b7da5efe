"""Decisions of the compiler as badges: what attributes that begin with `tessera.` say of operations of Tile IR.

See `core.tile.schedule_attributes` for the attributes of operations, `core.schedule.tile_schedule` for the function's.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tessera.core.base.plurals import counted
from tessera.core.record import AttributeData, OpRecord, Verbatim
from tessera.core.resources import Buffers
from tessera.core.schedule.tile_schedule import PREFIX, SCHEDULE, TileSchedule
from tessera.viz.graph.model import Badge

MMA, PIPELINE, ROLE, BARRIER, LAYOUT, ORDER, PLACE, SCHEDULED = (
    "mma", "pipeline", "role", "barrier", "layout", "order", "place", "schedule",
)  # fmt: skip
LEGEND: Final[Mapping[str, str]] = {
    MMA: "the instruction that multiplies",
    PIPELINE: "circular buffer in shared memory; one segment a stage",
    ROLE: "the warps that do it",
    BARRIER: "barriers it waits on or signals",
    LAYOUT: "register layout of the tile; equal names are equal layouts",
    ORDER: "moved against the order of the program",
    PLACE: "where it lies, and how it is read or written",
    SCHEDULED: "chosen for the kernel as a whole",
}
"""What each kind of badge says."""
_PRODUCER, _CONSUMERS = "producer warp", "consumer warps"
_FULL_NAMES: Final = {
    "wgmma": ("WGMMA", "wgmma.mma_async: a warpgroup of 4 warps multiplies from shared memory, asynchronously"),
    "mma": ("MMA", "mma.sync: each warp multiplies from registers on the tensor cores"),
    "fma": ("FMA", "fused multiply-add in each lane: no tensor cores"),
}
_ENTRY_TITLES: Final = {
    "producer_warp": "warp specialization: producer warp",
    "persistent": "persistent grid",
    "pingpong": "ping-pong between warpgroups",
}
_SAID: Final[Mapping[str, tuple[str, str]]] = {
    "in_flight": (ORDER, "in flight"),
    "overlaps": (ORDER, "overlaps"),
    "pipelined": (ORDER, "issued"),
    "issued": (ORDER, "issued"),
    "skipped": (ORDER, "skipped"),
    "streamed": (ORDER, "streamed"),
    "deferred": (ORDER, "deferred"),
    "rounded": (PLACE, "rounded"),
    "padded_rows": (PLACE, "rows padded"),
    "begins": (PLACE, "begins"),
    "shared": (PLACE, "shared"),
    "refused": (PLACE, "refused"),
    "place": (PLACE, "place:"),
}
"""Attributes whose text is words already: the kind of badge, and what goes in front."""


@dataclass(slots=True)
class Decisions:
    """Badges for the records of one compilation; equal layouts get the same name in all of its steps.

    buffers: what the resources say of shared memory, which has the depths of pipelines
    """

    buffers: Sequence[Buffers] = ()
    names: dict[str, str] = field(default_factory=dict[str, str])

    def of_kernel(self, function: OpRecord) -> tuple[tuple[Badge, ...], TileSchedule]:
        """Return the badges of a function, and its schedule."""
        entries = function.attributes.get(SCHEDULE)
        if not isinstance(entries, tuple):
            return (), TileSchedule()
        schedule = TileSchedule.parse(dict(_pairs(entries)))
        return tuple(_entry(name, value) for name, value in schedule.entries().items()), schedule

    def of_operation(self, record: OpRecord, schedule: TileSchedule) -> tuple[Badge, ...]:
        """Return the badges of an operation."""
        found: list[Badge] = []
        for name, value in record.attributes.items():
            if name.startswith(PREFIX) and name != SCHEDULE:
                found += self._badges(name.removeprefix(PREFIX), value, schedule)
        if record.name == "tessera.dot" and schedule.producer_warp:
            found.append(Badge(ROLE, _CONSUMERS, "computed by the consumer warps, which wait for the producer warp"))
        return tuple(sorted(found, key=lambda badge: tuple(LEGEND).index(badge.kind)))

    def _badges(self, name: str, value: AttributeData, schedule: TileSchedule) -> list[Badge]:
        if name in _SAID:
            kind, lead = _SAID[name]
            return [Badge(kind, f"{lead} {_text(value)}")]
        of: Mapping[str, Callable[[], list[Badge]]] = {
            "instruction": lambda: [Badge(MMA, *_FULL_NAMES.get(_text(value), (_text(value), "")))],
            "pipeline": lambda: self._pipeline(_text(value), schedule),
            "copied": lambda: self._copied(_text(value)),
            "stored": lambda: self._stored(_text(value)),
            "layout": lambda: [self._layout(one, "") for one in _texts(value)],
            "carried": lambda: [self._layout(one, "carried ") for one in _texts(value)],
        }
        return of[name]() if name in of else []

    def _pipeline(self, number: str, schedule: TileSchedule) -> list[Badge]:
        ring = next((one for one in self.buffers if one.role == f"pipeline {number}"), None)
        depth = ring.count if ring is not None else schedule.stages
        told = f", {counted(depth, 'stage')}" if depth else ""
        detail = f"filled by TMA: {ring}" if ring is not None else "a circular buffer in shared memory, filled by TMA"
        found = [Badge(PIPELINE, f"pipeline {number}{told}", detail, depth)]
        if schedule.producer_warp:
            found.append(Badge(ROLE, _PRODUCER, "warp specialization: copied ahead by the producer warp"))
        barriers = (
            "each stage has a full barrier, which the bytes complete, and an empty one, which consumers arrive at"
        )
        return [*found, Badge(BARRIER, "mbarrier full / empty", barriers)]

    def _copied(self, said: str) -> list[Badge]:
        ring = next((one for one in self.buffers if one.role == f"copied {said}"), None)
        depth = ring.count if ring is not None else 0
        told = f"copied {said}" + (f", {counted(depth, 'stage')}" if depth else "")
        return [Badge(PIPELINE, told, str(ring) if ring is not None else "cp.async", depth), Badge(ROLE, _CONSUMERS)]

    def _stored(self, said: str) -> list[Badge]:
        ring = next((one for one in self.buffers if one.role == "stores"), None)
        gathered = (
            [Badge(PIPELINE, f"gathered in {counted(ring.count, 'buffer')}", str(ring), ring.count)] if ring else []
        )
        return [*gathered, Badge(ROLE, f"stored {said}")]

    def _layout(self, text: str, lead: str) -> Badge:
        name = self.names.setdefault(text, f"L{len(self.names) + 1}")
        return Badge(LAYOUT, f"{lead}layout {name}", text)


def _entry(name: str, value: int | bool) -> Badge:
    if isinstance(value, bool):
        return Badge(SCHEDULED, _ENTRY_TITLES.get(name, name), f"{name} = {str(value).lower()}")
    return Badge(SCHEDULED, f"{name} {value}", f"{name} = {value}")


def _pairs(entries: tuple[AttributeData, ...]) -> list[tuple[str, AttributeData]]:
    return [(str(entry[0]), entry[1]) for entry in entries if isinstance(entry, tuple)]


def _text(value: AttributeData) -> str:
    return value.text if isinstance(value, Verbatim) else str(value)


def _texts(value: AttributeData) -> list[str]:
    """Return the layouts of an attribute: one, or one a result ("" where it is no tile), each once."""
    if isinstance(value, str):
        return [value]
    listed = _text(value).strip("[]").split('", "')
    return list(dict.fromkeys(one for one in (each.strip('" ') for each in listed) if one))
