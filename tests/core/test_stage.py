"""Stages from the Program to machine code: operations, texts and facts fit together."""

from itertools import pairwise

import pytest

from support.mlir import mlir_context  # noqa: F401  # pyright: ignore[reportUnusedImport] - a fixture
from support.programs import matmul, saxpy
from tessera.core.program_records import records_of_program
from tessera.core.stage import PROGRAM, Stage, stages_of
from tessera.core.stage_diff import KEPT, diff
from tessera.lowering.driver.compile import compile_program
from tessera.lowering.service.server import host_target


@pytest.fixture(scope="module")
def stages() -> list[Stage]:
    program = matmul()
    compilation = compile_program(program, host_target(), observe=True)
    return list(stages_of(records_of_program(program), compilation.listings, compilation.passes))


def test_the_order_and_the_passes(stages: list[Stage]):
    assert [stage.level for stage in stages if not stage.name] == [PROGRAM, "tile", "target", "llvm", "asm"]
    assert stages[0].records == records_of_program(matmul())
    assert (stages[0].lines, stages[0].ran) == ((), None)
    passes = [stage for stage in stages if stage.name]
    assert [stage.ran.name for stage in passes] == [stage.name for stage in passes]
    assert passes[0].name == "to-tile"
    (target,) = [stage for stage in stages if stage.level == "target"]
    assert target.ran.name == "generate-cpu"


def test_identities_are_unique_and_come_from_the_stage_before(stages: list[Stage]):
    known: set[str] = set()
    for stage in stages:
        ids = [record.id for record in stage.records]
        assert len(ids) == len(set(ids)) > 0
        if stage.level in (PROGRAM, "tile"):
            assert {origin for record in stage.records for origin in record.origin} <= known
            known = set(ids)
        else:
            assert {origin for record in stage.records for origin in record.origin} <= known


def test_every_line_leads_to_its_operation(stages: list[Stage]):
    for stage in stages[1:]:
        on_lines = {line.record for line in stage.lines} - {""}
        assert on_lines <= {record.id for record in stage.records}
        assert [line.text for line in stage.lines] == [line.text for line in stage.listing.lines]
        if stage.level != "tile":  # where constants stand in the lines of others
            assert on_lines == {record.id for record in stage.records}


def test_operations_keep_their_identities_from_the_program_to_the_last_pass(stages: list[Stage]):
    tiles = [stage for stage in stages if stage.level == "tile"]
    loads = {record.id for record in stages[0].records if record.name == "load"}
    for stage in tiles:
        assert {record.id for record in stage.records if record.name == "tessera.load"} == loads
    assert {change.kind for change in diff(tiles[-2].records, tiles[-1].records)} == {KEPT}


def test_changed_says_whether_the_operations_differ(stages: list[Stage]):
    tiles = [stage for stage in stages if stage.level == "tile"]
    for before, after in pairwise(tiles):
        if after.name:
            same = {change.kind for change in diff(before.records, after.records)} == {KEPT}
            assert after.ran.changed or same


def test_options_of_passes_are_facts():
    compilation = compile_program(saxpy(), host_target(), observe=True)
    packing = next(one for one in compilation.passes if one.name == "tile-pack-floats")
    assert packing.options == {"products": False}
