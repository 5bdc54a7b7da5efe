"""From Tile IR to the CPU's target IR: one entry point in upstream dialects (arith, math, vector, scf, llvm).

The entry point runs the kernel's body for each group from the first to past the last one, as long as it is not
cancelled, and returns whether it was.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tessera.core.artifact import LaunchRule, Resources, Slot
from tessera.core.mlir import ir
from tessera.core.profile import wants_profile
from tessera.core.program.program import Program
from tessera.core.tile.location import place
from tessera.lowering.analysis.divergence import DivergenceAnalysis
from tessera.lowering.analysis.ir_tree import IrTree, Node, read_function
from tessera.lowering.base.launch_grid import launch_rule
from tessera.lowering.cpu.base.cache_model import CacheModel
from tessera.lowering.cpu.base.emit_context import ArrayRef
from tessera.lowering.cpu.base.features import CpuFeatures
from tessera.lowering.cpu.simt.entry_point import EntryPoint
from tessera.lowering.cpu.simt.group import Group
from tessera.lowering.cpu.simt.lane_context import LaneContext, Position
from tessera.lowering.cpu.simt.operand_facts import OperandFacts
from tessera.lowering.cpu.simt.parallel_regions import LANES_PER_GROUP
from tessera.lowering.cpu.simt.profile_records import ProfileRecorder
from tessera.lowering.cpu.simt.trip_counts import is_bounded
from tessera.lowering.cpu.simt.vectors import Scalar


@dataclass(frozen=True, slots=True)
class TargetModule:
    """Target IR and what a launch has to know about it (see `core/artifact.py`)."""

    module: ir.Module
    entry: str
    slots: tuple[Slot, ...]
    launch: LaunchRule
    resources: Resources
    bounded: bool


def to_cpu(module: ir.Module, program: Program, features: str = "") -> TargetModule:
    """Lower the one function of a Tile IR module for a processor with these features (LLVM's string).

    The module itself is left as it is.
    """
    function = next(iter(module.body.operations)).operation
    body = read_function(function)
    target = ir.Module.create(loc=place(program.span))
    kernel = EntryPoint(program, target, place(program.span), CpuFeatures.from_features(features))
    shapes = DivergenceAnalysis(body, program.group)
    code = LaneContext(kernel, shapes, program.group)
    _bind(code, body)
    rule = launch_rule(function, program, LANES_PER_GROUP)
    _groups(code, body, rule, Group(code, OperandFacts(body, shapes), CacheModel.from_features(features)), target)
    kernel.close()
    return TargetModule(
        target,
        kernel.entry,
        tuple(kernel.slots),
        rule,
        Resources(scratch_bytes=kernel.scratch_bytes, shared_bytes=kernel.shared_bytes),
        is_bounded(body.nodes, shapes),
    )


def _bind(code: LaneContext, body: IrTree) -> None:
    """Give parameters and shared buffers their target values."""
    for argument, value in zip(body.arguments, code.kernel.arguments, strict=True):
        if isinstance(value, ArrayRef):
            code.arrays[argument] = value
        else:
            code.define(argument, Scalar(value))
    for node in _walk(body):
        if node.name == "tessera.alloc":
            (buffer,) = node.results
            code.define(buffer, Scalar(code.kernel.scratch(_bytes(code, buffer.type))))


def _bytes(code: LaneContext, kind: ir.Type) -> int:
    buffer = ir.MemRefType(kind)
    count = max(1, int(code.vectors.text(buffer.element_type).lstrip("bfi")) // 8)
    for extent in buffer.shape:
        count *= extent
    code.kernel.shared_bytes += count
    return count


def _groups(code: LaneContext, body: IrTree, rule: LaunchRule, group: Group, target: ir.Module) -> None:
    """Emit the loop over groups, each of which starts with its place in the grid, into the module `target`."""
    kernel, vectors, flow = code.kernel, code.vectors, code.kernel.flow
    lanes = kernel.slot(Slot("lanes")) if rule.kind == "lanes" else None
    extents = tuple(kernel.slot(Slot("grid", axis=axis)) for axis in range(3)) if rule.kind == "groups" else ()

    every = wants_profile(kernel.program)
    recorder = ProfileRecorder(kernel, target.body, every) if every else None

    def inside(number: ir.Value, *began: ir.Value) -> list[ir.Value]:
        def one() -> None:
            with code.scope():
                code.position = Position(number, _coordinates(code, body, number, extents), extents, lanes=lanes)
                group.body(body)

        if recorder is not None:
            return recorder.group(number, began, one)
        one()
        return []

    one = vectors.constant(1, "i64")
    first = recorder.carried if recorder is not None else []
    flow.watched(kernel.first, kernel.past, one, first, inside, innermost=False)


def _coordinates(
    code: LaneContext, body: IrTree, group: ir.Value, extents: tuple[ir.Value, ...]
) -> tuple[ir.Value, ...]:
    """Return the group's index along each axis of the grid, where the kernel asks for one; the last is the fastest."""
    asked = any(node.name == "tessera.id" and node.number("axis") is not None for node in _walk(body))
    if not asked or not extents:
        return ()
    vectors = code.vectors
    _, second, third = extents
    rest = vectors.integer("divui", group, third)
    return (
        vectors.integer("divui", rest, second),
        vectors.integer("remui", rest, second),
        vectors.integer("remui", group, third),
    )


def _walk(body: IrTree) -> Iterable[Node]:
    for node in body.nodes:
        yield from node.walk()
