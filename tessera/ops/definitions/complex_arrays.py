"""Complex arrays as real ones: the real and the imaginary part side by side, as libraries store complex numbers."""

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from tessera.core.arrays.array_methods import Array
from tessera.core.base.dtypes import DType
from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import OperandMismatch
from tessera.graphs import tracer
from tessera.graphs.function import operator
from tessera.graphs.trace import trace_of
from tessera.graphs.tracer import Tracer
from tessera.ops.definitions.arrays import arange
from tessera.ops.definitions.floats import widened
from tessera.runtime.arrays.interop import library_of

_COMPLEX: Final = {"float32": "complex64", "float64": "complex128"}
Operand: TypeAlias = "Array | tuple[Array, Array] | Complex"


@dataclass(frozen=True, slots=True, eq=False)
class Complex:
    """A complex array: `parts` is [..., 2]; `.real` and `.imag` are views of it, and unpack from it in this order."""

    parts: Array

    @classmethod
    def of(cls, array: Array) -> "Complex":
        """Return an array of complex numbers of NumPy, PyTorch or CuPy in the same memory.

        Raises OperandMismatch for another array.
        """
        if library_of(array) == "torch" and array.is_complex():
            return cls(importlib.import_module("torch").view_as_real(array))
        if getattr(getattr(array, "dtype", None), "kind", "") != "c":
            hint = "give an array of complex numbers; operators take a pair (real, imag) as it is"
            raise at_call(OperandMismatch(f"{type(array).__name__} holds no complex numbers", hint=hint))
        floats = {pair: single for single, pair in _COMPLEX.items()}
        return cls(array[..., None].view(floats[str(array.dtype)]))

    def joined(self) -> Array:
        """Return an array of complex numbers of NumPy, PyTorch or CuPy, in the same memory where it has no gaps.

        Raises OperandMismatch for another library's, and for parts that are neither f32 nor f64.
        """
        if library_of(self.parts) == "torch":
            return importlib.import_module("torch").view_as_complex(self.parts)
        name = str(getattr(self.parts, "dtype", ""))
        if name not in _COMPLEX or library_of(self.parts) not in ("numpy", "cupy"):
            message = f"parts of {name or type(self.parts).__name__} make no array of complex numbers"
            raise at_call(OperandMismatch(message, hint="take .real and .imag"))
        dense = self.parts if self.parts.flags.c_contiguous else self.parts.copy(order="C")
        return dense.view(_COMPLEX[name])[..., 0]

    @property
    def real(self) -> Array:
        """The real part."""
        return self.parts[..., 0]

    @property
    def imag(self) -> Array:
        """The imaginary part."""
        return self.parts[..., 1]

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents, without the axis of the parts."""
        return tuple(self.parts.shape[:-1])

    def __mul__(self, other: Operand) -> "Complex":
        return multiplied(self, other)

    def conjugate(self) -> "Complex":
        """Return it with the other sign of the imaginary part."""
        return conjugated(self)

    def __iter__(self) -> Iterator[Array]:
        return iter((self.real, self.imag))

    def __getitem__(self, part: int) -> Array:
        return (self.real, self.imag)[part]

    def __len__(self) -> int:
        return 2


def parts_of(x: Operand) -> tuple[Tracer, bool, DType]:
    """Return an operand in the dtype that it is computed in, whether it has parts, [..., 2], and the result's dtype.

    Raises OperandMismatch for parts that are not alike.
    """
    if isinstance(x, Complex):
        wide, dtype = widened(x.parts)
        if not wide.ndim or wide.shape[-1] != 2:
            raise OperandMismatch(f"{wide.shape} has no two parts in its last axis", hint="give Complex([..., 2])")
        return wide, True, dtype
    if not isinstance(x, tuple | list):
        wide, dtype = widened(x)
        return wide, False, dtype
    given = cast("tuple[Array, ...]", x)
    if len(given) != 2:
        raise OperandMismatch(f"a complex array is a pair, not {len(given)} arrays", hint="give (real, imag)")
    trace = trace_of(*given)
    (real, dtype), (imag, other) = widened(given[0], trace), widened(given[1], trace)
    if real.shape != imag.shape or dtype != other:
        found = f"{dtype} {real.shape} and {other} {imag.shape}"
        raise OperandMismatch(f"the parts of a complex array are alike, not {found}", hint="give one shape and dtype")
    return tracer.select(arange(2) == 0, real[..., None], imag[..., None]), True, dtype


@operator("complex_product")
def multiplied(a: Operand, b: Operand) -> Complex:
    """Return the product, element by element, broadcast together: one map, which needs no parts by themselves."""
    (x, x_paired, left), (y, y_paired, right) = parts_of(a), parts_of(b)
    if not (x_paired and y_paired):
        x, y = (each if paired else each[..., None] for each, paired in ((x, x_paired), (y, y_paired)))
        made = x * y
    else:
        a, b, c, d = (each[..., part, None] for each in (x, y) for part in (0, 1))
        made = tracer.select(arange(2) == 0, a * c - b * d, a * d + b * c)
    return Complex(made.astype(left if left.bits >= right.bits else right))


@operator("conjugate")
def conjugated(x: Operand) -> Complex:
    """Return a complex array with the other sign of the imaginary part."""
    given, paired, dtype = parts_of(x)
    if not paired:
        given = tracer.select(arange(2) == 0, given[..., None], 0.0)
    return Complex(tracer.select(arange(2) == 0, given, -given).astype(dtype))
