"""The schedule of a tile kernel on a GPU, as far as it is about the kernel as a whole: roles, warps, order and depths.

What is said of single operations (the MMA instruction of a product, the layout of a tile, the pipeline of a load) are
attributes of these operations (`tile.schedule_attributes`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Final, Self

PREFIX: Final = "tessera."
SCHEDULE: Final = "tessera.schedule"
"""The function's attribute: a dictionary of what is not the default of a `TileSchedule`."""
LAYOUT, CARRIED, PIPELINE, COPIED = "layout", "carried", "pipeline", "copied"
"""Attributes of operations that the printer leaves out where they say what is seen elsewhere."""


@dataclass(frozen=True, slots=True)
class TileSchedule:
    """Hold what is chosen for the kernel as a whole.

    num_warps: warps that compute a group's tiles together, a power of two, 0 before they are chosen; the producer warp
               is not one of them
    min_blocks_per_sm: blocks that a multiprocessor should hold at least, which limits registers; 0: as it comes
    producer_warp: whether a warp of its own copies operands ahead (warp specialization)
    persistent: whether there are as many blocks as fit the machine, each of which does one group after the other
    raster_group: rows of groups that are done side by side, column after column
    load_balance: whether the work of a group grows (1) or shrinks (-1) along the last range, or neither (0); groups
                  that differ are done in pairs of a large and a small one
    cluster: blocks that share loads
    pingpong: whether the two warp groups of an overlapped loop take turns at issuing products
    promotion_interval: of a product of floats of 8 bits, the elements of K whose sums the tensor cores form, before
                        they are added in f32 to the others; 0: they form them all
    stages: buffers of pipelines that are filled in a loop; 0: as many as fit
    group_stages: buffers of pipelines that are filled once a group; 0: as many as fit
    epilogue_stages: column blocks of 128 bytes of what is stored that are gathered at a time
    """

    num_warps: int = 0
    min_blocks_per_sm: int = 0
    producer_warp: bool = False
    persistent: bool = False
    raster_group: int = 1
    load_balance: int = 0
    cluster: int = 1
    pingpong: bool = False
    promotion_interval: int = 0
    stages: int = 0
    group_stages: int = 0
    epilogue_stages: int = 1

    @classmethod
    def parse(cls, entries: Mapping[str, object]) -> Self:
        """Return the schedule with these entries, and the defaults of all others.

        Raises:
            ValueError: an entry is unknown, or its value is not legal.
        """
        for name, value in entries.items():
            if name not in LEGAL:
                known = ", ".join(LEGAL)
                message = f"`{name}` is no entry of a schedule: choose of {known}"
                raise ValueError(message)
            if value not in LEGAL[name] or isinstance(value, bool) != (LEGAL[name] is _SWITCH):
                message = f"`{name} = {_shown(value)}` is not legal: {_choices(LEGAL[name])}"
                raise ValueError(message)
        return cls(**entries)  # pyright: ignore[reportArgumentType] - each value was compared with its legal ones

    def entries(self) -> dict[str, int | bool]:
        """Return what is not the default, by name."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        defaults = {field.name: field.default for field in fields(self)}
        return {name: value for name, value in found.items() if value != defaults[name]}

    def marks(self) -> Iterator[tuple[str, str]]:
        """Yield what a person reads of it: a title and a text for each choice."""
        if self.num_warps:
            yield "num_warps", str(self.num_warps)
        if self.min_blocks_per_sm:
            yield "min_blocks_per_sm", str(self.min_blocks_per_sm)
        if self.producer_warp:
            yield "producer", "warp"
        if self.persistent:
            yield "grid", "persistent"
        if self.raster_group > 1:
            yield "raster_group", str(self.raster_group)
        if self.load_balance:
            yield "load_balance", "large and small groups in pairs"
        if self.cluster > 1:
            yield "cluster", str(self.cluster)
        if self.pingpong:
            yield "pingpong", "between the warpgroups"
        if self.stages:
            yield "stages", str(self.stages)


_SWITCH: Final = (False, True)
LEGAL: Final[Mapping[str, tuple[int, ...]]] = {
    "num_warps": (0, *(1 << power for power in range(6))),
    "min_blocks_per_sm": tuple(range(33)),
    "producer_warp": _SWITCH,
    "persistent": _SWITCH,
    "raster_group": tuple(range(1, 4097)),
    "load_balance": (-1, 0, 1),
    "cluster": (1, 2),
    "pingpong": _SWITCH,
    "promotion_interval": (0, 32, 64, 128, 256, 512),
    "stages": tuple(range(9)),
    "group_stages": (0, 1, 2),
    "epilogue_stages": tuple(range(1, 5)),
}
"""The values that each entry may have."""


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _choices(legal: tuple[int, ...]) -> str:
    if len(legal) > 8:
        return f"it is a number from {legal[0]} to {legal[-1]}"
    return f"it is one of {', '.join(map(_shown, legal))}"
