"""PTX text as a list of instructions: what LLVM writes for our kernels, inline assembly included."""

import re
from dataclasses import dataclass, field

LOCAL_BASE = 1 << 56
"""Where a lane's own memory begins, as an address."""

_LABEL = re.compile(r"^(\$?[\w$]+):")
_INSTRUCTION = re.compile(r"^(?:@(!?)(%\w+)\s+)?([\w.:]+)\s*(.*?);?$")
_SHARED = re.compile(r"\.shared\s+\.align\s+(\d+)\s+\.[a-z](\d+)\s+([\w$]+)(?:\[(\d*)\])?")
_DEPOT = re.compile(r"\.local\s+\.align\s+\d+\s+\.b8\s+(\w+)\[(\d+)\]")
_PARAMETER = re.compile(r"\.param\s+[^,)]*?(\w+)(?:\[\d+\])?(?=[,\n)])")
_LANES = re.compile(r"\.reqntid\s+(\d+)")
_OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*")
_INLINE = re.compile(r"// begin inline asm\n(.*?)// end inline asm", re.DOTALL)
_DECLARED = re.compile(r"\.reg\s+\.(\w+)\s+([^;]+);")
_PREFIXES = {"pred": "%p_", "b16": "%rs_", "b32": "%r_", "f32": "%f_", "b64": "%rd_"}


class PtxFault(Exception):
    """The program did what no correct kernel does."""


@dataclass
class Instruction:
    """One instruction: its guard (a predicate register), its name and suffixes, and its operands as they are written."""

    guard: str | None
    negated: bool
    name: str
    parts: list[str]
    operands: list[str]
    text: str


@dataclass
class Kernel:
    """Parsed PTX: `code` with branch targets in `labels`, parameters in order, shared buffers by name.

    shared: where each buffer begins, and its bytes; depot: bytes of a lane's own memory
    """

    parameters: list[str]
    lanes: int
    code: list[Instruction] = field(default_factory=list[Instruction])
    labels: dict[str, int] = field(default_factory=dict[str, int])
    shared: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    depot: int = 0


def parse(text: str) -> Kernel:
    """Read one kernel."""
    header = text[text.index(".entry") : text.index("{")]
    lanes = _LANES.search(text)
    if lanes is None:
        raise PtxFault("the kernel does not say how many lanes it has")
    kernel = Kernel(_PARAMETER.findall(header), int(lanes[1]))
    for raw in _INLINE.sub(lambda match: _unfold(match[1]), text).splitlines():
        line = raw.split("//")[0].strip()
        if not _declares(kernel, line):
            _read(kernel, line)
    return kernel


def _declares(kernel: Kernel, line: str) -> bool:
    """Whether a line declares memory or a label, which is noted in `kernel`."""
    if match := _SHARED.search(line):
        align = int(match[1])
        start = max((s + n for s, n in kernel.shared.values()), default=0)
        count = int(match[4] or 0) if "[" in line else 1
        kernel.shared[match[3]] = (-(-start // align) * align, int(match[2]) // 8 * count)
    elif match := _DEPOT.search(line):
        kernel.depot = int(match[2])
        kernel.shared[match[1]] = (LOCAL_BASE, 0)
    elif match := _LABEL.match(line):
        kernel.labels[match[1]] = len(kernel.code)
    else:
        return False
    return True


def _read(kernel: Kernel, line: str) -> None:
    """Add the instruction on a line, if there is one."""
    if line.startswith("{"):
        line = line[1:].strip()
    match = _INSTRUCTION.match(line)
    if match is None or not line.endswith(";") or line[0] in ".})":
        return
    operands = [operand.strip() for operand in _OPERAND.findall(match[4])]
    name, *parts = match[3].split(".")
    kernel.code.append(Instruction(match[2], match[1] == "!", name, parts, operands, line))


def _unfold(text: str) -> str:
    """Inline assembly, an instruction a line, with the names that it declares made those of registers."""
    for kind, names in _DECLARED.findall(text):
        for name in names.split(","):
            text = re.sub(rf"(?<![\w%]){name.strip()}(?!\w)", _PREFIXES[kind] + name.strip(), text)
    text = _DECLARED.sub("", text).strip()
    if text.startswith("{"):
        text = text[1 : text.rindex("}")]
    return "\n".join(f"{part.strip()};" for part in text.split(";") if part.strip()) + "\n"
