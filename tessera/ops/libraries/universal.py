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
    """Return m and e, i32, with x = m * 2^e and |m| in [0.5, 1); 0, infinities and NaN are their own m, with e = 0."""
    (x,) = arrays
    library = library_for(x)
    significand, exponent = library.frexp(x)
    finite = library.isfinite(x)  # C leaves the exponent of others open
    return [significand, library.where(finite, exponent, 0).astype(np.int32)]


def ldexp(arrays: Sequence[Numbers], _: Options) -> Sequence[Numbers]:
    """Return x * 2^n, rounded once; n: i32."""
    x, n = arrays
    return [library_for(x).ldexp(x, n)]


def nextafter(arrays: Sequence[Numbers], options: Options) -> Sequence[Numbers]:
    """Return the float next to x on the way to y; x, y: of one shape.

    options: step: the distance of two neighbors in the bits: 2^16 for bf16 in the upper half of f32
    """
    x, y = arrays
    library, step = library_for(x), int(str(options["step"]))
    bits = library.ascontiguousarray(x).view(_BITS[x.dtype.itemsize])
    # Bits without the sign count upwards from 0 as sizes do, over the bounds of exponents and up to infinity.
    grows = (y > x) == (x > 0)
    beside = library.where(grows, bits + step, bits - step).view(x.dtype)
    least = library.full_like(bits, step).view(x.dtype)
    moved = library.where(x == 0, library.copysign(least, y), beside)
    moved = library.where(x == y, y, moved)
    return [library.where(library.isnan(x) | library.isnan(y), x + y, moved)]


def gcd(arrays: Sequence[Numbers], _: Options) -> Sequence[Numbers]:
    """Return the greatest common divisors of integers."""
    x, y = arrays
    return [library_for(x).gcd(x, y)]


def lcm(arrays: Sequence[Numbers], _: Options) -> Sequence[Numbers]:
    """Return the least common multiples of integers."""
    x, y = arrays
    return [library_for(x).lcm(x, y)]
