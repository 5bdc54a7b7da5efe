"""Columns beside SASS: control codes and live registers, and how much of it is linked to the user's text."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.artifact import Artifact
from tessera.core.base.plurals import counted
from tessera.core.base.source import Span
from tessera.lowering.base.sass import has_machine_code
from tessera.lowering.base.sass_details import Address, control_code, instruction_details
from tessera.viz.ir.details import Cell, Column, make_column
from tessera.viz.ir.panes import Pane

_SECTION: Final = re.compile(r"^\.text\.([\w$.]+):")
_INSTRUCTION: Final = re.compile(r"^/\*([0-9a-f]{4,})\*/")
_FILES: Final = {
    "GPR": "general register", "PRED": "predicate", "UGPR": "uniform register", "UPRED": "uniform predicate",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SassMapping:
    """How the instructions of a kernel are linked.

    operations: those that stand for operations of the kernel, or come from a line inside of it
    own: those that the compiler made for the kernel as a whole: its frame, who does which tile, how warps take turns
    unknown: those that nothing is known of
    """

    operations: int
    own: int
    unknown: int

    @property
    def total(self) -> int:
        """All instructions."""
        return self.operations + self.own + self.unknown

    @property
    def known(self) -> float:
        """The share that is linked or marked as the compiler's own."""
        return (self.operations + self.own) / self.total if self.total else 1.0

    @property
    def text(self) -> str:
        """Return it in words."""
        if not self.total:
            return "no instructions"
        shares = f"{self.operations / self.total:.1%} from your lines, {self.own / self.total:.1%} the compiler's own"
        unknown = f", {self.unknown / self.total:.1%} unknown" if self.unknown else ""
        return f"{counted(self.total, 'instruction')}: {shares}{unknown}"


def sass_mapping(pane: Pane, kernel: Span) -> SassMapping:
    """Count how the instructions of a pane of SASS are linked; `kernel` is where the kernel is defined."""
    operations = own = unknown = 0
    for line in pane.lines:
        if not _INSTRUCTION.match(line.text):
            continue
        if line.ops or any(span != kernel for span in line.spans):
            operations += 1
        elif line.spans:
            own += 1
        else:
            unknown += 1
    return SassMapping(operations, own, unknown)


def machine_columns(pane: Pane, artifact: Artifact) -> tuple[Column, ...]:
    """Return the columns of a pane of SASS; none where there is no disassembler."""
    if not has_machine_code(artifact):
        return ()
    known = instruction_details(artifact.code)
    found = [known.get(address) if address is not None else None for address in addresses(pane)]
    if not any(found):
        return ()
    most = max((each.live.get("GPR", 0) for each in found if each is not None), default=1) or 1
    controls: list[Cell | None] = []
    lives: list[Cell | None] = []
    for each in found:
        if each is None:
            controls.append(None)
            lives.append(None)
            continue
        code = control_code(each.encoding)
        controls.append(Cell(code.text, code.words))
        live = each.live.get("GPR", 0)
        told = ", ".join(counted(count, _FILES.get(name, name)) for name, count in each.live.items())
        lives.append(Cell(str(live), told or "none", round(live / most, 3)))
    return (
        make_column("live", "live registers", 5, lives),
        make_column("control", "control code", 20, controls),
    )


def addresses(pane: Pane) -> Sequence[Address | None]:
    """Return the address of the instruction on each line of a pane of SASS."""
    return tuple(_addresses(pane))


def _addresses(pane: Pane) -> Iterator[Address | None]:
    section = ""
    for line in pane.lines:
        if match := _SECTION.match(line.text):
            section = match[1]
        found = _INSTRUCTION.match(line.text)
        yield (section, int(found[1], 16)) if found is not None else None
