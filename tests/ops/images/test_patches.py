"""Patches of images: their order, against a definition by loops; what a product of filters with them is."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import tessera
from support.operators import drawn, everywhere
from tessera import graph, op
from tessera.core.settings import overridden


def patches(
    x: NDArray[Any], size: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int], dilation: tuple[int, int]
) -> NDArray[Any]:  # fmt: skip
    """Take one patch after another, in loops over rows and columns."""
    x = np.pad(x, (*((0, 0),) * (x.ndim - 2), *((side, side) for side in padding)))
    spans = [step * (taps - 1) + 1 for step, taps in zip(dilation, size, strict=True)]
    starts = [range(0, x.shape[n - 2] - spans[n] + 1, stride[n]) for n in range(2)]
    columns = [
        x[..., row : row + spans[0] : dilation[0], column : column + spans[1] : dilation[1]].reshape(*x.shape[:-3], -1)
        for row in starts[0] for column in starts[1]
    ]  # fmt: skip
    return np.stack(columns, -1)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_patches_of_any_form(data: st.DataObject):
    def pair(low: int, high: int) -> tuple[int, int]:
        return data.draw(st.integers(low, high)), data.draw(st.integers(low, high))

    size, stride, padding, dilation = pair(1, 3), pair(1, 3), pair(0, 2), pair(1, 2)
    image = tuple(max(1, step * (n - 1) + 1 - 2 * side) + data.draw(st.integers(0, 4))
                  for n, step, side in zip(size, dilation, padding, strict=True))  # fmt: skip
    batch = data.draw(st.sampled_from([(), (2,)]))
    x = drawn((*batch, 3, *image), data.draw(st.sampled_from([np.float32, np.int32, np.float16])), low=-9, high=9)
    with overridden(target="interpret"):
        np.testing.assert_array_equal(
            op.im2col(x, size, stride, padding, dilation), patches(x, size, stride, padding, dilation)
        )


def test_a_convolution_is_a_product_with_patches():
    x, w = drawn((2, 3, 6, 5), np.float32), drawn((4, 3, 3, 3), np.float32)
    convolved = graph.module("convolved")(
        lambda x, w: op.reshape(op.reshape(w, (4, 27)) @ op.im2col(x, 3, padding="same"), (2, 4, 6, 5))
    )
    np.testing.assert_allclose(everywhere(convolved, x, w), op.conv2d(x, w, padding=1), rtol=1e-4, atol=1e-4)


def test_the_derivative_adds_up_what_overlaps():
    x = np.zeros((1, 4, 4))
    slope = tessera.grad(lambda x: op.sum(op.im2col(x, 2)))(x)
    np.testing.assert_array_equal(slope[0], [[1, 2, 2, 1], [2, 4, 4, 2], [2, 4, 4, 2], [1, 2, 2, 1]])
