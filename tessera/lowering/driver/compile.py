"""From a Program to an Artifact: Tile IR, the target's passes, the target's code."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from tessera.core.artifact import Artifact, Binding
from tessera.core.base.source import NOWHERE, Span
from tessera.core.compilation import Compilation
from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import CompilerCrash
from tessera.core.events import PassRan, publish, wanted
from tessera.core.lineage import Lineage
from tessera.core.listing import Line, Listing
from tessera.core.mlir import ir
from tessera.core.program.program import Program
from tessera.core.program.types import Array, Scalar
from tessera.core.targets import TARGETS, Target
from tessera.core.tile.dialect import shared_context
from tessera.core.tile.records import listing_of_tile
from tessera.core.tile.spec import check_tile_ir
from tessera.lowering.artifact_cache.key import artifact_key, toolchain
from tessera.lowering.base.backends import backend_of
from tessera.lowering.base.cuda_toolkit import SerialisedProducts
from tessera.lowering.base.passes import Pass, run_passes
from tessera.lowering.base.target_code import TargetCode
from tessera.lowering.driver.pipelines import tile_passes
from tessera.lowering.program.remove_empty_tiles import without_empty_tiles
from tessera.lowering.program.serial_loop_remarks import arrays_apart, serial_remarks
from tessera.lowering.tile.to_tile import to_tile

ONE_BY_ONE: Final = "products are waited for one by one: the assembler cannot follow them where they overlap"
"""The note of a kernel whose products were not left to run beside other work, as they would have been otherwise."""


def compile_program(program: Program, target: Target, observe: bool) -> Compilation:
    """Compile `program` for `target`; with `observe`, every level and every pass comes along.

    Raises a `TesseraError` that points into the user's text: `CompilerCrash` when the fault is ours.
    """
    try:
        with shared_context():
            return _compile(program, target, observe)
    except TesseraError as error:
        if error.span == NOWHERE:  # about the kernel as a whole
            error.span = program.span
        raise error.with_source(program.source) from error.__cause__


def _compile(program: Program, target: Target, observe: bool) -> Compilation:
    """One attempt, or a second one whose products are waited for one by one, where the assembler cannot follow them."""
    if target.name not in TARGETS:
        msg = f"no compiler for the target '{target}'"
        raise CompilerCrash(msg, program.span)
    key = artifact_key(program, target)
    program = without_empty_tiles(program)
    try:
        return _attempt(program, target, observe, key)
    except SerialisedProducts:
        found = _attempt(replace(program, options={**program.options, "overlap": False}), target, observe, key)
        resources = found.artifact.resources
        noted = replace(resources, notes=(*resources.notes, ONE_BY_ONE))
        return replace(found, artifact=replace(found.artifact, resources=noted))


def _attempt(program: Program, target: Target, observe: bool, key: str) -> Compilation:
    start = time.perf_counter()
    module = to_tile(program)
    built = time.perf_counter() - start
    snapshots: list[Listing] = [listing_of_tile(module, "to-tile", program)] if observe else []

    passes = tile_passes(target.kind)
    stages = iter(_stages([step.name for step in passes]))

    def snapshot(_: Pass, module: ir.Module) -> None:
        snapshots.append(listing_of_tile(module, next(stages), program))

    seconds = run_passes(passes, module, snapshot if observe else None)
    check_tile_ir(module, "tile passes")
    _publish(ran := _passes_run(program, target, (("to-tile", built), *seconds), snapshots, passes))
    if observe:
        snapshots.append(replace(snapshots[-1], stage=""))
    start = time.perf_counter()
    code = backend_of(target.kind).generate(module, program, target, observe)
    generated = time.perf_counter() - start
    below = (*code.passes, PassRan(program.name, str(target), "target", f"generate-{target.name}", generated, True))
    _publish(below)
    artifact = _artifact(program, target, code, key)
    if not observe:
        return Compilation(artifact)
    listings = (_source_listing(program), *_with_identities((*snapshots, *code.listings)))
    return Compilation(artifact, listings, (*ran, *below))


def _with_identities(listings: Sequence[Listing]) -> Iterator[Listing]:
    """Give every operation its identity, from the Program to the last pass."""
    lineage = Lineage()
    for number, listing in enumerate(listings):
        if not listing.records:
            yield listing
            continue
        name = lineage.next if number else lineage.first
        yield replace(listing, records=name(listing.records))


def _passes_run(
    program: Program,
    target: Target,
    seconds: Sequence[tuple[str, float]],
    snapshots: Sequence[Listing],
    passes: Sequence[Pass],
) -> tuple[PassRan, ...]:
    """Return the passes on Tile IR; where there are snapshots of what they left, with whether they changed anything."""
    changed = [True, *(before.records != after.records for before, after in pairwise(snapshots))]
    names, options = _stages([name for name, _ in seconds]), [{}, *(step.options for step in passes)]
    return tuple(
        PassRan(program.name, str(target), "tile", name, spent, changed[number] if snapshots else None, said)
        for number, (name, (_, spent), said) in enumerate(zip(names, seconds, options, strict=True))
    )


def _publish(passes: Iterable[PassRan]) -> None:
    if wanted(PassRan):
        for each in passes:
            publish(each)


def _stages(names: Sequence[str]) -> list[str]:
    """The name of each pass, with a number where it runs again: `tile-simplify`, `tile-simplify-2`."""
    counts = [names[: number + 1].count(name) for number, name in enumerate(names)]
    return [name if count == 1 else f"{name}-{count}" for name, count in zip(names, counts, strict=True)]


def _artifact(program: Program, target: Target, code: TargetCode, key: str) -> Artifact:
    return Artifact(
        key=key,
        name=program.name,
        target=target,
        code=code.code,
        entry=code.entry,
        bindings=tuple(_bindings(program)),
        symbols=tuple((s.name, s.parameter, s.axis, s.scale) for s in program.symbols),
        slots=code.slots,
        launch=code.launch,
        resources=code.resources,
        bounded=code.bounded,
        source=program.source,
        span=program.span,
        toolchain=dict(toolchain(target.name)),
        remarks=(*code.remarks, *serial_remarks(program, code.launch)),
        apart=arrays_apart(program, code.launch),
    )


def _bindings(program: Program) -> list[Binding]:
    bindings: list[Binding] = []
    for parameter in program.parameters:
        kind = parameter.value.type
        if not isinstance(kind, Array | Scalar):
            msg = f"a kernel cannot take a parameter of type {kind}"
            raise CompilerCrash(msg, parameter.span)
        bindings.append(Binding(parameter.name, kind, parameter.mutable, parameter.span))
    return bindings


def _source_listing(program: Program) -> Listing:
    """The kernel's own lines; each is linked to the operations written on it."""
    source, span = program.source, program.span
    operations = list(program.body.walk())
    last = max([span.end_line, *(op.span.end_line for op in operations)])
    lines: list[Line] = []
    for number in range(span.line, last + 1):
        text = source.line(number)
        here = tuple(index for index, op in enumerate(operations) if op.span.line == number)
        lines.append(Line(text, (Span(source.name, number, 1, number, len(text) + 1),), here))
    return Listing("source", "", tuple(lines))
