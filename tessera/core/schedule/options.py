"""Schedule options: how a kernel is compiled, not what it computes.  One table; `Program.options` carries their values.

A new option is one entry here, one reader in a target's lowering, and its name in that target's row
(`core/targets.py`).  The user sets one as a tuning parameter (`kernel.variant(stages=3)`), the tuner searches those
whose candidates are listed.
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tessera.core.program.program import Attribute, Program
from tessera.core.targets import TARGETS


@dataclass(frozen=True, slots=True)
class ScheduleOption:
    """One option.

    legal: its values; candidates: those worth trying where the user names none
    applies: kernels that have a use for it: with "lanes" (one lane an element, no `tile[...]`), "tiles", or "products"
    known_as: names by which CUDA, CUTLASS and Triton know it, for suggestions
    """

    name: str
    summary: str
    legal: tuple[int, ...] | tuple[bool, ...]
    candidates: tuple[int, ...] | tuple[bool, ...]
    applies: str
    known_as: tuple[str, ...] = ()


_POWERS: Final = tuple(1 << power for power in range(11))
SCHEDULE: Final[Mapping[str, ScheduleOption]] = {
    option.name: option
    for option in (
        ScheduleOption("threads_per_block", "threads of a block",
                       tuple(range(32, 1025, 32)), (128, 256, 512), "lanes", ("block_size", "blockDim", "num_threads")),
        ScheduleOption("elements_per_thread", "elements that a thread takes (thread coarsening)",
                       _POWERS[:6], (1, 2, 4, 8), "lanes", ("items_per_thread", "coarsening")),
        ScheduleOption("num_warps", "warps that share the work of a group",
                       _POWERS[:6], (4, 8), "tiles", ("warps",)),
        ScheduleOption("vector_width", "the most neighbouring elements of a tile that a lane takes",
                       _POWERS[:5], (4,), "tiles", ("vector", "vec_size")),
        ScheduleOption("warp_columns", "warps side by side along the columns of a product",
                       _POWERS[:6], (2,), "products"),
        ScheduleOption("stages", "iterations of K that are loaded ahead",
                       tuple(range(1, 9)), (2, 3, 4), "products", ("num_stages",)),
        ScheduleOption("cluster", "groups that share what they load",
                       (1, 2), (1, 2), "products", ("num_ctas", "cluster_size", "cluster_dims")),
        ScheduleOption("raster_group", "rows of groups that are done side by side",
                       tuple(range(1, 65)), (8, 16), "products", ("GROUP_M", "GROUP_SIZE_M", "group_m", "swizzle")),
        ScheduleOption("overlap", "the second MMA of an iteration runs beside the next iteration",
                       (True, False), (True,), "products"),
        ScheduleOption("pipeline_first_mma", "the first MMA is issued an iteration ahead",
                       (True, False), (True,), "products"),
        ScheduleOption("pingpong", "warpgroups take turns at their MMAs",
                       (True, False), (True,), "products"),
        ScheduleOption("pad_rows", "operands whose rows are not aligned are copied to padded rows",
                       (True, False), (True,), "products"),
        ScheduleOption("epilogue_per_warpgroup", "each warpgroup stores its own rows",
                       (True, False), (True,), "products"),
        ScheduleOption("defer_epilogue", "results are stored during the next group's main loop",
                       (True, False), (True,), "products"),
        ScheduleOption("epilogue_stages", "shared memory buffers of the epilogue",
                       tuple(range(1, 5)), (2,), "products"),
        ScheduleOption("promotion_interval",
                       "products of 8-bit floats along K that tensor cores sum by themselves, 0: all of them",
                       (0, 32, 64, 128, 256, 512), (128,), "products"),
        ScheduleOption("min_blocks_per_sm", "groups that a multiprocessor holds at least",
                       _POWERS[:6], (1, 2), "tiles", ("occupancy", "minBlocksPerMultiprocessor")),
        ScheduleOption("rows_per_group", "rows of a group, where rows are spread over groups",
                       _POWERS, (1, 2, 4, 8, 16, 32), "tiles"),
    )
}  # fmt: skip
"""Every option, by name."""


def illegal(name: str, value: Attribute, target: str | None = None) -> str:
    """Why `value` cannot be that of the schedule option `name` on a target (None: on any); "" when it can."""
    option = SCHEDULE[name]
    if target is not None and name not in TARGETS[target].schedule:
        return f"{name} means nothing for the target {target}"
    kinds = (bool, int) if isinstance(option.legal[0], bool) else (int,)  # 0 and 1 switch as well; True is no number
    if type(value) not in kinds or value not in option.legal:
        return f"{name}={value} is not one of {_shortened(option.legal)}"
    return ""


def targets_of(name: str) -> tuple[str, ...]:
    """Return the targets whose lowering reads the schedule option `name`."""
    return tuple(kind.name for kind in TARGETS.values() if name in kind.schedule)


def suggestion(name: str, others: Iterable[str] = ()) -> str:
    """Return the schedule option that CUDA, CUTLASS or Triton call `name`, else the closest spelling; "" for none.

    others: names besides the schedule options that may have been meant
    """
    meant = next((option.name for option in SCHEDULE.values() if name in option.known_as), "")
    return meant or next(iter(difflib.get_close_matches(name, [*SCHEDULE, *others], 1)), "")


def clash(options: Mapping[str, Attribute]) -> str:
    """Why legal values of several schedule options do not go together, whatever the kernel is; "" when they do."""
    warps, columns = options.get("num_warps"), options.get("warp_columns")
    if isinstance(warps, int) and isinstance(columns, int) and columns > warps:
        return f"warp_columns={columns} is more than num_warps={warps}"
    return ""


def applicable(program: Program, target: str) -> tuple[ScheduleOption, ...]:
    """The options of which several values are worth a try for a program."""
    operations = {op.opcode for op in program.body.walk()}
    kinds = set[str]()
    if program.domain.kind == "lanes" and program.group is None:
        kinds.add("lanes")
    if not operations.isdisjoint(("load", "store", "dot", "reduce", "softmax")):
        kinds.add("tiles")
    if "dot" in operations:
        kinds.add("products")
    read = TARGETS[target].schedule
    options = (option for option in SCHEDULE.values() if option.name in read and option.applies in kinds)
    return tuple(option for option in options if len(option.candidates) > 1)


def _shortened(values: tuple[int, ...] | tuple[bool, ...]) -> str:
    if len(values) <= 8:
        return ", ".join(map(str, values))
    return f"{values[0]}, {values[1]}, ..., {values[-1]}"
