"""Arguments made up from annotations."""

import pytest

from tessera.api.source_module import compile_source
from tessera.core.base import dtypes
from tessera.core.errors.catalog import UnknownLevel
from tessera.core.program.arguments import ArrayArgument, ScalarArgument
from tessera.kernels.example_arguments import example_arguments


def arguments_of(parameters: str, *, aligned: bool = False):
    kernel = compile_source(f"@kernel\ndef f({parameters}):\n    pass\n").f
    return example_arguments(kernel.source, {}, aligned=aligned)


def test_extents():
    x, y, k = arguments_of("x: f32[n, 4], y: mut bf16[m, n], k: i32")
    assert x == ArrayArgument(dtypes.f32, (1021, 4))
    assert y == ArrayArgument(dtypes.bf16, (1023, 1021))
    assert k == ScalarArgument(dtypes.i32)


def test_rows_end_well_where_their_length_allows_it():
    found = arguments_of("x: f32[n], y: f32[n, 4], z: f32[n, 3], w: f16[n, 4]", aligned=True)
    arrays = [argument for argument in found if isinstance(argument, ArrayArgument)]
    assert [array.aligned for array in arrays] == [True, True, False, False]


@pytest.mark.parametrize("parameter", ["x", "x: tensor[f32]", "x: tensor", "x: f32[K/2]"])
def test_not_enough(parameter: str):
    with pytest.raises(UnknownLevel, match="x's annotation alone does not say") as caught:
        arguments_of(parameter)
    assert "^" in str(caught.value)
