"""Universal functions of NumPy that take numbers apart: by their bits, or as calls of NumPy or CuPy."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from tessera.core.program.program import Attribute
from tessera.ops.libraries.arrays import Numbers, library_for

Options: TypeAlias = Mapping[str, Attribute]
_BITS: Final = {2: np.int16, 4: np.int32, 8: np.int64}
"""Integers by the bytes of the float whose bits they hold."""


def frexp(arrays: Sequence[Numbers], _: Options) -> Sequence[Numbers]:
    """Return m and e, i32, with x = m * 2^e and |m| in [0.5, 1); 0, infinities and NaN are their own m, with e = 0.

    arrays: of f64
    """
    (x,) = arrays
    library = library_for(x)
    significand, exponent = library.frexp(x)
    finite = library.isfinite(x)  # C leaves the exponent of others open
    return [significand, library.where(finite, exponent, 0).astype(np.int32)]


def ldexp(arrays: Sequence[Numbers], _: Options) -> Sequence[Numbers]:
    """Return x * 2^n; x: f64, n: i32."""
    x, n = arrays
    return [library_for(x).ldexp(x, n)]


def nextafter(arrays: Sequence[Numbers], options: Options) -> Sequence[Numbers]:
    """Return the float next to x on the way to y; x, y: of one shape.

    By integers alone, as CuPy's comparisons of floats take denormal ones for 0.

    options: step: the distance of two neighbors in the bits: 2^16 for bf16 in the upper half of f32
    """
    x, y = arrays
    library, step = library_for(x), int(str(options["step"]))
    x_bits, y_bits = (library.ascontiguousarray(each).view(_BITS[each.dtype.itemsize]) for each in (x, y))
    sign = np.iinfo(x_bits.dtype).min
    # Integers in the order of the floats; both zeros are 0.
    x_order, y_order = (library.where(bits < 0, sign - bits, bits) for bits in (x_bits, y_bits))
    order = x_order + step * library.where(x_order < y_order, 1, library.where(x_order > y_order, -1, 0))
    order = order.astype(x_bits.dtype)
    negative = (order < 0) | ((order == 0) & (x_bits < 0))
    moved = library.where(negative, sign - order, order).astype(x_bits.dtype)
    moved = library.where(x_order == y_order, y_bits, moved).view(x.dtype)
    return [library.where(library.isnan(x) | library.isnan(y), x + y, moved)]


def gcd(arrays: Sequence[Numbers], _: Options) -> Sequence[Numbers]:
    """Return the greatest common divisors of integers."""
    x, y = arrays
    return [library_for(x).gcd(x, y)]


def lcm(arrays: Sequence[Numbers], _: Options) -> Sequence[Numbers]:
    """Return the least common multiples of integers."""
    x, y = arrays
    return [library_for(x).lcm(x, y)]
