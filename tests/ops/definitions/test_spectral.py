"""Fourier transforms against NumPy's in f64, on lengths with small factors, with large ones, and without."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportCallIssue=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportArgumentType=false

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tessera
from support.operators import FLOATS, Array, close, drawn, everywhere
from tessera import op
from tessera.core.errors.catalog import OperandMismatch
from tessera.graphs.function import GraphFunction
from tessera.ops.definitions.complex_arrays import Complex

TOLERANCE = {"f64": 1e-14, "f32": 2e-6, "f16": 4e-3, "bf16": 3e-2}


def joined(made: Array) -> Array:
    """Return a complex array as one real one, [real, imag]."""
    return op.stack([made[0], made[1]])


def parts(x: NDArray[Any]) -> NDArray[Any]:
    return np.stack([np.real(x), np.imag(x)])


def pair(shape: Sequence[int], dtype: str = "f32") -> tuple[NDArray[Any], NDArray[Any]]:
    return drawn(shape, FLOATS[dtype], 1), drawn(shape, FLOATS[dtype], 2)


def exact(x: tuple[NDArray[Any], NDArray[Any]]) -> NDArray[Any]:
    return x[0].astype(np.float64) + 1j * x[1].astype(np.float64)


@pytest.mark.parametrize(
    ("name", "length"), [*(("fft", length) for length in (1, 7, 64, 65, 134, 1000)), ("ifft", 1), ("ifft", 96)]
)
def test_lengths(name: str, length: int):
    x = pair((2, length))
    got = everywhere(lambda a, b: joined(getattr(op, name)((a, b))), *x)
    close(got, parts(getattr(np.fft, name)(exact(x))), TOLERANCE["f32"])


@pytest.mark.parametrize("dtype", FLOATS)
def test_dtypes(dtype: str):
    x = pair((3, 128), dtype)
    got = np.asarray(joined(op.fft(x)))
    assert got.dtype == x[0].dtype
    close(got, parts(np.fft.fft(exact(x))), TOLERANCE[dtype])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_axes_of_real_arrays(axis: int):
    x = drawn((6, 10, 4), np.float64)
    close(everywhere(lambda x: joined(op.fft(x, axis)), x), parts(np.fft.fft(x, axis=axis)), 1e-14)
    close(everywhere(lambda x: joined(op.rfft(x, axis)), x), parts(np.fft.rfft(x, axis=axis)), 1e-14)


def test_two_axes_and_back():
    x = drawn((2, 3, 70), np.float64)
    close(everywhere(lambda x: joined(op.fft2d(x)), x), parts(np.fft.fft2(x)), 1e-14)
    back = everywhere(lambda x: joined(op.ifft2d(op.fft2d(x))), x)
    close(back, parts(x + 0j), 1e-14)
    whole = drawn((8, 8), np.int32, low=-9, high=9)
    assert np.asarray(op.fft2d(whole).real).dtype == np.float32


@pytest.mark.parametrize("name", ["fft", "rfft"])
def test_long_transforms_are_calls_and_exact_ones_products(name: str):
    x = drawn((2, 130), np.float32)
    for exact, calls in ((False, 1), (True, 0)):
        module = GraphFunction(partial(getattr(op, name), exact=exact), name)
        close(joined(module(x)), parts(getattr(np.fft, name)(x.astype(np.float64))), TOLERANCE["f32"])
        assert module.inspect_ir("schedule").count("(pocketfft, cuFFT)") == calls


def test_nothing_is_packed_between_transforms():
    """The pair is interleaved as the library has it, and a product between two of them is one kernel."""

    def filtered(x: Array, h: Array) -> Complex:
        return op.ifft2d(op.fft2d(Complex(x)) * Complex(h))

    x, h = drawn((70, 66, 2), np.float64, 1), drawn((70, 66, 2), np.float64, 2)
    module = GraphFunction(filtered)
    z, w = x[..., 0] + 1j * x[..., 1], h[..., 0] + 1j * h[..., 1]
    close(joined(module(x, h)), parts(np.fft.ifft2(np.fft.fft2(z) * w)), 1e-13)
    assert module.inspect_ir("schedule").startswith("schedule filtered: 1 kernel, 2 calls")


def test_a_convolution_is_a_product():
    x, kernel = drawn((32,), np.float64, 1), drawn((32,), np.float64, 2)

    def convolved(x: Array, kernel: Array) -> Array:
        a, b = op.fft(x), op.fft(kernel)
        return op.ifft((a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real)).real

    wanted = [sum(x[m] * kernel[n - m] for m in range(32)) for n in range(32)]
    close(everywhere(convolved, x, kernel), wanted, 1e-13)


@pytest.mark.parametrize(
    ("function", "arrays"),
    [
        (lambda a, b: op.fft((a, b)), pair((2, 12), "f64")),
        (lambda a, b: op.ifft((a, b), 0), pair((70, 2), "f64")),
        (op.fft2d, pair((6, 5), "f64")[:1]),
        (op.rfft, pair((2, 9), "f64")[:1]),
        (op.rfft, pair((2, 67), "f64")[:1]),
        (lambda a, b: op.ifft2d((a, b)), pair((3, 66), "f64")),
    ],
)
def test_derivatives(function: Callable[..., object], arrays: tuple[NDArray[Any], ...]):
    assert tessera.check_adjoint(function, *arrays).within(1e-7)


def test_the_adjoint_is_the_transform_with_the_other_sign():
    x = drawn((16,), np.float64)
    slope = tessera.grad(lambda x: op.sum(op.square(op.fft(x).real) + op.square(op.fft(x).imag)))(x)
    close(slope, 2 * 16 * x, 1e-13)  # by Parseval


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: op.fft(np.ones((3, 0))), r"axis 1 of \(3, 0\) has no elements"),
        (lambda: op.fft(np.ones(3), 1), "has no axis 1"),
        (lambda: op.fft2d(np.ones(3)), "has no axis -2"),
        (lambda: op.fft((np.ones(3), np.ones(4))), "the parts of a complex array are alike"),
        (lambda: op.fft((np.ones(3), np.ones(3, np.float32))), "the parts of a complex array are alike"),
        (lambda: op.fft((np.ones(3),) * 3), "a complex array is a pair"),
        (lambda: op.rfft((np.ones(3), np.ones(3))), "rfft takes a real array"),
    ],
)
def test_mistakes(call: Callable[[], object], message: str):
    with pytest.raises(OperandMismatch, match=rf"^[^\n]*(?:{message})") as caught:
        call()
    assert "^^^" in str(caught.value)
