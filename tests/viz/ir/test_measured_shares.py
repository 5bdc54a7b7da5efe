"""Measured shares of time beside the source."""

from tessera.profiling.line_shares import LineShares
from tessera.viz.ir.details import Cell
from tessera.viz.ir.measured_shares import instruction_column, measured_column, sampled_column
from tessera.viz.ir.panes import Pane, ViewLine

PANE = Pane(
    "tile",
    "",
    (
        ViewLine("func @k() {", (1,)),
        ViewLine("  %n = tessera.dim n : i64", (2,)),
        ViewLine("  %a = tessera.load %x[0:+8]", (3,)),
        ViewLine("  %b = tessera.load %y[0:+8]", (4,)),
        ViewLine("  %c = tessera.dot %a, %b", (5,)),
        ViewLine("  %d = arith.addf %c, %c", (6,)),
        ViewLine("  tessera.store %d, %z[0:+8]", (6,)),
    ),
)


def test_a_line_has_the_share_of_its_phases_and_says_who_shares_it():
    column = measured_column(PANE, 1, 7, {"load": 0.25, "compute": 0.6, "store": 0.15})
    assert column is not None
    cells = [column.of_line(line) for line in range(7)]
    assert [cell.text if cell is not None else "" for cell in cells] == ["", "", "25%", "25%", "60%", "75%", ""]
    assert cells[2].told == "waiting for loads took 25.0% of the tiles' time, in common with 1 other line"
    assert cells[5].told == (
        "computing took 60.0% of the tiles' time, in common with 1 other line; storing took 15.0% of the tiles' time"
    )
    assert cells[4].bar == 0.6


def test_without_recorded_phases_nothing_is_shown():
    assert measured_column(PANE, 1, 7, {}) is None


def test_sampled_lines_have_the_share_of_their_instructions():
    column = sampled_column(3, 4, LineShares({4: 0.25, 6: 0.625}, 0.125, 2000, {6: 0.5}))
    cells = [column.of_line(line) for line in range(4)]
    assert [cell.text if cell is not None else "" for cell in cells] == ["", "25%", "", "62%"]
    assert cells[1].told == "25.0% of 2,000 samples of the kernel's instructions, one each 0.25 ms in each thread"
    assert cells[3].told.endswith("; 50.0% is its part of instructions that it has in common with other lines")
    assert cells[3].bar == 0.625
    assert column.title == "measured share of time; 12% in instructions of the compiler's own"
    assert sampled_column(1, 1, LineShares({1: 1.0}, 0.0, 50, {})).title == "measured share of time"


def test_instructions_have_their_samples():
    assembly = ("entry:", "  vmulps %zmm0, %zmm1", "  retq")
    pane = Pane("asm", "", tuple(ViewLine(text) for text in assembly))
    shares = LineShares({4: 1.0}, 0.0, 2000, {}, assembly, (0, 1500, 500))
    column = instruction_column(pane, shares)
    assert column is not None
    assert [column.of_line(line) for line in range(3)] == [
        None,
        Cell("75.0%", "1,500 of 2,000 samples of the kernel's instructions, one each 0.25 ms in each thread", 1.0),
        Cell("25.0%", "500 of 2,000 samples of the kernel's instructions, one each 0.25 ms in each thread", 0.333),
    ]
    assert instruction_column(Pane("asm", "", pane.lines[1:]), shares) is None, "another compilation"
