"""Figures of both sides of a diff."""

import numpy as np
import pytest

from tessera.core.errors.catalog import BadExpectation
from tessera.viz.diffs import deltas
from tessera.viz.diffs.model import Verdict
from tessera.viz.diffs.view import diff
from tessera.viz.stage_alignment.changes import DiffLine
from tests.viz.diffs import kernels


def test_two_tile_sizes_on_the_cpu():
    found = {one.name: one for one in diff(kernels.scale, kernels.scale_and_add).data.figures}
    code, all_of_them = found["code"], found["instructions"]
    assert isinstance(code.before, int)
    assert code.before > 0
    assert all_of_them.before is not None
    assert all_of_them.before >= (found["loads"].before or 0) + (found["stores"].before or 0) > 0
    assert found["operations shown"].before is not None
    assert "registers of a lane" not in found


def test_arguments_measure_both_kernels_on_copies():
    x, y = np.arange(4096, dtype=np.float32), np.zeros(4096, np.float32)
    data = diff(kernels.scale, kernels.scale_and_add, args=(x, y)).data
    found = {one.name: one for one in data.figures}
    for name in ("time of a launch", "time the cost model expects"):
        assert all(value is not None and value > 0 for value in (found[name].before, found[name].after))
    assert data.verdict is not None
    assert (data.verdict.text, data.verdict.level) == ("4,096 of 4,096 differ", "bad")
    assert data.verdict.details[0].startswith("y: 4,096 of 4,096 differ, by at most 1")
    assert not y.any()
    again = diff(kernels.scale, kernels.scale.variant(), args=(x, y)).data
    assert again.verdict == Verdict("same bits", "good", ("y: the same to the bit",))


def test_results_are_compared_with_what_is_expected():
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    kernels.scale(x, y)
    scaled, y = y.copy(), np.zeros_like(y)
    verdict = diff(kernels.scale, kernels.scale_and_add, args=(x, y), expect=scaled).data.verdict
    assert verdict is not None
    assert (verdict.text, verdict.level) == ("wrong after", "bad")
    assert verdict.details[0] == "before: as expected"
    assert verdict.details[1].startswith("after: y: 64 of 64 are not as expected, the first is y[0] = ")
    right = diff(kernels.scale, kernels.scale.variant(), args=(x, y), expect={"y": scaled}).data.verdict
    assert right is not None
    assert (right.text, right.level) == ("as expected, same bits", "good")
    with pytest.raises(BadExpectation, match="needs kernels and the arguments"):
        diff(kernels.scale, kernels.scale_and_add, expect=scaled)


def test_a_compilation_alone_is_not_measured():
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    data = diff(kernels.scale.compile(x, y, target="cpu"), kernels.scale, args=(x, y)).data
    assert data.figures[0].told_before == "not measured: a side is no kernel"


def test_one_compilation_has_one_machine_code():
    compiled = kernels.scale.compile(target="cpu")
    assert [one.name for one in diff((compiled, "tile", "to-tile"), compiled).data.figures] == ["operations shown"]


def test_instructions_stand_on_the_first_line_of_their_operation():
    lines = [DiffLine("scf.for {", (), (5, 3)), DiffLine("load", (), (7,)), DiffLine("}", (), (5,)), DiffLine("")]
    assert deltas.counts_of_lines(lines, {3: 1, 5: 10, 9: 4}) == [11, 0, 0, 0]


def test_instructions_of_operations_are_those_of_the_assembly():
    compiled = kernels.scale.compile(target="cpu")
    counts = deltas.instructions_of_operations(compiled)
    with_numbers = [record for record in compiled.stage("asm").records if record.numbers]
    assert sum(counts.values()) == len(with_numbers) > 0
    tile = compiled.stage("tile")
    assert set(counts) <= {number for record in compiled.stages[0].records for number in record.numbers}
    assert any(counts[op] for line in tile.lines for op in line.ops)
