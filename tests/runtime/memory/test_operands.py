"""Arrays of other libraries: outputs beside their inputs, checks that say what does not fit.

The libraries are stand-ins of a few lines: what counts is which of their functions are called, and with what.
"""

import sys
from types import ModuleType, SimpleNamespace
from typing import Self

import numpy as np
import pytest

from support.library import bf16, normal
from tessera.core.base.dtypes import f16, f32
from tessera.core.errors.catalog import ArgumentType, NotAnArray, OperandMismatch, OverlappingArrays
from tessera.ops import flash_attention, gemm, softmax, transpose
from tessera.runtime.memory.operands import (
    as_result,
    empty,
    flat_output,
    operand,
    optional,
    output,
    require_disjoint,
    require_floats,
    result_dtype,
)


class Tensor(np.ndarray):
    """An array of another library."""

    device = "cpu:0"  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType] - torch's, not NumPy's


def library(monkeypatch: pytest.MonkeyPatch, name: str) -> ModuleType:
    module = ModuleType(name)
    module.__dict__.update(Tensor=object, nn=SimpleNamespace(Parameter=object))  # torch's names: no array here is one
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(Tensor, "__module__", f"{name}.core")
    return module


class OnDevice:
    """Eight f32 in a GPU's memory, as far as anybody looks."""

    def __init__(self) -> None:
        self.__cuda_array_interface__ = {"data": (1 << 20, False), "shape": (2, 4), "typestr": "<f4", "version": 3}
        self.device = self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def test_a_part_is_a_view_of_heads_that_follow_each_other():
    x = operand(normal(2, 6, 5, 4), "x")
    part = x.part(1, 2, 4)  # of four parts, three heads each, numbers 1 and 2
    assert isinstance(part, np.ndarray)
    assert np.shape(part) == (1, 6, 5, 4)
    assert np.shares_memory(part, x.value)
    assert np.array_equal(part[0], np.concatenate([x.value[0, 3:], x.value[1, :3]]))
    assert x.part(0, 4, 4) is x.value


def test_parts_are_taken_of_contiguous_arrays_of_libraries_that_have_views(monkeypatch: pytest.MonkeyPatch):
    x = normal(2, 6, 5, 4)
    assert operand(x, "x").sliceable
    assert not operand(x[..., :2], "x").sliceable
    monkeypatch.setattr(Tensor, "__module__", "jaxlib.core")
    assert not operand(x.view(Tensor), "x").sliceable


def test_an_operand_is_looked_at_and_not_copied():
    x = normal(6, 8)[:, ::2]
    found = operand(x, "x")
    assert found.value is x
    assert (found.shape, found.dtype, found.contiguous, found.on_device) == ((6, 4), f32, False, False)
    assert optional(None, "bias") is None


def test_memory_without_a_library_gets_numpy_results():
    numbers = normal(3, 4).data
    got = transpose(numbers)
    assert type(got) is np.ndarray
    np.testing.assert_array_equal(got, np.asarray(numbers).T)


def test_torch_results_are_of_torch(monkeypatch: pytest.MonkeyPatch):
    torch = library(monkeypatch, "torch")
    made: list[tuple[object, ...]] = []

    def make(shape: tuple[int, ...], dtype: str, device: str) -> Tensor:
        made.append((shape, dtype, device))
        return np.full(shape, np.nan, dtype).view(Tensor)

    torch.__dict__.update(empty=make, float32="f4", float16="f2")
    x = normal(5, 40).view(Tensor)
    got = softmax(x)
    assert type(got) is Tensor
    assert made == [((5, 40), "f4", "cpu:0")]
    np.testing.assert_allclose(got.sum(axis=-1), 1, rtol=1e-6)
    assert empty(operand(x, "x"), (2,), f16).dtype == f16


def test_cupy_results_are_made_on_the_device_of_the_operand(monkeypatch: pytest.MonkeyPatch):
    cupy, array = library(monkeypatch, "cupy"), OnDevice()
    monkeypatch.setattr(OnDevice, "__module__", "cupy._core.core")
    cupy.__dict__.update(empty=lambda _shape, _dtype: OnDevice())
    made = empty(operand(array, "x"), (2, 4), f32)
    assert made.on_device
    assert made.value is not array


def test_jax_results_on_the_host_are_made_in_the_end(monkeypatch: pytest.MonkeyPatch):
    jax = library(monkeypatch, "jax")
    monkeypatch.setattr(Tensor, "__module__", "jaxlib._jax")
    jax.__dict__["numpy"] = ModuleType("jax.numpy")

    def asarray(array: np.ndarray) -> Tensor:
        return array.copy().view(Tensor)  # as JAX does: later writes do not show

    jax.numpy.__dict__["asarray"] = asarray
    got = softmax(normal(5, 40).view(Tensor))
    assert type(got) is Tensor
    np.testing.assert_allclose(got.sum(axis=-1), 1, rtol=1e-6)


