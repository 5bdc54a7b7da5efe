"""Stable sorts on arrays of NumPy or CuPy."""

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from tessera.core.program.program import Attribute
from tessera.ops.libraries.arrays import Library, Numbers, library_for

Options: TypeAlias = Mapping[str, Attribute]


def argsort(arrays: Sequence[Numbers], options: Options) -> Sequence[Numbers]:
    """Return the indices, i64, that sort an array along an axis; equal elements keep their order, NaN is the greatest.

    options: axis; descending: whether the greatest come first
    """
    (x,) = arrays
    axis, descending = int(str(options["axis"])), bool(options["descending"])
    library = library_for(x)
    if not x.size:
        return [library.zeros(x.shape, np.int64)]
    keys = _unsigned(x, library) if x.dtype.kind == "f" else x
    if not descending:
        return [library.argsort(keys, axis=axis, kind="stable").astype(np.int64, copy=False)]
    # A stable sort of the reversed array, read from its end: equal elements keep their order.
    reversed_order = library.argsort(library.flip(keys, axis), axis=axis, kind="stable")
    return [x.shape[axis] - 1 - library.flip(reversed_order, axis).astype(np.int64, copy=False)]


def _unsigned(x: Numbers, library: Library) -> Numbers:
    """Return floats without the signs of zeros and NaN, which CuPy's sorts of one axis, by bits, would look at."""
    keys = x + 0.0  # 0.0 for -0.0
    keys[library.isnan(keys)] = math.nan
    return keys
