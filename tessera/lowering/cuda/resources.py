"""Report the resources of an artifact: registers, occupancy and what limits it, instructions by kind.

This needs no GPU and no MLIR: the assembler's figures are kept with the artifact, and instructions are counted in the
disassembly of its code (`nvdisasm`).
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from tessera.core.artifact import PADDED_ROW_BYTES, Artifact, LaunchRule, Remark
from tessera.core.base.source import NOWHERE, Span
from tessera.core.object_files import loaded_bytes
from tessera.core.program.arguments import Argument, ArrayArgument
from tessera.core.program.expressions import to_text
from tessera.core.resources import Instructions, ResourceReport
from tessera.core.targets import generation
from tessera.lowering.base.cuda_toolkit import PACKAGES
from tessera.lowering.base.sass import has_machine_code, machine_code
from tessera.lowering.cuda.occupancy import occupancy

_CODE: Final = re.compile(
    r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:\{\s*)?(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*(?:\.[\w]+)*)", re.MULTILINE
)
_WIDTH: Final = re.compile(r"\.(128|64|U8|S8|U16|S16|256)\b")
_BITS: Final = {"U8": "8", "S8": "8", "U16": "16", "S16": "16"}
_BY_WIDTH: Final = frozenset(("LDG", "STG", "LDS", "STS", "LDL", "STL", "LDGSTS"))

# Kinds in the order in which they are shown: what moves and multiplies tiles, memory, waiting, arithmetic.
_MEANINGS: Final = {
    "HGMMA": "matrix product of a warp group, 16-bit floats or tf32 (wgmma)",
    "QGMMA": "matrix product of a warp group, 8-bit floats (wgmma)",
    "IGMMA": "matrix product of a warp group, integers (wgmma)",
    "UTCHMMA": "matrix product of a block, 16-bit floats or tf32 (tcgen05)",
    "UTCQMMA": "matrix product of a block, 8-bit floats (tcgen05)",
    "HMMA": "matrix product of a warp, floats (mma.sync)",
    "QMMA": "matrix product of a warp, 8-bit floats (mma.sync)",
    "IMMA": "matrix product of a warp, integers (mma.sync)",
    "DMMA": "matrix product of a warp, f64 (mma.sync)",
    "UTMALDG": "bulk tensor load to shared memory (TMA)",
    "UTMASTG": "bulk tensor store from shared memory (TMA)",
    "UTMAREDG": "bulk tensor reduction into global memory (TMA)",
    "UBLKCP": "bulk copy (TMA)",
    "LDGSTS": "asynchronous copy from global to shared memory (cp.async)",
    "LDSM": "load of matrix fragments from shared memory (ldmatrix)",
    "STSM": "store of matrix fragments to shared memory (stmatrix)",
    "LDG": "load from global memory",
    "STG": "store to global memory",
    "LDS": "load from shared memory",
    "STS": "store to shared memory",
    "LDL": "load from local memory: stack or spilled registers",
    "STL": "store to local memory: stack or spilled registers",
    "ATOMG": "atomic operation on global memory",
    "RED": "reduction into global memory",
    "ATOMS": "atomic operation on shared memory",
    "BAR": "barrier of a block or of named warps",
    "SYNCS": "mbarrier: initialise, arrive, wait",
    "WARPSYNC": "the lanes of a warp meet",
    "DEPBAR": "wait for asynchronous copies",
    "LDGDEPBAR": "end of a group of asynchronous copies",
    "UTMACMDFLUSH": "end of a group of bulk stores",
    "MEMBAR": "memory fence",
    "FENCE": "fence between views of shared memory",
    "USETMAXREG": "registers moved between warp groups (setmaxnreg)",
    "SHFL": "exchange between the lanes of a warp",
    "VOTE": "vote of the lanes of a warp",
    "MUFU": "special functions: 2^x, log2, 1/x, 1/sqrt, sin, cos, tanh",
    "FFMA": "f32 fused multiply-add",
    "FMUL": "f32 multiplication",
    "FADD": "f32 addition",
    "FFMA2": "two f32 fused multiply-adds",
    "HFMA2": "two 16-bit fused multiply-adds, often a move",
    "HMUL2": "two 16-bit multiplications",
    "HADD2": "two 16-bit additions",
    "HMNMX2": "minima or maxima of two 16-bit floats",
    "DFMA": "f64 fused multiply-add",
    "DMUL": "f64 multiplication",
    "DADD": "f64 addition",
    "F2FP": "conversion of two floats to a narrower type",
    "F2F": "conversion between floats",
    "I2F": "conversion of an integer to a float",
    "F2I": "conversion of a float to an integer",
    "IMAD": "integer multiply-add, often a move",
    "CALL": "call of a slow path, such as of a division",
}
_OTHER: Final = "other"
_MANY_ELEMENTS: Final = 1_000_000
"""Elements of an array from which on the user is warned of a serial loop over it."""


def resource_report(artifact: Artifact, called: int | None = None) -> ResourceReport:
    """Return the report of `artifact`, of any target; that of one that is not for NVIDIA GPUs is short.

    called: how many groups its last call had

    Raises:
        CompilerCrash: nvdisasm refuses the artifact's code.
    """
    resources, launch, target = artifact.resources, artifact.launch, str(artifact.target)
    remarks = tuple(_said(artifact, remark) for remark in artifact.remarks)
    groups = groups_text(launch, called)
    if not artifact.target.kind.on_gpu:
        return ResourceReport(
            artifact.name, target, scratch_bytes=resources.scratch_bytes, shared_bytes=resources.shared_bytes,
            code_bytes=loaded_bytes(artifact.code), notes=remarks, groups=groups,
        )  # fmt: skip
    notes = [*_spilled(artifact), *remarks, *resources.notes, *_copies(artifact)]
    if resources.registers is None:
        notes.append(f"no machine code without ptxas: pip install {PACKAGES['ptxas']}")
    found: tuple[Instructions, ...] = ()
    if has_machine_code(artifact):
        found = instructions(machine_code(artifact))
    else:
        notes.append(f"instructions are not counted without nvdisasm: pip install {PACKAGES['nvdisasm']}")
    chip = generation(artifact.target.arch)
    full, threads = None, resources.lanes or launch.threads
    if chip is not None and resources.registers is not None and threads:
        full = occupancy(chip, threads, resources.registers, resources.shared_bytes)
    return ResourceReport(
        artifact.name, target, threads, launch.elements, resources.registers, resources.spill_bytes,
        resources.stack_bytes, resources.shared_bytes, resources.scratch_bytes, resources.barriers,
        len(artifact.code), full, found, sum(kind.count for kind in found), tuple(notes),
        resources.buffers, groups,
    )  # fmt: skip


def groups_text(launch: LaunchRule, called: int | None = None) -> str:
    """Return the number of groups of a launch as text: "(rows + 7) // 8: 512 in the last call"."""
    expression = launch.groups
    if isinstance(expression, int):
        return f"{expression:,}"
    told = "what the launch gives" if expression is None else to_text(expression)
    return told if called is None else f"{told}: {called:,} in the last call"


def warnings_of(artifact: Artifact, arguments: Sequence[Argument] = ()) -> tuple[str, ...]:
    """Return warnings for a call of an artifact with `arguments`: what costs speed, and what to do about it."""
    found = [remark for remark in artifact.remarks if _matters(remark, arguments)]
    return (*_spilled(artifact), *(_said(artifact, remark) for remark in found))


def _spilled(artifact: Artifact) -> tuple[str, ...]:
    if not artifact.target.kind.register_limits:
        return ()
    return tuple(filter(None, [spill_note(artifact)]))


def _matters(remark: Remark, arguments: Sequence[Argument]) -> bool:
    """Return whether a remark concerns enough elements for a warning."""
    if not remark.concerns:
        return True
    concerned = [arguments[number] for number in remark.concerns if number < len(arguments)]
    sizes = [math.prod(one.shape) for one in concerned if isinstance(one, ArrayArgument)]
    return max(sizes, default=0) > _MANY_ELEMENTS


def _said(artifact: Artifact, remark: Remark) -> str:
    return f"{artifact.name}{_place(artifact, remark.span)}: {remark.text}"


def _place(artifact: Artifact, span: Span) -> str:
    """Return the place of a span as text: the cell or file, and the line."""
    source = artifact.source
    known = span.file == source.name
    return "" if span == NOWHERE else f" ({(source.label if known else '') or span.file}, line {span.line})"


def spill_note(artifact: Artifact) -> str:
    """Return what spilled registers cost and what to do; "" if none are, or if that is unknown."""
    spilled, arch = artifact.resources.spill_bytes, artifact.target.arch
    if not spilled:
        return ""
    why = f"each lane of {artifact.name} stores and loads {spilled:,} bytes for want of registers on {arch}"
    remedy = (
        "try smaller blocks and several numbers of warps, of which more may spill more: autotune(num_warps=[4, 8, 16])"
    )
    return f"{why}, which takes time: {remedy}"


def _copies(artifact: Artifact) -> tuple[str, ...]:
    """Return notes on the copies that the launcher makes before the kernel, and the memory that they take."""
    numbers = {slot.parameter for slot in artifact.slots if slot.tensor_map is not None and slot.tensor_map.padded_rows}
    names = [artifact.bindings[number].name for number in sorted(numbers)]
    if not names:
        return ()
    verb = "is" if len(names) == 1 else "are"
    memory = f"their size in memory, each row rounded up to {PADDED_ROW_BYTES} bytes"
    return (f"before each launch {' and '.join(names)} {verb} copied to aligned rows, which takes {memory}",)


def instructions(sass: str) -> tuple[Instructions, ...]:
    """Count the instructions of a SASS text by kind; the padding after its end does not count."""
    counts = Counter(_kind(opcode) for opcode in _CODE.findall(sass) if opcode != "NOP")
    order = {name: number for number, name in enumerate((*_MEANINGS, _OTHER))}

    def place(name: str) -> tuple[int, int]:
        base, _, width = name.partition(".")
        return order[base], -int(width or 0)

    return tuple(Instructions(name, counts[name], _meaning(name)) for name in sorted(counts, key=place))


def _kind(opcode: str) -> str:
    base = opcode.split(".", maxsplit=1)[0]
    base = {"REDG": "RED", "ATOM": "ATOMG", "REDUX": "VOTE", "UTCOMMA": "UTCQMMA"}.get(base, base)
    if base not in _MEANINGS:
        return _OTHER
    if base not in _BY_WIDTH:
        return base
    width = _WIDTH.search(opcode)
    return f"{base}.{_BITS.get(width[1], width[1]) if width else '32'}"


def _meaning(name: str) -> str:
    base, _, width = name.partition(".")
    if base == _OTHER:
        return "addresses, comparisons, moves, branches"
    return f"{_MEANINGS[base]}, {width} bits a lane" if width else _MEANINGS[base]
