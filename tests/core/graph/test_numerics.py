"""Formats, policies and their text."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import DTypeLike

from tessera.core.base.dtypes import bf16, f16, f32, f64, fp8_e4m3, fp8_e5m2, i8, i32, u8
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.numerics import (
    ALIASES,
    FORMATS,
    ROUNDINGS,
    SCALE_DTYPES,
    Numerics,
    Scale,
    TensorOf,
    accum,
    declared_numerics,
    format_of,
    fp4_e2m1,
    fp6,
    fp6_e2m3,
    fp6_e3m2,
    i4,
    numerics_of,
    round_,
    rounding,
    scale,
)

FLOATS: list[tuple[str, DTypeLike]] = [
    ("fp6_e3m2", ml_dtypes.float6_e3m2fn), ("fp6_e2m3", ml_dtypes.float6_e2m3fn),
    ("fp4_e2m1", ml_dtypes.float4_e2m1fn), ("fp8_e4m3", ml_dtypes.float8_e4m3fn),
    ("fp8_e5m2", ml_dtypes.float8_e5m2), ("f16", np.float16), ("bf16", ml_dtypes.bfloat16), ("f32", np.float32),
]  # fmt: skip


@pytest.mark.parametrize(("name", "dtype"), FLOATS)
def test_formats_are_those_of_ml_dtypes(name: str, dtype: DTypeLike):
    found, info = FORMATS[name], ml_dtypes.finfo(dtype)
    assert found.largest == float(info.max)
    assert 2.0 ** found.binades[0] == float(info.smallest_subnormal)
    if found.bits <= 8:
        codes = np.arange(1 << (found.bits - 1), dtype=np.uint8).view(dtype).astype(np.float64)
        finite = codes[np.isfinite(codes)]
        exponents = sorted(set(np.log2(np.diff(finite)).astype(int).tolist()))
        assert exponents == list(found.binades)


def test_packing():
    assert [FORMATS[name].packing for name in ("fp4_e2m1", "i4", "fp6_e3m2", "i8")] == [(2, 1), (2, 1), (4, 3), (1, 1)]
    assert [fp6.held(n) for n in (0, 1, 4, 5)] == [0, 3, 3, 6]
    assert [fp4_e2m1.held(n) for n in (0, 1, 2, 3)] == [0, 1, 1, 2]
    assert FORMATS["fp8_e4m3"].held(5) == 5
    assert [FORMATS[n].dtype for n in ("i4", "fp6_e2m3", "i8", "bf16")] == [u8, u8, i8, bf16]


def test_policies():
    made = fp6 @ accum(f32) @ rounding("nearest") @ scale(block=(1, 32))
    assert made == Numerics(fp6_e3m2, f32, "nearest", Scale((1, 32), "f32"))
    assert fp8_e4m3 @ accum("f64") @ round_("zero") == Numerics(FORMATS["fp8_e4m3"], f64, "toward_zero")  # pyright: ignore[reportOperatorIssue, reportUnknownVariableType]
    assert numerics_of(i4) == Numerics(i4, i32)
    assert numerics_of("int8") == Numerics(FORMATS["i8"], i32)
    assert (numerics_of("fp4").format, numerics_of(fp8_e5m2).format.name) == (fp4_e2m1, "fp8_e5m2")
    assert all(format_of(name) is each for name, each in ALIASES.items())
    assert scale(block=32) == Scale((32,))
    assert (round_(2.567, 2), round_(2.5)) == (2.57, 2)


@given(
    st.sampled_from(list(FORMATS.values())), st.sampled_from([f32, f64, i32]), st.sampled_from(ROUNDINGS),
    st.none() | st.builds(Scale, st.lists(st.integers(0, 128), max_size=3).map(tuple), st.sampled_from(SCALE_DTYPES)),
)  # fmt: skip
def test_text_is_parsed_back(kind: object, sums: object, mode: str, scaled: Scale | None):
    made = Numerics(kind, sums, mode, scaled)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert Numerics.parse(str(made)) == made


@pytest.mark.parametrize(
    "text", ["", "fp7", "fp6", "fp4_e2m1 @accum(f31)", 'i4 @round("up")', "i8 @scale(block=1)", "i8 @sum(f32)"]
)
def test_other_texts(text: str):
    with pytest.raises(ValueError, match=r"numerics|there is no"):
        Numerics.parse(text)


def test_blocks():
    assert Scale(()).blocks((4, 6)) == ((1, 4), (1, 6))
    assert Scale((1, 0)).blocks((4, 6)) == ((4, 1), (1, 6))
    assert Scale((2, 3)).blocks((5, 4, 6)) == ((5, 1), (2, 2), (2, 3))
    assert Scale((0, 2)).blocks((0, 0)) == ((1, 0), (0, 2))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Scale((1, 32)).blocks((4, 48)), "32 elements do not divide an axis of 48"),
        (lambda: Scale((1, 32)).blocks((48,)), "need 2 axes"),
        (lambda: scale(block=(1, -2)), "is no block"),
        (lambda: scale(block=(True,)), "is no block"),
        (lambda: scale(dtype="f16"), "no scales of 'f16'"),
        (lambda: accum(f16), "not summed in"),
        (lambda: fp6 @ accum(i32), "fp6_e3m2 are not summed in i32"),
        (lambda: i4 @ accum("f64"), "i4 are not summed in f64"),
        (lambda: rounding("up"), "no rounding 'up'"),
        (lambda: bf16 @ rounding("stochastic"), "bf16 is rounded to nearest"),  # pyright: ignore[reportOperatorIssue]
        (lambda: numerics_of("fp7"), "no array is stored in 'fp7'"),
        (lambda: numerics_of(None), "no array is stored in None"),
        (lambda: numerics_of(f64), "no array is stored in f64"),
    ],
)  # fmt: skip
def test_mistakes(wrong: object, message: str):
    with pytest.raises(OperandMismatch, match=message):
        wrong()  # type: ignore[operator]  # pyright: ignore[reportCallIssue]


def test_annotations():
    assert declared_numerics(TensorOf(("B",), numerics_of(fp6_e2m3))) == numerics_of(fp6_e2m3)
    assert declared_numerics(fp6_e2m3) == numerics_of(fp6_e2m3)
    assert declared_numerics(f32) is None
    assert declared_numerics("fp6") is None
