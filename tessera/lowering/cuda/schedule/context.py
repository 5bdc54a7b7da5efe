"""Schedule passes of tile kernels: the base class, and the context that each pass is given."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tessera.core.mlir import ir
from tessera.core.program.program import Program
from tessera.core.targets import Architecture
from tessera.core.tile.schedule_attributes import (
    PREFIX,
    REFUSED,
    SCHEDULE,
    SCHEDULE_ATTRIBUTES,
    mark,
    schedule_of,
    set_schedule,
)
from tessera.lowering.analysis.uniformity import is_tile, walk
from tessera.lowering.base.passes import Pass
from tessera.lowering.cuda.base.index_builder import width
from tessera.lowering.cuda.schedule.view import ScheduleView, padded
from tessera.lowering.cuda.storage.global_access import access_bytes


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the tiles of a kernel cannot be kept in registers, which its products on tensor cores need.

    remedy: what to try; op: the operation that is the cause, None: the kernel as a whole
    """

    reason: str
    remedy: str
    op: Any = None


@dataclass(frozen=True, eq=False)
class ScheduleContext:
    """A kernel that a pass schedules: its function, the program it was made of, and the GPU."""

    function: Any
    program: Program
    chip: Architecture

    @cached_property
    def plan(self) -> ScheduleView:
        """The schedule as the passes before this one left it."""
        return ScheduleView(self.function)

    @property
    def block(self) -> Any:
        """The function's body."""
        return self.plan.block

    @property
    def operations(self) -> list[Any]:
        """All operations, outer before inner."""
        return self.plan.operations

    @property
    def dots(self) -> list[Any]:
        """The matrix products."""
        return self.plan.dots

    @cached_property
    def _kinds(self) -> dict[Any, Any]:
        parameters = self.program.parameters
        return {a: p.value.type for a, p in zip(self.block.arguments, parameters, strict=True)}

    def parameters(self, memory: Any) -> set[int]:
        """The number of the parameter that a memref is."""
        return self.plan.parameters(memory)

    def only_reads(self, load: Any) -> bool:
        """Whether the kernel does not write the array of a load or read."""
        return not self.parameters(load.operands[0]) & self.plan.written

    def set(self, **choices: int) -> None:
        """Change what the function says of the kernel as a whole."""
        set_schedule(self.function, replace(schedule_of(self.function), **choices))

    @property
    def divides(self) -> bool:
        """Whether a warp can do the copies alone: it knows no number that is computed of tiles, or written before."""
        return not any(
            (op.name == "tessera.read" and not self.only_reads(op))
            or (any(is_tile(v.type) for v in op.operands) and any(not is_tile(v.type) for v in op.results))
            for op in self.operations
            if not len(op.regions)
        )

    def refuse(self, reason: str, remedy: str, op: Any = None) -> None:
        """Leave at `op` (None: at the function) why the tiles of this kernel cannot be kept in registers."""
        mark(self.function if op is None else op, REFUSED, (reason, remedy))

    def option(self, name: str, default: int) -> int:
        """An option of the kernel that is a number or a truth value."""
        value = self.program.options.get(name, default)
        return int(value) if isinstance(value, int) else default

    def access_bytes(self, op: Any) -> int:
        """How many bytes of a load's or store's rows move at a time."""
        return access_bytes(self._kinds[op.operands[0]], op)

    def array(self, memory: Any) -> Any:
        """The type of the parameter that a memref is."""
        return self._kinds[memory]

    def largest(self, plan: ScheduleView) -> int:
        """32-bit values of the largest tile, where `plan` says which tiles are never there as a whole."""
        streamed = plan.streamed
        tiles = [v.type for op in self.operations if op not in streamed for v in op.results if is_tile(v.type)]
        kinds = [(kind.shape, kind.element_type) for kind in tiles]
        kinds += [(shape, op.operands[0].type.element_type) for op, shape in plan.parts.items()]
        return max(math.prod(padded(shape)) * max(1, width(str(element)) // 32) for shape, element in kinds)


@dataclass(frozen=True, slots=True)
class SchedulePass(Pass):
    """A pass that decides one thing about a tile kernel, and writes it into the Tile IR as attributes."""

    program: Program
    chip: Architecture

    def run(self, module: Any) -> None:
        """Schedule the kernel of a module, unless a pass before has refused it."""
        function = kernel_of(module)
        if refusal_of(function) is None:
            self.decide(ScheduleContext(function, self.program, self.chip))

    @abstractmethod
    def decide(self, kernel: ScheduleContext) -> None:
        """Leave attributes on the kernel, or say why its tiles cannot be kept in registers (`refuse`)."""


def kernel_of(module: Any) -> Any:
    """The `func.func` of a module."""
    return next(op.operation for op in module.body.operations if op.operation.name == "func.func")


def refusal_of(function: Any) -> Refusal | None:
    """Return what `ScheduleContext.refuse` left on a function, or inside it."""
    for op in (function, *walk(function.regions[0].blocks[0])):
        if PREFIX + REFUSED in op.attributes:
            reason, remedy = (str(ir.StringAttr(part).value) for part in ir.ArrayAttr(op.attributes[PREFIX + REFUSED]))
            return Refusal(reason, remedy, None if op == function else op)
    return None


def unscheduled(function: Any) -> None:
    """Remove everything that passes said of a function's schedule."""
    names: Sequence[str] = (SCHEDULE, *(PREFIX + name for name in (*SCHEDULE_ATTRIBUTES, REFUSED)))
    for op in (function, *walk(function.regions[0].blocks[0])):
        for name in names:
            if name in op.attributes:
                del op.attributes[name]
