"""What is known of the numbers a position is made of."""

from support import programs
from support.tile_cases import row_of, shift
from tessera.core.base.dtypes import f32
from tessera.core.program.program import Program
from tessera.core.targets import TARGETS
from tessera.core.tile.dialect import shared_context
from tessera.lowering.analysis.divisibility import multiple_of
from tessera.lowering.base.ir_walk import kernel, operations
from tessera.lowering.base.passes import run_passes
from tessera.lowering.cuda_tile.access_bounds import AccessBounds
from tessera.lowering.driver.pipelines import tile_passes
from tessera.lowering.tile.to_tile import to_tile


def facts(program: Program, *extents: tuple[int | str, ...]) -> list[list[tuple[int, int | None, bool]]]:
    """For each access: of each start what it is a multiple of, its least value, and whether it begins inside."""
    with shared_context():
        module = to_tile(program)
        run_passes(tile_passes(TARGETS["cuda_tile"]), module, None)
        function = kernel(module)
        positions = AccessBounds(function, program.group)
        found: list[list[tuple[int, int | None, bool]]] = []
        first = {"tessera.load": 1, "tessera.store": 2, "tessera.masked_store": 3}
        for op, shape in zip(operations(function, *first), extents, strict=True):
            starts = list(op.operands)[first[op.name] :]
            found.append(
                [
                    (multiple_of(v), positions.least(op, v), positions.begins_inside(op, v, n))
                    for v, n in zip(starts, shape, strict=True)
                ]
            )
        return found


def test_ranges_that_groups_were_made_from():
    a, b, c = facts(programs.matmul(64, 32, 16), ("M", "K"), ("K", "N"), ("M", "N"))
    assert a == [(64, 0, True), (16, 0, True)]
    assert b == [(16, 0, True), (32, 0, True)]
    assert c == [(64, 0, True), (32, 0, True)]


def test_another_extent_is_not_proven():
    a, *_ = facts(programs.matmul(64, 32, 16), ("N", "M"), ("K", "N"), ("M", "N"))
    assert [inside for *_, inside in a] == [False, False]


def test_one_range():
    load, store = facts(programs.tile_copy(128), ("n",), ("n",))
    assert load == store == [(128, 0, True)]


def test_a_groups_number_may_be_past_the_end():
    load, store = facts(row_of(f32), ("m", 24), ("m", 24))
    assert load == store == [(1, 0, False), (0, 0, True)]


def test_constants():
    loads = facts(shift(), *[("n",)] * 6)
    assert loads[0] == [(1, 1, False)]
    assert loads[2] == [(2, 2, False)]
    assert loads[4] == [(3, -3, False)]
