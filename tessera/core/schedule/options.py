"""Schedule options: how a kernel is compiled, not what it computes.  One table; `Program.options` carries their values.

A new option is one entry here and one reader in a target's lowering.  The user sets an option as a tuning parameter
(`kernel.variant(stages=3)`), the tuner searches those whose candidates are listed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tessera.core.program.program import Attribute, Program


@dataclass(frozen=True, slots=True)
class ScheduleOption:
    """One option.

    targets: those whose lowering reads it
    legal: its values; candidates: those worth trying where the user names none
    applies: kernels that have a use for it: with "lanes" (one lane an element, no `tile[...]`), "tiles", or "products"
    """

    name: str
    summary: str
    targets: tuple[str, ...]
    legal: tuple[int, ...] | tuple[bool, ...]
    candidates: tuple[int, ...] | tuple[bool, ...]
    applies: str


_GPUS: Final = ("cuda", "cuda_tile")
_POWERS: Final = tuple(1 << power for power in range(11))
SCHEDULE: Final[Mapping[str, ScheduleOption]] = {
    option.name: option
    for option in (
        ScheduleOption("threads_per_block", "threads of a block",
                       ("cuda",), tuple(range(32, 1025, 32)), (128, 256, 512), "lanes"),
        ScheduleOption("elements_per_thread", "elements that a thread takes (thread coarsening)",
                       ("cuda",), _POWERS[:6], (1, 2, 4, 8), "lanes"),
        ScheduleOption("num_warps", "warps that share the work of a group",
                       _GPUS, _POWERS[:6], (4, 8), "tiles"),
        ScheduleOption("vector_width", "the most neighbouring elements of a tile that a lane takes",
                       ("cuda",), _POWERS[:5], (4,), "tiles"),
        ScheduleOption("warp_columns", "warps side by side along the columns of a product",
                       ("cuda",), _POWERS[:6], (2,), "products"),
        ScheduleOption("stages", "iterations of K that are loaded ahead",
                       ("cuda",), tuple(range(1, 9)), (2, 3, 4), "products"),
        ScheduleOption("cluster", "groups that share what they load",
                       _GPUS, (1, 2), (1, 2), "products"),
        ScheduleOption("raster_group", "rows of groups that are done side by side",
                       ("cuda",), tuple(range(1, 65)), (8, 16), "products"),
        ScheduleOption("overlap", "the second MMA of an iteration runs beside the next iteration",
                       ("cuda",), (True, False), (True,), "products"),
        ScheduleOption("pipeline_first_mma", "the first MMA is issued an iteration ahead",
                       ("cuda",), (True, False), (True,), "products"),
        ScheduleOption("pingpong", "warpgroups take turns at their MMAs",
                       ("cuda",), (True, False), (True,), "products"),
        ScheduleOption("pad_rows", "operands whose rows are not aligned are copied to padded rows",
                       ("cuda",), (True, False), (True,), "products"),
        ScheduleOption("epilogue_per_warpgroup", "each warpgroup stores its own rows",
                       ("cuda",), (True, False), (True,), "products"),
        ScheduleOption("defer_epilogue", "results are stored during the next group's main loop",
                       ("cuda",), (True, False), (True,), "products"),
        ScheduleOption("epilogue_stages", "shared memory buffers of the epilogue",
                       ("cuda",), tuple(range(1, 5)), (2,), "products"),
        ScheduleOption("promotion_interval",
                       "products of 8-bit floats along K that tensor cores sum by themselves, 0: all of them",
                       ("cuda",), (0, 32, 64, 128, 256, 512), (128,), "products"),
        ScheduleOption("min_blocks_per_sm", "groups that a multiprocessor holds at least",
                       ("cuda_tile",), _POWERS[:6], (1, 2), "tiles"),
        ScheduleOption("rows_per_group", "rows of a group, where rows are spread over groups",
                       ("cpu", *_GPUS), _POWERS, (1, 2, 4, 8, 16, 32), "tiles"),
    )
}  # fmt: skip
"""Every option, by name."""


def illegal(name: str, value: Attribute, target: str | None = None) -> str:
    """Why `value` cannot be that of the schedule option `name` on a target (None: on any); "" when it can."""
    option = SCHEDULE[name]
    if target is not None and target not in option.targets:
        return f"{name} means nothing for the target {target}"
    kinds = (bool, int) if isinstance(option.legal[0], bool) else (int,)  # 0 and 1 switch as well; True is no number
    if type(value) not in kinds or value not in option.legal:
        return f"{name}={value} is not one of {_shortened(option.legal)}"
    return ""


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
    options = (option for option in SCHEDULE.values() if target in option.targets and option.applies in kinds)
    return tuple(option for option in options if len(option.candidates) > 1)


def _shortened(values: tuple[int, ...] | tuple[bool, ...]) -> str:
    if len(values) <= 8:
        return ", ".join(map(str, values))
    return f"{values[0]}, {values[1]}, ..., {values[-1]}"
