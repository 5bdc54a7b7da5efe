"""The sides of a diff, and how they are related."""

import pytest

from support.operator_graphs import QKV, ROWS, attention, classify
from tessera.core.errors.catalog import NothingToShow, UnknownLevel
from tessera.core.program.arguments import ArrayArgument
from tessera.session.compiled import Compiled
from tessera.viz.diffs.sides import related, subject_of
from tessera.viz.stage_alignment.align import Related
from tests.viz.diffs import kernels


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    return kernels.product.compile(*kernels.arguments(), target="cpu")


def test_what_a_side_can_be(compiled: Compiled):
    whole = subject_of(compiled)
    assert whole.choices[whole.chosen] == ("tile", "")
    assert whole.choices[0] == ("tile", "to-tile")
    one = subject_of((compiled, "tile", "tile-simplify"))
    assert one.choices[one.chosen] == ("tile", "tile-simplify")
    level = subject_of((compiled, "asm"))
    assert level.choices[level.chosen] == ("asm", "")
    stage = subject_of(compiled.stage("tile", "tile-simplify"))
    assert stage.choices == (("tile", "tile-simplify"),)
    assert stage.side(0).label == f"product · {compiled.target} · tile after tile-simplify"


def test_a_kernel_is_compiled_for_arguments_where_it_was_not_called():
    given = subject_of(kernels.product.variant(BK=64), kernels.arguments())
    assert given.compiled is not None
    shapes = [argument.shape for argument in given.arguments if isinstance(argument, ArrayArgument)]
    assert shapes == [(128, 64), (64, 128), (128, 128)]
    assert "BK=64" in given.side(given.chosen).label
    assert subject_of(kernels.scale).name == "scale"  # its annotations say enough


def test_what_a_side_cannot_be(compiled: Compiled):
    with pytest.raises(NothingToShow, match="an object of type int is none"):
        subject_of(3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(NothingToShow, match="is \\(kernel, level\\) or"):
        subject_of((compiled, 3))  # pyright: ignore[reportArgumentType]
    with pytest.raises(UnknownLevel, match="'ptx' is no level of product"):
        _ = subject_of((compiled, "ptx")).chosen
    with pytest.raises(UnknownLevel, match="has no stage 'x'"):
        _ = subject_of((compiled, "tile", "x")).chosen


def test_how_stages_are_related(compiled: Compiled):
    one, other = subject_of(compiled), subject_of(kernels.product.variant(BK=64), kernels.arguments())
    assert related(one, 0, one, 1) is Related.COMPILATION
    assert related(one, 0, other, 0) is Related.PROGRAM
    scale = subject_of(kernels.scale)
    assert related(one, 0, scale, 0) is Related.NOT
    before, after = (subject_of(compiled.stage("tile", name)) for name in ("to-tile", "tile-simplify"))
    assert related(before, 0, after, 0) is Related.COMPILATION


def test_functions_of_operators_are_sides():
    one = subject_of(attention, QKV)
    assert (one.name, one.choices[one.chosen]) == ("attention", ("schedule", "schedule-fuse"))
    assert one.side(0).label == "attention · graph after capture"
    two = subject_of((attention, "graph"), QKV)
    assert two.choices[two.chosen] == ("graph", "graph-simplify")
    assert related(one, 0, two, 1) is Related.COMPILATION
    assert related(one, 2, subject_of(classify, ROWS), 2) is Related.NOT
    with pytest.raises(UnknownLevel, match="'tile' is no level of attention"):
        _ = subject_of((attention, "tile"), QKV).chosen
