"""Arguments as types."""

import ml_dtypes
import numpy as np
import pytest

from tessera import dist
from tessera.core.base import dtypes
from tessera.core.base.source import Span
from tessera.core.errors.catalog import ArgumentType, NotAnArray
from tessera.core.program.arguments import ArrayArgument, ScalarArgument
from tessera.kernels.signature import describe_arguments, plain, shape_class

SPAN = Span("cell.py", 3, 1, 3, 2)


def describe(*values: object):
    return describe_arguments(values, tuple("abcdefgh"[: len(values)]), (SPAN,) * len(values))


@pytest.mark.parametrize(
    ("value", "argument"),
    [
        (np.zeros((2, 3), np.float32), ArrayArgument(dtypes.f32, (2, 3))),
        (np.zeros((4, 6), ml_dtypes.bfloat16)[::2, ::3], ArrayArgument(dtypes.bf16, (2, 2), contiguous=False)),
        (memoryview(bytearray(5)), ArrayArgument(dtypes.u8, (5,))),
        (np.zeros(2, bool), ArrayArgument(dtypes.boolean, (2,))),
        (2.0, ScalarArgument(dtypes.f32)),
        (2, ScalarArgument(dtypes.i64)),
        (True, ScalarArgument(dtypes.boolean)),
        (np.float64(2), ScalarArgument(dtypes.f64)),
        (np.float16(2), ScalarArgument(dtypes.f16)),
        (ml_dtypes.bfloat16(2), ScalarArgument(dtypes.bf16)),
        (np.uint8(2), ScalarArgument(dtypes.u8)),
    ],
)
def test_types(value: object, argument: object):
    assert describe(value).arguments == (argument,)


def test_keys_leave_extents_and_values_out():
    first = describe(np.zeros(3, np.float32), 1.0)
    assert first.key == describe(np.zeros(9, np.float32), 7.0).key
    assert first.types == (object, float)
    for other in (
        describe(np.zeros(3, np.float64), 1.0),
        describe(np.zeros((3, 1), np.float32), 1.0),
        describe(np.zeros(6, np.float32)[::2], 1.0),
        describe(np.zeros(3, np.float32), 1),
        describe(np.zeros(3, np.float32), np.float64(1)),
    ):
        assert other.key != first.key


def test_shape_classes_are_powers_of_two():
    values = (np.zeros((100, 128)), 1.0, np.zeros((0, 129, 1)))
    assert describe(*values).shape_class == ((128, 128), (1, 256, 1))
    assert shape_class(values) == describe(*values).shape_class


def test_refusals():
    with pytest.raises(NotAnArray, match="b is a list; a kernel takes arrays and numbers") as caught:
        describe(1, [2.0])
    assert caught.value.span == SPAN
    with pytest.raises(NotAnArray, match="a is 'x'"):
        describe("x")
    with pytest.raises(NotAnArray, match="a is None"):
        describe(None)
    with pytest.raises(ArgumentType, match="a holds complex64"):
        describe(np.zeros(2, np.complex64))


def test_plain():
    assert type(plain(np.array(2, np.int8))) is np.int8
    x = np.zeros(2)
    assert plain(x) is x
    assert plain(3) == 3


@pytest.mark.parametrize("cut", ["tp", None])
def test_arrays_on_a_mesh_name_index_launch(cut: str | None):
    x = dist.tensor((4,), dist.Block(cut), dist.Mesh(("dp", "tp"), range(4), (2, 2)), name="x")
    kind = "f32[4@tp]" if cut else "f32[4]"
    with pytest.raises(NotAnArray, match="which lies on a mesh") as raised:
        describe(x)
    assert raised.value.message == f"a is {kind}, which lies on a mesh, and a kernel that is called runs on one device"
    assert raised.value.hint == f'launch it on the shards: tessera.index_launch(axis="{cut or "dp"}")(kernel)(...)'
    assert raised.value.span == SPAN
