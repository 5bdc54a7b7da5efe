"""Addresses, by whatever way was chosen."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tessera.runtime.arrays.pointers import address


@given(st.integers(0, 20), st.integers(1, 4), st.sampled_from(["f8", "i1", "u2"]))
def test_address_is_numpys(start: int, step: int, dtype: str):
    view = np.zeros(64, dtype)[start::step]
    assert address(view) == view.ctypes.data
