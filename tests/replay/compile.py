"""Compile one program for one target in this process, without a cache, and keep what a change must not move."""

import hashlib
import re
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final
from unittest import mock

from llvmlite import binding

from tessera.core.artifact import Artifact
from tessera.core.base.source import Source, Span
from tessera.core.compilation import Compilation
from tessera.core.program.program import Block, Op, Program, Value
from tessera.core.targets import Target
from tessera.lowering.cuda_tile.cubin import CubinUsage
from tessera.lowering.driver.compile import compile_program

DIGITS: Final = 16
_BASELINE: Final = "+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe"
_WIDE: Final = f"{_BASELINE},+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl"
TARGETS: Final = {
    "cpu:avx2": Target("cpu", "x86-64-v3", _BASELINE),
    "cpu:avx512": Target("cpu", "x86-64-v4", _WIDE),
    "cuda:sm_80": Target("cuda", "sm_80"),
    "cuda:sm_89": Target("cuda", "sm_89"),
    "cuda:sm_90a": Target("cuda", "sm_90a"),
    "cuda:sm_100a": Target("cuda", "sm_100a"),
    "cuda_tile:sm_90": Target("cuda_tile", "sm_90"),
}
"""What is compiled for, by name.  Processors are named, with their features, so that the host does not matter."""

_ENTRY: Final = "kernel"
_SOURCE: Final = Source("kernel.py", "")
_PLACE: Final = Span(_SOURCE.name, 1, 1, 1, 1)
_PTX_COMMENT: Final = re.compile(r"\s*//.*$", re.MULTILINE)
_PTX_DEBUG: Final = re.compile(
    r"^\s*\.(?:loc|file)\b.*\n|^\$L__\w*(?:tmp|info|debug|func_begin|func_end)\w*:\n", re.MULTILINE
)
_PTX_SECTION: Final = re.compile(r"^\s*\.section\s+\.debug\w*\s*\{.*?\}\n?", re.MULTILINE | re.DOTALL)
_CONSTANTS: Final = re.compile(r"\.(?:rodata|data|bss)")


@dataclass(frozen=True, slots=True)
class Code:
    """What was made of one program.

    machine: machine code as text; stages: name and text of Tile IR after each pass, in order
    below: texts of the levels between them, which help to see what moved and are not compared
    """

    machine: str
    stages: tuple[tuple[str, str], ...]
    below: tuple[tuple[str, str], ...] = ()


def compiled(program: Program, target: Target) -> Code:
    """Compile `program` with every level.  Raises the TesseraError of a program that the target refuses."""
    with _without_tools() as bytecode:
        compilation = compile_program(anonymous(program), target, observe=True)
    stages = tuple((found.stage, found.text) for found in compilation.listings if found.level == "tile" and found.stage)
    below = tuple((found.level, found.text) for found in compilation.listings if found.level in ("target", "llvm"))
    if target.name == "cpu":
        machine = _object_text(compilation)
    else:
        machine = _ptx(compilation) if target.name == "cuda" else _hexadecimal(bytecode[-1])
    return Code(f"{machine}\n{_launch_text(compilation.artifact)}", stages, below)


def anonymous(program: Program) -> Program:
    """Return `program` without its name and its places in a file: code must not depend on either."""
    values: dict[Value, Value] = {}

    def value(old: Value) -> Value:
        if old not in values:
            values[old] = replace(old, span=_PLACE)
        return values[old]

    def block(old: Block) -> Block:
        return Block(tuple(map(value, old.arguments)), tuple(map(operation, old.ops)))

    def operation(old: Op) -> Op:
        return replace(
            old, operands=tuple(map(value, old.operands)), results=tuple(map(value, old.results)),
            regions=tuple(map(block, old.regions)), span=_PLACE,
        )  # fmt: skip

    return replace(
        program, name=_ENTRY, source=_SOURCE, span=_PLACE, body=block(program.body),
        parameters=tuple(replace(p, value=value(p.value), span=_PLACE) for p in program.parameters),
        workspaces=tuple(replace(w, value=value(w.value)) for w in program.workspaces),
        given=tuple(replace(w, value=value(w.value)) for w in program.given),
    )  # fmt: skip


def digest(text: str) -> str:
    """Return the hash of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


@contextmanager
def _without_tools() -> Generator[list[bytes]]:
    """Stop at PTX and at CUDA Tile bytecode, which is collected: the assemblers are not ours, and slow."""
    bytecode: list[bytes] = []

    def assemble(code: bytes, _: str) -> bytes:
        bytecode.append(code)
        return b""

    with ExitStack() as patches:
        replacements: dict[str, Any] = {
            "tessera.lowering.cuda.to_nvvm.find_tool": lambda _: None,
            "tessera.lowering.cuda_tile.backend.assemble": assemble,
            "tessera.lowering.cuda_tile.backend.read_usage": lambda *_: CubinUsage(0, 0, 0, 0),
        }
        for name, instead in replacements.items():
            patches.enter_context(mock.patch(name, instead))
        yield bytecode


def _ptx(compilation: Compilation) -> str:
    """Return PTX without debug information and comments."""
    text = compilation.artifact.code.rstrip(b"\0").decode()
    return _PTX_DEBUG.sub("", _PTX_SECTION.sub("", _PTX_COMMENT.sub("", text)))


def _object_text(compilation: Compilation) -> str:
    """Return the assembly of an object file, and behind it the constants that it reads."""
    assembly = next(found.text for found in compilation.listings if found.level == "asm")
    sections = binding.ObjectFileRef.from_data(compilation.artifact.code).sections()
    named = [(name.decode(), section.data()) for section in sections if (name := section.name()) is not None]
    constants = [f"{name}\n{_hexadecimal(data)}" for name, data in named if _CONSTANTS.match(name)]
    return "\n".join([assembly, *constants])


def _launch_text(artifact: Artifact) -> str:
    """Return what the launcher has to know: it belongs to the code."""
    rule, resources = artifact.launch, artifact.resources
    size = (rule.lanes_per_group, rule.elements, rule.cluster, rule.persistent, rule.early)
    memory = (resources.shared_bytes, resources.scratch_bytes)
    slots = [(slot.parameter, slot.axis, slot.symbol, slot.bytes) for slot in artifact.slots]
    windows = [
        (w.box, w.swizzle, w.rounded, w.padded_rows, w.stored) for slot in artifact.slots if (w := slot.tensor_map)
    ]
    return f"launch {size}, memory {memory}, slots {slots}, windows {windows}\n"


def _hexadecimal(data: bytes) -> str:
    """Return bytes as lines of 32 hexadecimal numbers."""
    return "\n".join(data[start : start + 32].hex(" ") for start in range(0, len(data), 32))
