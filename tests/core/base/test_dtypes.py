"""Element types and their promotion."""

import pickle

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.core.base import dtypes
from tessera.core.base.dtypes import DType, promote

ANY = st.sampled_from(dtypes.ALL)


@given(ANY, ANY)
def test_promotion_commutes(a: DType, b: DType):
    assert promote(a, b) == promote(b, a)


@given(ANY, ANY)
def test_promotion_is_an_upper_bound(a: DType, b: DType):
    both = promote(a, b)
    assert promote(a, both) == both
    assert promote(b, both) == both


@given(
    st.sampled_from([d for d in dtypes.ALL if d.kind != "uint"]),
    st.sampled_from([d for d in dtypes.ALL if d.kind != "uint"]),
)
def test_promotion_within_a_kind_is_numpys(a: DType, b: DType):
    if a.kind == b.kind and "V" not in (a.numpy.kind, b.numpy.kind):  # NumPy knows nothing of those of ml_dtypes
        assert promote(a, b).numpy == np.promote_types(a.numpy, b.numpy)


@pytest.mark.parametrize(
    ("a", "b", "both"),
    [
        (dtypes.u8, dtypes.i8, dtypes.i16),
        (dtypes.u32, dtypes.i64, dtypes.i64),
        (dtypes.u64, dtypes.i8, dtypes.i64),
        (dtypes.f16, dtypes.bf16, dtypes.f32),
        (dtypes.i64, dtypes.f16, dtypes.f16),
        (dtypes.fp8_e4m3, dtypes.fp8_e4m3, dtypes.fp8_e4m3),
        (dtypes.fp8_e4m3, dtypes.fp8_e5m2, dtypes.f32),
        (dtypes.fp8_e5m2, dtypes.bf16, dtypes.f32),
        (dtypes.fp8_e5m2, dtypes.f64, dtypes.f64),
        (dtypes.i32, dtypes.fp8_e4m3, dtypes.fp8_e4m3),
        (dtypes.boolean, dtypes.u8, dtypes.u8),
    ],
)
def test_promotion_across(a: DType, b: DType, both: DType):
    assert promote(a, b) == both


def test_floats_of_8_bits_are_storage():
    assert [d for d in dtypes.ALL if d.is_storage] == [dtypes.fp8_e4m3, dtypes.fp8_e5m2]
    assert [dtypes.computed_in(d) for d in (dtypes.fp8_e5m2, dtypes.bf16, dtypes.i8)] == [
        dtypes.f32,
        dtypes.bf16,
        dtypes.i8,
    ]


def test_every_type_knows_its_numpy_type():
    for dtype in dtypes.ALL:
        assert dtypes.from_numpy(dtype.numpy) is dtype
        assert dtype.numpy.itemsize == dtype.bytes
    assert dtypes.from_numpy(np.dtype("complex64")) is None


def test_names_of_the_documents():
    assert [dtypes.BY_NAME[n] for n in ("float", "fp32", "fp16", "bfloat16")] == [
        dtypes.f32,
        dtypes.f32,
        dtypes.f16,
        dtypes.bf16,
    ]


def test_tf32_is_no_dtype_and_stays_itself():
    assert pickle.loads(pickle.dumps(dtypes.tf32)) is dtypes.tf32
    assert (repr(dtypes.tf32), dtypes.tf32.operand_dtype) == ("tf32", dtypes.f32)
    assert "tf32" not in dtypes.BY_NAME


@pytest.mark.parametrize(
    ("named", "dtype"),
    [
        (dtypes.bf16, dtypes.bf16), ("half", dtypes.f16), ("float32", dtypes.f32), (np.float16, dtypes.f16),
        (np.dtype("int64"), dtypes.i64), (np.int32, dtypes.i32), (np.bool_, dtypes.boolean), (bool, dtypes.boolean),
        (ml_dtypes.bfloat16, dtypes.bf16), (np.dtype(ml_dtypes.float8_e4m3fn), dtypes.fp8_e4m3), ("f33", None),
        (None, None), (float, None), (int, None), (np.complex64, None), (3, None), ([], None), (np.datetime64, None),
    ],
)  # fmt: skip
def test_dtypes_by_any_name(named: object, dtype: DType | None):
    assert dtypes.dtype_of(named) is dtype


def test_dtypes_of_pytorch_go_by_their_text():
    class TorchDType:
        def __repr__(self) -> str:
            return "torch.bfloat16"

    assert dtypes.dtype_of(TorchDType()) is dtypes.bf16


def test_dtypes_of_jax():
    jnp = pytest.importorskip("jax.numpy")
    assert dtypes.dtype_of(jnp.float16) is dtypes.f16
    assert dtypes.dtype_of(jnp.dtype("bfloat16")) is dtypes.bf16
