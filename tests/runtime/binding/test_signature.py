"""Binding: what the fast path takes, what the slow one explains."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.artifacts import SPAN, X_SPAN, Y_SPAN, array, number, scale_artifact
from tessera.core.artifact import Artifact, Binding
from tessera.core.base import dtypes
from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import (
    ArgumentCount,
    ArgumentType,
    ExtentMismatch,
    NotAnArray,
    NotDivisible,
    OverlappingArrays,
    ReadOnlyArray,
    ScalarRange,
    WrongDevice,
)
from tessera.runtime.arrays.host import DeviceView
from tessera.runtime.binding.signature import Binder, scalar_value
from tessera.runtime.memory.device_arrays import standing_for

X = np.arange(8, dtype=np.float32)
Y = np.zeros(8, np.float32)


def artifact_of(*bindings: Binding, symbols: tuple[tuple[str, int, int, int], ...] = ()) -> Artifact:
    return scale_artifact(bindings=bindings, symbols=symbols)


def test_facts_are_addresses_extents_and_numbers():
    binder = Binder(scale_artifact())
    assert binder.facts((X, Y, 2.0)) == [X.ctypes.data, 8, Y.ctypes.data, 8, 2.0]
    assert [binder.index_of_address(i) for i in range(3)] == [0, 2, 4]
    assert binder.index_of_extent(1, 0) == 3
    assert binder.symbol("n") == (1, 1)


def test_facts_of_strided_arrays():
    binder = Binder(artifact_of(array("x", "n", "m", contiguous=False)))
    whole = np.zeros((6, 8), np.float32)
    view = whole[::2, 1::3]
    assert binder.facts((view,)) == [view.ctypes.data, 3, 3, 16, 3]
    assert binder.index_of_stride(0, 1) == 4


@pytest.mark.parametrize(
    "arguments",
    [
        (X, Y[:5], 2.0),
        (X.astype(np.float64), Y, 2.0),
        (X[::2], Y[::2], 2.0),
        (X.reshape(2, 4), Y, 2.0),
        (X, Y, 2),
        (X, Y, np.float32(2)),
        (list(X), Y, 2.0),
        (X.data, Y, 2.0),
    ],
)
def test_anything_unusual_has_no_facts(arguments: tuple[object, ...]):
    assert Binder(scale_artifact()).facts(arguments) is None


def test_check_converts_what_can_be():
    binder = Binder(scale_artifact())
    x, y, alpha = binder.check((X.data, Y, np.float64(0.5)))
    assert binder.facts((x, y, alpha)) is not None
    assert y is Y
    assert type(alpha) is float


def test_check_unifies_equal_dtypes():
    binder = Binder(artifact_of(array("x", "n", dtype=dtypes.i64)))
    other = np.zeros(3, np.longlong)  # the same numbers, another dtype object on Linux
    (view,) = binder.check((other,))
    assert binder.facts((view,)) == [other.ctypes.data, 3]


def test_scalars_keep_the_type_they_were_specialised_for():
    binder = Binder(artifact_of(number("k", dtypes.i64)), [np.int32])
    assert binder.facts((np.int32(3),)) == [3]
    assert binder.facts((3,)) is None
    assert Binder(artifact_of(number("a")), [int]).facts((3,)) == [3]


def test_bfloat16_scalars_are_bits():
    binder = Binder(artifact_of(number("a", dtypes.bf16)))
    assert binder.facts((1.5,)) == [int(np.array(1.5, ml_dtypes.bfloat16).view(np.uint16))]
    for bits in range(0, 1 << 16, 7):
        value = float(np.array(bits, np.uint16).view(ml_dtypes.bfloat16))
        assert binder.facts((value,)) == [bits] or math.isnan(value), bits
    (nan,) = binder.facts((math.nan,)) or [0]
    assert nan == 0x7FC0


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_bfloat16_scalars_round_once(sign: float):
    binder = Binder(artifact_of(number("a", dtypes.bf16)))
    expected = {1 + 2**-8: 0x3F80, 1 + 2**-8 + 2**-40: 0x3F81, 1 + 3 * 2**-8 - 2**-40: 0x3F81, 1 + 3 * 2**-8: 0x3F82,
                2**-133 * 0.5: 0, 2**-134 + 2**-180: 1, 1e-300: 0, math.inf: 0x7F80}  # fmt: skip
    for value, bits in expected.items():
        assert binder.facts((sign * value,)) == [bits | (0x8000 if sign < 0 else 0)], value


@pytest.mark.parametrize("value", [1e300, 3.4e38, -1e39, np.float64(1e300), 2**63 * 2**66, 2**1030])
def test_bfloat16_scalars_that_are_too_large(value: float):
    artifact = artifact_of(number("a", dtypes.bf16))
    assert Binder(artifact, [type(value)]).facts((value,)) is None
    assert "too large for bf16" in raises(ScalarRange, (value,), artifact).message


def raises(kind: type[TesseraError], arguments: tuple[object, ...], artifact: Artifact | None = None) -> TesseraError:
    binder = Binder(artifact or scale_artifact())
    with pytest.raises(kind) as caught:
        binder.check(arguments)
    assert caught.value.source is not None
    return caught.value


def test_inconsistent_extents_name_both():
    error = raises(ExtentMismatch, (X, Y[:5], 2.0))
    assert error.message == "x has n = 8 but y has n = 5"
    assert error.span == Y_SPAN
    assert error.notes[0].span == X_SPAN
    assert "^^^^^^^^^^^^^" in str(error)


def test_extents_fixed_when_compiled():
    artifact = artifact_of(array("x", 4, "m"), symbols=(("m", 0, 1, 1),))
    assert Binder(artifact).facts((np.zeros((4, 9), np.float32),)) is not None
    error = raises(ExtentMismatch, (np.zeros((5, 9), np.float32),), artifact)
    assert error.message == "x has 5 elements along axis 0, this kernel is for 4"


def test_divided_extents():
    artifact = artifact_of(
        array("x", "K"), array("y", "K/2"), symbols=(("K", 0, 0, 1), ("K", 1, 0, 2), ("K/2", 1, 0, 1))
    )
    binder = Binder(artifact)
    assert binder.facts((np.zeros(6, np.float32), np.zeros(3, np.float32))) is not None
    assert binder.facts((np.zeros(6, np.float32), np.zeros(6, np.float32))) is None
    error = raises(NotDivisible, (np.zeros(7, np.float32), np.zeros(3, np.float32)), artifact)
    assert error.message == "K = 7 of x does not divide by 2, as y needs"
    error = raises(ExtentMismatch, (np.zeros(6, np.float32), np.zeros(4, np.float32)), artifact)
    assert error.message == "x has K = 6 but y has K = 8"


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ((X, Y), ArgumentCount, "scale takes 3 arguments (x, y, alpha), got 2"),
        ((X, Y.astype(np.int32), 2.0), ArgumentType, "y holds int32, it must hold f32"),
        ((X, Y.reshape(2, 4), 2.0), ArgumentType, "y must have 1 axis, it has shape (2, 4)"),
        ((X[::2], Y[:4], 2.0), ArgumentType, "x has gaps or another order; it must be C-contiguous"),
        (([1.0], Y, 2.0), NotAnArray, "x needs an array, got a list"),
        ((X, Y, "two"), ArgumentType, "alpha is a number (f32), got 'two'"),
        ((X, Y, None), ArgumentType, "alpha is a number (f32), got None"),
        ((X, Y, X), ArgumentType, "alpha is a number (f32), got a value of type ndarray"),
        ((X, Y, 1e39), ScalarRange, "alpha = 1e+39 is too large for f32"),
        ((X, Y, 10**400), ScalarRange, "alpha is too large for f32"),
    ],
)
def test_mistakes(arguments: tuple[object, ...], kind: type[TesseraError], message: str):
    assert raises(kind, arguments).message == message


def test_read_only_output():
    frozen = np.zeros(8, np.float32)
    frozen.flags.writeable = False
    assert Binder(scale_artifact()).facts((X, frozen, 1.0)) is None
    assert raises(ReadOnlyArray, (X, frozen, 1.0)).span == Y_SPAN


def test_in_place_is_allowed():
    z = np.ones(8, np.float32)
    assert Binder(scale_artifact()).facts((z, z, 2.0)) is not None
    assert Binder(scale_artifact()).check((z, z[:], 2.0))


def test_shifted_views_are_refused():
    z = np.ones(9, np.float32)
    assert Binder(scale_artifact()).facts((z[1:], z[:-1], 2.0)) is None
    error = raises(OverlappingArrays, (z[1:], z[:-1], 2.0))
    assert error.message == "y is written, and y and x overlap without being the same array"
    assert Binder(scale_artifact()).facts((z[:4], z[4:8], 2.0)) is not None


def test_two_outputs_in_one_memory_are_refused():
    artifact = artifact_of(array("x", "n", mutable=True), array("y", "n", mutable=True), symbols=(("n", 0, 0, 1),))
    assert raises(OverlappingArrays, (X, X), artifact).message == (
        "x is written, and x and y are one memory and both written"
    )
    assert Binder(artifact).facts((X, Y)) is not None


def test_interleaved_views_do_not_overlap():
    artifact = artifact_of(array("x", "n", contiguous=False), array("y", "n", mutable=True, contiguous=False))
    z = np.ones(8, np.float32)
    assert Binder(artifact).facts((z[::2], z[1::2])) is not None
    assert Binder(artifact).facts((z[::2], z[2::2])) is None


def test_empty_arrays():
    empty = np.zeros(0, np.float32)
    assert Binder(scale_artifact()).facts((empty, empty, 1.0)) is not None


@given(st.integers(-(1 << 70), 1 << 70), st.sampled_from([d for d in dtypes.ALL if d.is_integer]))
def test_integers_fit_or_are_refused(value: int, dtype: dtypes.DType):
    limits = np.iinfo(dtype.numpy)
    if limits.min <= value <= limits.max:
        assert scalar_value(value, dtype, "k") == value
    else:
        with pytest.raises(ScalarRange, match=f"k = {value} does not fit {dtype}"):
            scalar_value(value, dtype, "k")


@given(st.floats(), st.sampled_from([d for d in dtypes.ALL if d.is_float and not d.is_storage]))
def test_floats_fit_when_their_rounding_is_finite(value: float, dtype: dtypes.DType):
    with np.errstate(all="ignore"):
        rounded = float(np.array(value).astype(dtype.numpy))
    if np.isfinite(value) and not np.isfinite(rounded):
        with pytest.raises(ScalarRange):
            scalar_value(value, dtype, "a")
    else:
        assert np.array(scalar_value(value, dtype, "a")).tobytes() == np.array(value).tobytes()


@pytest.mark.parametrize(
    ("value", "dtype", "result"),
    [(True, dtypes.boolean, True), (np.True_, dtypes.boolean, True), (True, dtypes.i32, 1), (3, dtypes.f16, 3.0),
     (np.float16(0.5), dtypes.f64, 0.5), (ml_dtypes.bfloat16(2), dtypes.f32, 2.0), (np.uint8(7), dtypes.i64, 7)],
)  # fmt: skip
def test_scalars_of_many_kinds(value: object, dtype: dtypes.DType, result: object):
    assert scalar_value(value, dtype, "k") == result


@pytest.mark.parametrize(
    ("value", "dtype", "kind"),
    [(2.0, dtypes.i32, ScalarRange), (1, dtypes.boolean, ArgumentType), (1j, dtypes.f32, ArgumentType),
     ("1", dtypes.i32, ArgumentType)],
)  # fmt: skip
def test_scalars_that_do_not_fit(value: object, dtype: dtypes.DType, kind: type[TesseraError]):
    with pytest.raises(kind):
        scalar_value(value, dtype, "k")


def test_spans_point_at_the_parameter():
    assert raises(ScalarRange, (X, Y, 1e39)).span != SPAN


def test_a_launch_takes_memory_of_its_own_machine_alone():
    far = [standing_for(address, (8,), np.dtype(np.float32), None) for address in (4096, 8192)]
    host, device = Binder(scale_artifact()), Binder(scale_artifact(), view=DeviceView)
    assert device.facts((*far, 2.0)) == [4096, 8, 8192, 8, 2.0]
    assert host.facts((X, far[1], 2.0)) is device.facts((far[0], Y, 2.0)) is None
    with pytest.raises(WrongDevice, match="y lies in the memory of a GPU, and this kernel runs on the CPU"):
        host.check((X, far[1], 2.0))
    with pytest.raises(WrongDevice, match="y lies in the memory of the CPU, and this launch runs on a GPU"):
        device.check((far[0], Y, 2.0))
    assert host.address_of(Y) == Y.ctypes.data
    assert device.address_of(far[1]) == 8192
    assert host.address_of(None) == device.address_of(None) == 0
    for binder, memory in ((host, far[0]), (device, X)):
        with pytest.raises(WrongDevice, match="memory that it cannot reach"):
            binder.address_of(memory)


@pytest.mark.parametrize("strides", [(0, 4), (4, 4)])
def test_a_result_whose_elements_share_bytes(strides: tuple[int, int]):
    whole = np.zeros(100, np.float32)
    view = np.lib.stride_tricks.as_strided(whole, (4, 8), strides)
    read, written = (Binder(artifact_of(array("x", "n", "m", contiguous=False, mutable=m))) for m in (False, True))
    assert read.facts((view,)) is not None
    assert written.facts((view,)) is None
    with pytest.raises(OverlappingArrays, match="x is written, and several of its elements lie in one place") as caught:
        written.check((view,))
    assert "x.copy(), or x.contiguous() of PyTorch" in caught.value.hint
    apart = np.lib.stride_tricks.as_strided(whole, (4, 8), (4, 16))
    assert written.facts((apart,)) is not None
