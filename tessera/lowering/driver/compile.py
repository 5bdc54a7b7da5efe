"""From a Program to an Artifact: Tile IR, the target's passes, the target's code."""

import re
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from tessera.core.artifact import Artifact, Binding
from tessera.core.base.source import NOWHERE, Source, Span
from tessera.core.compilation import AS_MLIR, FROM_IR, FROM_PTX, LLVM_PASSES, Compilation
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
from tessera.core.tile.editable import FILE, STAGE, bad_ir, function_place, read_stage, stage_listing
from tessera.core.tile.spec import check_tile_ir
from tessera.lowering.artifact_cache.key import artifact_key, toolchain
from tessera.lowering.base.backends import backend_of
from tessera.lowering.base.passes import Pass, run_passes
from tessera.lowering.base.target_code import TargetCode
from tessera.lowering.driver.pipelines import tile_passes
from tessera.lowering.program.remove_empty_tiles import without_empty_tiles
from tessera.lowering.program.serial_loop_remarks import no_alias_pairs, serial_remarks
from tessera.lowering.tile.to_tile import to_tile

_FIRST: Final = "to-tile"
_BYTES: Final = re.compile(r"f8E\w+")
_MODULE: Final = Span(FILE, 1, 1, 1, 7)
"""The word `module` in a text of Tile IR."""


def compile_program(program: Program, target: Target, observe: bool) -> Compilation:
    """Compile `program` for `target`; with `observe`, every level and every pass comes along.

    Raises a `TesseraError` that points into the user's text: `CompilerCrash` when the fault is ours.
    """
    try:
        with shared_context():
            return _compile(program, target, observe)
    except TesseraError as error:
        source, whole = _text_of(program)
        if error.span == NOWHERE:  # about the kernel as a whole
            error.span = whole
        raise error.with_source(source) from error.__cause__


def _compile(program: Program, target: Target, observe: bool) -> Compilation:
    if target.name not in TARGETS:
        msg = f"no compiler for the target '{target}'"
        raise CompilerCrash(msg, program.span)
    key = artifact_key(program, target)
    start = time.perf_counter()
    passes = tile_passes(target.kind)
    names = _stages([step.name for step in passes])
    backend = backend_of(target.kind)
    module, program, stage = _begin(program, (_FIRST, *names, *backend.stages))
    built = time.perf_counter() - start
    # Behind a pass of the target's own, no pass of these is left.
    left = names.index(stage) + 1 if stage in names else 0 if stage == _FIRST else len(names)
    snapshots: list[Listing] = [stage_listing(module, stage, program)] if observe else []
    stages = iter(names[left:])

    def snapshot(_name: str, _seconds: float) -> None:
        snapshots.append(stage_listing(module, next(stages), program))

    seconds = run_passes(passes[left:], module, snapshot if observe else None)
    check_tile_ir(module, "tile passes")
    times = zip(names[left:], (spent for _, spent in seconds), strict=True)
    ran = _passes_run(program, target, ((stage, built), *times), snapshots, passes[left:])
    _publish(ran)
    if observe:
        snapshots.append(replace(snapshots[-1], stage=""))
    start = time.perf_counter()
    code = backend.generate(module, program, target, observe)
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


def _text_of(program: Program) -> tuple[Source, Span]:
    """Return the text that mistakes point into, and where the kernel as a whole stands in it."""
    text = program.options.get(FROM_IR)
    return (Source(FILE, text), function_place(text)) if isinstance(text, str) else (program.source, program.span)


def _begin(program: Program, stages: Collection[str]) -> tuple[ir.Module, Program, str]:
    """Return Tile IR of a program, the program as the target is given it, and the pass behind which the IR stands.

    The IR is what the program's own operations give, or the text that its option `FROM_IR` is; `stages`: all passes.
    """
    program = without_empty_tiles(program)
    text = program.options.get(FROM_IR)
    ours = (FROM_IR, FROM_PTX, AS_MLIR, LLVM_PASSES)
    plain = {name: value for name, value in program.options.items() if name not in ours}
    made = to_tile(replace(program, options=plain))
    if not isinstance(text, str):
        return made, program, _FIRST
    module, stage = read_stage(text)
    if stage not in stages:
        raise bad_ir(text, f"`{stage}` is no pass of this target", _MODULE, f"choose one of {', '.join(stages)}")
    _compare(text, module, made, program)
    module.operation.attributes[STAGE] = ir.StringAttr.get(stage)
    return module, program, stage


def _compare(text: str, module: ir.Module, made: ir.Module, program: Program) -> None:
    """Raise BadTileIR unless `module` has one function, of the name and the type that the program has."""
    own, *_ = _functions(made)
    found = _functions(module)
    for name in ("sym_name", "function_type"):
        if len(found) != 1 or _packed(found[0].attributes[name]) != _packed(own.attributes[name]):
            message = f"this is not {program.name} for these arguments: {own.attributes['function_type']}"
            raise bad_ir(text, message, _MODULE, "compile it for arguments like those for which it was printed")


def _packed(attribute: ir.Attribute) -> str:
    """Return the text of a type in which floats of 8 bits are bytes, as they are behind `tile-pack-floats`."""
    return _BYTES.sub("i8", str(attribute))


def _functions(module: ir.Module) -> list[ir.Operation]:
    return [op.operation for op in module.body.operations if op.operation.name == "func.func"]


def _passes_run(
    program: Program,
    target: Target,
    seconds: Sequence[tuple[str, float]],
    snapshots: Sequence[Listing],
    passes: Sequence[Pass],
) -> tuple[PassRan, ...]:
    """Return the passes on Tile IR; where there are snapshots of what they left, with whether they changed anything."""
    changed = [True, *(before.records != after.records for before, after in pairwise(snapshots))]
    options = [{}, *(step.options for step in passes)]
    return tuple(
        PassRan(program.name, str(target), "tile", name, spent, changed[number] if snapshots else None, said)
        for number, ((name, spent), said) in enumerate(zip(seconds, options, strict=True))
    )


def _publish(passes: Iterable[PassRan]) -> None:
    if wanted(PassRan):
        for each in passes:
            publish(each)


def _stages(names: Sequence[str]) -> list[str]:
    """Name each pass, with a number where it runs again: `tile-simplify`, `tile-simplify-2`."""
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
        no_alias=no_alias_pairs(program, code.launch),
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
    """List the kernel's own lines, each linked to the operations written on it."""
    source, span = program.source, program.span
    operations = list(program.body.walk())
    last = max([span.end_line, *(op.span.end_line for op in operations)])
    lines: list[Line] = []
    for number in range(span.line, last + 1):
        text = source.line(number)
        here = tuple(index for index, op in enumerate(operations) if op.span.line == number)
        lines.append(Line(text, (Span(source.name, number, 1, number, len(text) + 1),), here))
    return Listing("source", "", tuple(lines))