def test_jax_results_on_a_gpu_are_made_there(monkeypatch: pytest.MonkeyPatch):
    jax, array = library(monkeypatch, "jax"), OnDevice()
    monkeypatch.setattr(OnDevice, "__module__", "jaxlib._jax")
    monkeypatch.setattr(OnDevice, "block_until_ready", lambda made: made, raising=False)
    jax.__dict__.update(numpy=ModuleType("jax.numpy"), block_until_ready=lambda made: made)
    jax.numpy.__dict__["empty"] = lambda _shape, _dtype, device: device
    made = empty(operand(array, "x"), (2, 4), f32)
    assert as_result(made, operand(array, "x")) is array


def test_device_arrays_of_an_unknown_library_need_an_output():
    given = operand(OnDevice(), "x")
    with pytest.raises(NotAnArray, match="no output like x, a OnDevice, can be made"):
        empty(given, (2, 4), f32)
    assert output(given.value, given, (2, 4), f32).on_device


def test_outputs_that_do_not_fit():
    x = operand(normal(2, 3), "x")
    with pytest.raises(OperandMismatch, match="out is 3 x 2, and the result 2 x 3"):
        output(normal(3, 2), x, (2, 3), f32)
    with pytest.raises(OperandMismatch, match="out holds i64, and the result f32"):
        output(np.zeros((2, 3), np.int64), x, (2, 3), f32)
    strided = operand(normal(2, 6)[:, ::2], "out")
    assert flat_output(strided, (2, 3)) is strided.value
    with pytest.raises(OperandMismatch, match="out has gaps"):
        flat_output(strided, (6,))


def test_dtypes():
    assert result_dtype(None, f32) == f32
    assert result_dtype("float16", f32) == f16
    assert result_dtype(f16, f32) == f16
    with pytest.raises(ArgumentType, match="'f9' is no dtype"):
        result_dtype("f9", f32)
    with pytest.raises(ArgumentType, match="x holds complex64"):
        operand(np.zeros(3, np.complex64), "x")
    require_floats((operand(np.zeros(3, bf16), "x"), None))
    with pytest.raises(OperandMismatch, match="x holds f64"):
        require_floats((operand(np.zeros(3), "x"),))


def test_results_that_lie_in_an_operand():
    x = normal(6, 6)
    heads = normal(1, 1, 6, 6)
    before = x.copy()
    for call in (
        lambda: gemm(x, x, x),
        lambda: gemm(normal(6, 4), normal(4, 6), x, bias=x[2]),
        lambda: transpose(x, x),
        lambda: flash_attention(heads, normal(1, 1, 6, 6), heads, heads),
    ):
        with pytest.raises(OverlappingArrays, match="out lies in the memory of"):
            call()
    np.testing.assert_array_equal(x, before)
    softmax(x, x)  # each row is read before it is written
    np.testing.assert_allclose(x.sum(axis=1), 1, rtol=1e-5)


def test_arrays_beside_each_other_are_apart():
    x = normal(8, 4)
    require_disjoint(operand(x[:4], "out"), operand(x[4:], "x"), None)
    require_disjoint(operand(OnDevice(), "out"), operand(x, "x"))
    with pytest.raises(OverlappingArrays, match="out lies in the memory of x"):
        require_disjoint(operand(OnDevice(), "out"), operand(OnDevice(), "x"))


def test_views_for_launches_on_the_host():
    x = normal(6, 4)
    whole, gaps = operand(x, "x"), operand(normal(6, 8)[:, ::2], "gaps")
    assert whole.on_host((6, 4)) is whole.view
    folded = whole.on_host((2, 12))
    assert folded is not None
    assert folded.base is not None
    folded[1, 0] = 7
    assert x[3, 0] == 7  # the same memory
    assert gaps.on_host((24,)) is None  # only a copy could have that shape
    assert operand(OnDevice(), "there").on_host((4,)) is None


def test_the_same_elements_in_another_shape():
    x = normal(6, 4)
    named = operand(x, "x").alike((3, 8), "y")
    assert (named.name, named.shape, named.dtype, named.on_device) == ("y", (3, 8), f32, False)
    assert np.shares_memory(named.view, x)
    copied = operand(normal(6, 8)[:, :4], "gaps").alike((24,), "flat")
    assert copied.shape == (24,)
    assert copied.contiguous
