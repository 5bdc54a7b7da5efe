"""The measured share of time beside the lines of the source.

On the CPU it is that of the samples of a line's instructions.  On GPUs tiles record how long they waited for loads,
computed and stored, not how long each instruction took: there a line shows the share of the phases that its operations
belong to, and says with how many lines it has them in common.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from tessera.core.base.plurals import counted
from tessera.profiling.line_shares import LineShares
from tessera.viz.ir.details import Cell, Column, make_column
from tessera.viz.ir.panes import Pane

_OPERATION: Final = re.compile(r"^\s*(?:%[^=]*=\s*)?([a-z]\w*\.\w+)")
_PHASE: Final = {
    "tessera.load": "load",
    "tessera.copy": "load",
    "tessera.store": "store",
    "tessera.masked_store": "store",
}
_WORDS: Final = {"load": "waiting for loads", "compute": "computing", "store": "storing"}
_SHOWN: Final = 0.005
_NOT_WORK: Final = ("arith.constant", "tessera.dim", "tessera.id", "func.func", "func.return")


def measured_column(pane: Pane, first_line: int, lines: int, phases: Mapping[str, float]) -> Column | None:
    """Return the column beside the source, of `lines` lines from `first_line` on; None where no phases were recorded.

    pane: the last stage of Tile IR; phases: of the tiles' time, the share of each (`Profile.phase_share`)
    """
    if not phases:
        return None
    having = _phases_of_lines(pane, phases)
    common = {phase: sum(phase in mine for mine in having.values()) for phase in phases}
    cells = [_cell(having.get(number, ()), phases, common) for number in range(first_line, first_line + lines)]
    return make_column("measured", "measured share of time", 6, cells)


def sampled_column(first_line: int, lines: int, shares: LineShares) -> Column:
    """Return the column beside the source, of `lines` lines from `first_line` on: the share of samples of each."""

    def cell(number: int) -> Cell | None:
        share, common = shares.lines.get(number), shares.common.get(number, 0.0)
        if share is None:
            return None
        told = f"{share:.1%} of {_samples(shares)}"
        if common:
            told += f"; {common:.1%} is its part of instructions that it has in common with other lines"
        return Cell(f"{share:.0%}", told, round(share, 3))

    cells = [cell(number) for number in range(first_line, first_line + lines)]
    remark = (
        f"; {shares.unattributed:.0%} in instructions of the compiler's own" if shares.unattributed >= _SHOWN else ""
    )
    return make_column("measured", f"measured share of time{remark}", 6, cells)


def instruction_column(pane: Pane, shares: LineShares) -> Column | None:
    """Return the column beside a pane of assembly, the share of samples of each line; None for other assembly.

    Its bars are relative to the line with the most samples.
    """
    if not any(shares.counts) or tuple(line.text for line in pane.lines) != shares.assembly:
        return None
    most = max(shares.counts)

    def cell(count: int) -> Cell:
        return Cell(f"{count / shares.samples:.1%}", f"{count:,} of {_samples(shares)}", round(count / most, 3))

    cells = [cell(count) if count else None for count in shares.counts]
    return make_column("samples", "share of time of the instruction", 7, cells)


def _samples(shares: LineShares) -> str:
    return f"{shares.samples:,} samples of the kernel's instructions, one each 0.25 ms in each thread"


def _phases_of_lines(pane: Pane, phases: Mapping[str, float]) -> dict[int, tuple[str, ...]]:
    """Return the phases that each line of the source has operations in."""
    phases_of: dict[int, set[str]] = defaultdict(set)
    for line in pane.lines:
        name = _OPERATION.match(line.text)
        if name is None or name[1] in _NOT_WORK or name[1].startswith("scf."):
            continue
        phase = _PHASE.get(name[1], "compute")
        for source in line.sources if phase in phases else ():
            phases_of[source].add(phase)
    return {source: tuple(phase for phase in phases if phase in members) for source, members in phases_of.items()}


def _cell(mine: Sequence[str], phases: Mapping[str, float], common: Mapping[str, int]) -> Cell | None:
    if not mine:
        return None
    share = sum(phases[phase] for phase in mine)
    told = "; ".join(
        f"{_WORDS.get(phase, phase)} took {phases[phase]:.1%} of the tiles' time"
        + (f", in common with {counted(common[phase] - 1, 'other line')}" if common[phase] > 1 else "")
        for phase in mine
    )
    return Cell(f"{share:.0%}", told, round(min(1.0, share), 3))
