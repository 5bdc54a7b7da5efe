"""Complex arrays as interleaved parts: views, products, and arrays of complex numbers of other libraries."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Callable

import numpy as np
import pytest

import tessera
from support.operators import Array, close, drawn, everywhere
from tessera import graph, op
from tessera.core.errors.catalog import OperandMismatch
from tessera.ops.definitions.complex_arrays import Complex, conjugated, multiplied

Z = drawn((3, 5), np.float64, 1) + 1j * drawn((3, 5), np.float64, 2)
W = drawn((5,), np.float64, 3) + 1j * drawn((5,), np.float64, 4)


def test_numpys_complex_numbers_are_the_same_memory():
    made = Complex.of(Z)
    assert np.shares_memory(made.parts, Z)
    np.testing.assert_array_equal(made.real, Z.real)
    np.testing.assert_array_equal(made[1], Z.imag)
    assert made.shape == (3, 5)
    assert np.shares_memory(made.joined(), Z)
    np.testing.assert_array_equal(Complex(np.asfortranarray(made.parts)).joined(), Z)
    real, imag = made
    np.testing.assert_array_equal(real + 1j * imag, Z)
    assert len(made) == 2


def test_torchs_complex_numbers_are_the_same_memory():
    torch = pytest.importorskip("torch")
    z = torch.from_numpy(Z)
    made = Complex.of(z)
    assert made.parts.data_ptr() == z.data_ptr()
    assert made.joined().data_ptr() == z.data_ptr()


def test_products_and_conjugates_in_graphs_and_at_once():
    def product(z: Array, w: Array) -> Array:
        return (Complex(z) * Complex(w)).conjugate().parts

    got = everywhere(product, Complex.of(Z).parts, Complex.of(W).parts)
    close(got, Complex.of(np.conj(Z * W)).parts, 1e-14)
    close((Complex.of(Z) * Complex.of(W)).joined().real, (Z * W).real, 1e-14)
    close(multiplied(Complex.of(Z), np.full((3, 1), 2.0)).parts, Complex.of(Z * 2).parts, 1e-14)
    close(conjugated(np.ones(3)).parts, Complex.of(np.ones(3) + 0j).parts, 0)


def test_a_product_is_one_kernel():
    module = graph.module("product")(lambda z, w: Complex(z) * Complex(w))
    module(Complex.of(Z).parts, Complex.of(W).parts)
    assert module.inspect_ir("schedule").startswith("schedule product: 1 kernel\n")


def test_derivatives():
    report = tessera.check_adjoint(
        lambda z, w: (Complex(z) * Complex(w)).parts, Complex.of(Z).parts, Complex.of(W).parts
    )
    assert report.within(1e-7)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Complex.of(np.ones(3)), "holds no complex numbers"),
        (lambda: Complex(np.ones((3, 2), np.float16)).joined(), "parts of float16 make no array of complex numbers"),
        (lambda: op.fft(Complex(np.ones((3, 3)))), "no two parts in its last axis"),
        (lambda: op.fft((np.ones(3),)), "a pair, not 1 arrays"),
    ],
)
def test_mistakes(call: Callable[[], object], message: str):
    with pytest.raises(OperandMismatch, match=rf"^[^\n]*(?:{message})") as caught:
        call()
    assert "^^^" in str(caught.value)
