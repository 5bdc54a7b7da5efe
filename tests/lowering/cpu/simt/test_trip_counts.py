"""How long loops take."""

import pytest

from tessera.core.mlir import ir
from tessera.core.tile.dialect import shared_context
from tessera.lowering.analysis.divergence import DivergenceAnalysis
from tessera.lowering.analysis.ir_tree import read_function
from tessera.lowering.cpu.simt.trip_counts import is_bounded, is_short, work


def nest(*trips: int | None) -> tuple[int | None, bool, bool]:
    """Operations of loops of these lengths (None: not known) around one addition, whether they are few, and bounded."""
    lines = [
        '%n = "tessera.dim"() {symbol = "n"} : () -> i64',
        "%c0 = arith.constant 0 : i64",
        "%c1 = arith.constant 1 : i64",
    ]
    lines += [f"%t{number} = arith.constant {trip} : i64" for number, trip in enumerate(trips) if trip is not None]
    for number, trip in enumerate(trips):
        upper = "%n" if trip is None else f"%t{number}"
        lines.append(f"scf.for %k{number} = %c0 to {upper} step %c1 : i64 {{")
    lines += ["%v = arith.addi %n, %n : i64", *["}"] * len(trips), "return"]
    with shared_context():
        module = ir.Module.parse("func.func @f() {" + "\n".join(lines) + "}")
        tree = read_function(module.body.operations[0].operation)
        shapes = DivergenceAnalysis(tree, (32,))
        return work(tree.nodes[-1], shapes), is_short(tree.nodes[-1], shapes), is_bounded(tree.nodes, shapes)


@pytest.mark.parametrize(
    ("trips", "operations", "short", "bounded"),
    [((10,), 20, True, True), ((100, 50), 100 * (1 + 100), True, False), ((20, 50), 20 * (1 + 100), True, True),
     ((1000, 1000), 1000 * 2001, False, False), ((2_000_000_000,), 4_000_000_000, False, False),
     ((None,), None, False, False), ((4, None), None, False, False), ((0,), 0, True, True)],
)  # fmt: skip
def test_work(trips: tuple[int | None, ...], operations: int | None, short: bool, bounded: bool):
    assert nest(*trips) == (operations, short, bounded)
