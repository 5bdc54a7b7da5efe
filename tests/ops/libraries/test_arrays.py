"""Which library an array belongs to."""

import numpy as np

from tessera.ops.libraries.arrays import library_for


def test_arrays_of_the_host_are_numpys():
    assert library_for(np.ones(3)) is np
