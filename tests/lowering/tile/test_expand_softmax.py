"""tile-expand-softmax: the parts, along any axis, with the same values."""

import numpy as np
import pytest

from support.builder import Builder
from support.evaluate import run
from support.mlir import lowered, shown
from support.programs import softmax_rows
from tessera.core.base.dtypes import f32
from tessera.lowering.tile.expand_softmax import ExpandSoftmax


def test_the_parts():
    text = shown(softmax_rows(16, 4), ExpandSoftmax())
    assert "tessera.softmax" not in text
    body = [line.strip() for line in text.split("\n")]
    start = body.index("%block = tessera.load %x[%r:+4, 0:+16] : tile<4x16xf32>")
    assert body[start + 1 : start + 11] == [
        "%0 = tessera.reduce max %block axis 1 : tile<4xf32>",
        "%1 = tessera.reshape %0 : tile<4x1xf32>",
        "%2 = tessera.broadcast %1 : tile<4x16xf32>",
        "%3 = arith.subf %block, %2 : tile<4x16xf32>",
        "%4 = math.exp %3 : tile<4x16xf32>",
        "%5 = tessera.reduce sum %4 axis 1 : tile<4xf32>",
        "%6 = tessera.reshape %5 : tile<4x1xf32>",
        "%7 = arith.constant splat 1.000000e+00 : tile<4x1xf32>",
        "%8 = arith.divf %7, %6 : tile<4x1xf32>",
        "%9 = tessera.broadcast %8 : tile<4x16xf32>",
    ]


@pytest.mark.parametrize(("shape", "axis"), [((6,), 0), ((4, 6), 0), ((4, 6), 1), ((2, 3, 4), 1)])
def test_same_values(shape: tuple[int, ...], axis: int):
    b = Builder("softmax")
    x, y = b.array("x", f32, *shape), b.array("y", f32, *shape, mutable=True)
    starts = [b.const(0)] * len(shape)
    b.store(y, b.softmax(b.load(x, starts, shape), axis), starts, shape)
    values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    before, after = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    run(lowered(b.program()), {}, values, before)
    run(lowered(b.program(), ExpandSoftmax()), {}, values, after)
    np.testing.assert_array_equal(after, before)
    np.testing.assert_allclose(after.sum(axis), 1, rtol=1e-6)
