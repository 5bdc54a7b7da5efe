"""Schedule passes of tile kernels: the base class, and the context that each pass is given."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tessera.core.mlir import AnyOp, ir
from tessera.core.program.program import Program
from tessera.core.program.types import Array, Type
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
from tessera.lowering.base.ir_walk import element_of, is_tile, shape_of, walk
from tessera.lowering.base.passes import Pass
from tessera.lowering.cuda.base.index_builder import width
from tessera.lowering.cuda.schedule.view import ScheduleView, padded
from tessera.lowering.cuda.storage.global_access import access_bytes


@dataclass(frozen=True, slots=True)
class Refusal:
    """Say why a kernel's tiles cannot be kept in registers, which MMA on tensor cores needs.

    remedy: what to try; op: the operation that is the cause, or None for the kernel as a whole
    """

    reason: str
    remedy: str
    op: AnyOp | None = None


@dataclass(frozen=True, eq=False)
class ScheduleContext:
    """A kernel that a pass schedules: its function, the program it was made of, and the GPU."""

    function: AnyOp
    program: Program
    chip: Architecture

    @cached_property
    def plan(self) -> ScheduleView:
        """Return the schedule as the previous passes left it."""
        return ScheduleView(self.function)

    @property
    def block(self) -> ir.Block:
        """Return the function's body."""
        return self.plan.block

    @property
    def operations(self) -> list[AnyOp]:
        """Return all operations, outer before inner."""
        return self.plan.operations

    @property
    def dots(self) -> list[AnyOp]:
        """Return the matrix products."""
        return self.plan.dots

    @cached_property
    def _kinds(self) -> dict[ir.Value, Type]:
        parameters = self.program.parameters
        return {a: p.value.type for a, p in zip(self.block.arguments, parameters, strict=True)}

    def parameters(self, memory: ir.Value) -> set[int]:
        """Return the number of the parameter that a memref is."""
        return self.plan.parameters(memory)

    def only_reads(self, load: AnyOp) -> bool:
        """Return whether the kernel does not write the array of a load or read."""
        return not self.parameters(load.operands[0]) & self.plan.written

    def set(self, **choices: int) -> None:
        """Change the function's `TileSchedule`."""
        set_schedule(self.function, replace(schedule_of(self.function), **choices))

    @property
    def divides(self) -> bool:
        """Return whether a producer warp can copy alone: indices depend neither on tiles nor on memory it writes."""
        return not any(
            (op.name == "tessera.read" and not self.only_reads(op))
            or (any(is_tile(v.type) for v in op.operands) and any(not is_tile(v.type) for v in op.results))
            for op in self.operations
            if not len(op.regions)
        )

    def refuse(self, reason: str, remedy: str, op: AnyOp | None = None) -> None:
        """Leave at `op` (None: at the function) why the tiles of this kernel cannot be kept in registers."""
        mark(self.function if op is None else op, REFUSED, (reason, remedy))

    def option(self, name: str, default: int) -> int:
        """Return an option of the kernel that is a number or a truth value."""
        value = self.program.options.get(name, default)
        return int(value) if isinstance(value, int) else default

    def access_bytes(self, op: AnyOp) -> int:
        """Return how many bytes of a row a load or store moves at a time."""
        return access_bytes(self._kinds[op.operands[0]], op)

    def array(self, memory: ir.Value) -> Array:
        """Return the type of the array parameter that a memref is."""
        kind = self._kinds[memory]
        assert isinstance(kind, Array)
        return kind

    def largest(self, plan: ScheduleView) -> int:
        """Return the 32-bit values of the largest tile; `plan` tells which tiles are never in registers as a whole."""
        streamed = plan.streamed
        tiles = [v for op in self.operations if op not in streamed for v in op.results if is_tile(v.type)]
        kinds: list[tuple[Sequence[int], str]] = [(shape_of(tile), element_of(tile)) for tile in tiles]
        kinds += [(shape, element_of(op.operands[0])) for op, shape in plan.parts.items()]
        return max(math.prod(padded(shape)) * max(1, width(element) // 32) for shape, element in kinds)


@dataclass(frozen=True, slots=True)
class SchedulePass(Pass):
    """A pass that decides one thing about a tile kernel, and writes it into the Tile IR as attributes."""

    program: Program
    chip: Architecture

    def run(self, module: ir.Module) -> None:
        """Schedule the kernel of a module, unless an earlier pass has refused it."""
        function = kernel_of(module)
        if refusal_of(function) is None:
            self.decide(ScheduleContext(function, self.program, self.chip))

    @abstractmethod
    def decide(self, kernel: ScheduleContext) -> None:
        """Leave attributes on the kernel, or say why its tiles cannot be kept in registers (`refuse`)."""


def kernel_of(module: ir.Module) -> ir.Operation:
    """Return the `func.func` of a module."""
    return next(op.operation for op in module.body.operations if op.operation.name == "func.func")


def refusal_of(function: AnyOp) -> Refusal | None:
    """Return what `ScheduleContext.refuse` left on a function, or inside it."""
    for op in (function, *walk(function.regions[0].blocks[0])):
        if PREFIX + REFUSED in op.attributes:
            reason, remedy = (str(ir.StringAttr(part).value) for part in ir.ArrayAttr(op.attributes[PREFIX + REFUSED]))
            return Refusal(reason, remedy, None if op == function else op)
    return None


def unscheduled(function: AnyOp) -> None:
    """Remove all schedule attributes from a function and its operations."""
    names: Sequence[str] = (SCHEDULE, *(PREFIX + name for name in (*SCHEDULE_ATTRIBUTES, REFUSED)))
    for op in (function, *walk(function.regions[0].blocks[0])):
        for name in names:
            if name in op.attributes:
                del op.attributes[name]
