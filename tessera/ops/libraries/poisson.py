"""Poisson counts of an array of rates: one launch of the kernel, on arrays of NumPy or CuPy."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from tessera.core.program.program import Attribute
from tessera.ops.libraries.arrays import Numbers, library_for
from tessera.ops.tiles.poisson import poisson_counts

Options: TypeAlias = Mapping[str, Attribute]


def poisson(arrays: Sequence[Numbers], options: Options) -> Sequence[Numbers]:
    """Fill the third array with counts for the rates, f32, in the first, under the key in the second one.

    options: stream: of random bits
    """
    rate, key, made = arrays
    if made.size:
        places = library_for(rate).arange(128, dtype=np.float32)
        places[0] = 1
        poisson_counts(rate.reshape(-1), key, 1 / places, int(str(options["stream"])), made.reshape(-1))
    return [made]
