"""Arguments like those of a kernel's last call."""

from typing import cast

import numpy as np
import pytest

import tessera
from tessera.core.errors.catalog import NotCalledYet
from tessera.kernels.like_last_call import arguments_like_last_call

SOURCE = """
@kernel
def scaled(x: f32[n, m], k: i32[n], y: mut f32[n, m], a: f32):
    i = tile.linear_id(0)
    j = tile.linear_id(1)
    if i < n and j < m:
        y[i, j] = a * x[i, j] + k[i]
"""


def test_types_shapes_and_gaps_are_those_of_the_last_call():
    scaled = tessera.compile_source(SOURCE).scaled
    with pytest.raises(NotCalledYet, match="scaled was not called yet") as caught:
        arguments_like_last_call(scaled)
    assert caught.value.hint == "call scaled first, or give its arguments"
    wide = np.ones((5, 14), np.float32)
    scaled(wide[:, ::2], np.ones(5, np.int32), np.zeros((5, 7), np.float32), 2.0)
    x, k, y, a = arguments_like_last_call(scaled)
    x, k, y = (cast("np.ndarray[tuple[int, ...], np.dtype[np.float32]]", each) for each in (x, k, y))
    assert [(array.shape, array.dtype) for array in (x, k, y)] == [
        ((5, 7), np.float32), ((5,), np.int32), ((5, 7), np.float32),
    ]  # fmt: skip
    assert not x.flags.c_contiguous
    assert set(k) <= {0, 1, 2, 3}
    assert a == 1.25
    np.testing.assert_array_equal(arguments_like_last_call(scaled)[0], x)
