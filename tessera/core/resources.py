"""Resources that a compiled kernel needs, and the occupancy that they allow: plain data.

Nothing here needs a GPU: figures come from the compiler, limits from tables.
"""

from dataclasses import dataclass

from tessera.core.base.plurals import counted


@dataclass(frozen=True, slots=True)
class Limit:
    """How many blocks of the kernel one multiprocessor can hold as far as `cause` goes.

    used, available: what all blocks together may take of it, in `unit`s: what one takes and what there is
    """

    cause: str
    blocks: int
    used: int
    available: int
    unit: str


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How full one multiprocessor is: blocks and warps at a time, of `most_warps`; `limits`, one a cause."""

    blocks: int
    warps: int
    most_warps: int
    limits: tuple[Limit, ...]

    @property
    def fraction(self) -> float:
        """Warps at a time by the most there can be, 0 to 1."""
        return self.warps / self.most_warps

    @property
    def limited_by(self) -> tuple[str, ...]:
        """The causes for which there are not more blocks."""
        return tuple(limit.cause for limit in self.limits if limit.blocks == self.blocks)


@dataclass(frozen=True, slots=True)
class Instructions:
    """How many instructions of one kind the machine code holds: `name` as the disassembler says it."""

    name: str
    count: int
    meaning: str


@dataclass(frozen=True, slots=True)
class Buffers:
    """Shared memory of a group that is used in turns: `count` buffers (stages) of `size` bytes each.

    role: whose they are, as the levels call it ("pipeline 0", "copied by the consumer warps", "stores")
    """

    role: str
    count: int
    size: int

    @property
    def amount(self) -> str:
        """How many there are, and of how many bytes."""
        return f"{self.count} buffer{'' if self.count == 1 else 's'} of {self.size:,} bytes"

    def __str__(self) -> str:
        return f"{self.role}: {self.amount}"


@dataclass(frozen=True, slots=True)
class ResourceReport:
    """Resources of one compiled kernel; None where this target, or this machine without its tools, cannot say.

    registers, spill_bytes, stack_bytes: of a lane; shared_bytes, scratch_bytes, barriers: of a block
    threads: of a block; elements: lanes of the launch that each of them runs
    instructions: kinds in the order of their meaning, `total` of all, in the machine code once (not as executed)
    notes: what the assembler or this report has to say besides
    buffers: of the shared memory, what is used in turns
    groups: how many a launch has, as an expression of extents, and as a number where there was a call
    later: the reports of the phases that are launched after this one, where one call is several launches
    """

    kernel: str
    target: str
    threads: int = 0
    elements: int = 1
    registers: int | None = None
    spill_bytes: int | None = None
    stack_bytes: int | None = None
    shared_bytes: int = 0
    scratch_bytes: int = 0
    barriers: int | None = None
    code_bytes: int = 0
    occupancy: Occupancy | None = None
    instructions: tuple[Instructions, ...] = ()
    total: int = 0
    notes: tuple[str, ...] = ()
    buffers: tuple[Buffers, ...] = ()
    groups: str = ""
    next_phases: "tuple[ResourceReport, ...]" = ()

    def count(self, *names: str) -> int:
        """Instructions of these kinds together: `report.count("HGMMA", "QGMMA")`; a name means all widths of it."""
        return sum(kind.count for kind in self.instructions if kind.name in names or kind.name.split(".")[0] in names)

    @property
    def figures(self) -> tuple[tuple[str, str], ...]:
        """Return what there is to say in words: pairs of a name and a value with its unit."""
        rows: list[tuple[str, str]] = [("groups", self.groups)] if self.groups else []
        if self.threads:
            more = f", {self.elements} elements each" if self.elements > 1 else ""
            rows.append(("lanes of a block", f"{self.threads} ({-(-self.threads // 32)} warps){more}"))
        if self.registers is not None:
            rows.append(("registers of a lane", str(self.registers)))
            rows.append(("spilled", f"{self.spill_bytes or 0} bytes"))
            rows.append(("stack of a lane", f"{self.stack_bytes or 0} bytes"))
        if self.barriers is not None:
            rows.append(("hardware barriers", str(self.barriers)))
        rows.append(("shared memory of a block", f"{self.shared_bytes:,} bytes"))
        rows += [(f"  {one.role}", one.amount) for one in self.buffers]
        if self.scratch_bytes:
            rows.append(("private memory of a block", f"{self.scratch_bytes:,} bytes"))
        if self.occupancy is not None:
            found = self.occupancy
            cause = " and ".join(found.limited_by)
            words = (
                f"{counted(found.blocks, 'block')}, {found.warps} of {found.most_warps} warps ({found.fraction:.0%})"
            )
            rows.append(("on a multiprocessor", f"{words}, limited by {cause}"))
        rows.append(("code", f"{self.code_bytes:,} bytes" + (f", {self.total:,} instructions" if self.total else "")))
        return tuple(rows)

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self.figures)
        lines = [f"{self.kernel} for {self.target}", *(f"  {name:{width}}  {value}" for name, value in self.figures)]
        if self.instructions:
            width = max(len(kind.name) for kind in self.instructions)
            lines.append("instructions")
            lines += [f"  {kind.name:{width}}  {kind.count:>6}  {kind.meaning}" for kind in self.instructions]
        lines += [f"note: {note}" for note in self.notes]
        if not self.next_phases:
            return "\n".join(lines)
        count = len(self.next_phases) + 1
        parts = ["\n".join(lines), *map(str, self.next_phases)]
        return "\n".join(f"phase {number} of {count}: {part}" for number, part in enumerate(parts, 1))
