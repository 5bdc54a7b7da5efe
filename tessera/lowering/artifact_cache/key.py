"""The content address of a compiled kernel, computed without MLIR.

Two programs have one key when the compiler cannot tell them apart.  Names of files and the position of a kernel in
its file are left out, so that a notebook finds its kernels again after a restart or after a line was added above;
positions inside the kernel stay in, because listings and errors point there.
"""

import functools
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tessera.core.base.source import Span
from tessera.core.program.program import Attribute, Block, Op, Program, Value
from tessera.core.program.types import Array, Scalar, Shared, Tile, Type
from tessera.core.targets import TARGETS, Target
from tessera.lowering.base.cuda_toolkit import version

_PACKAGE: Final = Path(__file__).resolve().parent.parent.parent


def artifact_key(program: Program, target: Target) -> str:
    """Return the key (40 hex digits) of `program` compiled for `target` by this very compiler."""
    document = (
        _Canonical(program.span).program(program),
        (target.name, target.arch, target.features),
        tuple(sorted(toolchain(target.name).items())),
    )
    return hashlib.blake2b(repr(document).encode(), digest_size=20).hexdigest()


def code_key(program: Program, target: Target) -> str:
    """Return a key that is equal for programs which differ in the names of values alone: they are the same code."""
    whole = program.with_workspaces()
    document = (_Canonical(program.span, named=False).program(whole), target)
    return hashlib.blake2b(repr(document).encode(), digest_size=20).hexdigest()


@functools.cache
def toolchain(target: str) -> Mapping[str, str]:
    """Return the version of everything that decides what comes out: our own compiler's text, MLIR, LLVM, ptxas."""
    from importlib import metadata  # noqa: PLC0415 - costs 30 ms, needed once a process

    versions = {"tessera": _fingerprint()}
    for name in ("torch-mlir", "llvmlite", *TARGETS[target].packages):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "absent"
    # Asked of the programs themselves: a toolkit on PATH is no package, and without ptxas the code is PTX.
    for name in TARGETS[target].tools:
        versions[name] = version(name) or "absent"
    return versions


def _fingerprint() -> str:
    """Hash the compiler's own text: a changed pass makes every older artifact a stranger."""
    digest = hashlib.blake2b(digest_size=16)
    for folder in ("core", "lowering"):
        for path in sorted((_PACKAGE / folder).rglob("*.py")):
            digest.update(str(path.relative_to(_PACKAGE)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


class _Canonical:
    """Turn one program into nested tuples of plain values; SSA values become numbers in order of appearance."""

    def __init__(self, origin: Span, *, named: bool = True) -> None:
        self.origin, self.named = origin, named
        self.numbers: dict[Value, int] = {}

    def program(self, program: Program) -> tuple[object, ...]:
        """Return the whole program as tuples, without the text of its source: its meaning is in the operations."""
        return (
            program.name,
            tuple(
                (self.named and p.name, self.define(p.value), p.mutable, self.span(p.span)) for p in program.parameters
            ),
            self.block(program.body),
            tuple((s.name, s.parameter, s.axis, s.scale) for s in program.symbols),
            (program.domain.kind, program.domain.extents, program.domain.axes),
            program.group,
            program.shared_limit,
            _attributes(program.options),
        )

    def block(self, block: Block) -> tuple[object, ...]:
        """Return a block as tuples: its arguments, then its operations."""
        return (tuple(self.define(v) for v in block.arguments), tuple(self.op(op) for op in block.ops))

    def op(self, op: Op) -> tuple[object, ...]:
        """Return an operation as tuples; operands are read before results are defined: a value cannot use itself."""
        return (
            op.opcode,
            tuple(self.numbers[v] for v in op.operands),
            _attributes(op.attributes),
            self.span(op.span),
            tuple(self.block(region) for region in op.regions),
            tuple(self.define(v) for v in op.results),
        )

    def define(self, value: Value) -> tuple[object, ...]:
        """Give `value` the next number."""
        self.numbers[value] = len(self.numbers)
        return (_type(value.type), self.named and value.name, self.span(value.span))

    def span(self, span: Span) -> tuple[object, ...]:
        """Return a span relative to the kernel's first line; one in another file stays as it is."""
        if span.file != self.origin.file:
            return (span.file, span.line, span.column, span.end_line, span.end_column)
        first = self.origin.line
        return (span.line - first, span.column, span.end_line - first, span.end_column)


def _type(kind: Type) -> tuple[object, ...]:
    match kind:
        case Scalar():
            return (kind.dtype.name,)
        case Tile():
            return ("tile", kind.dtype.name, kind.shape)
        case Array():
            return ("array", kind.dtype.name, kind.shape, kind.contiguous, kind.aligned)
        case Shared():
            return ("shared", kind.dtype.name, kind.shape, kind.swizzle)


def _attributes(attributes: Mapping[str, Attribute]) -> tuple[tuple[str, Attribute], ...]:
    return tuple(sorted(attributes.items()))
