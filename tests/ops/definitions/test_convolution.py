"""Convolutions against their definition in f64: strides, padding, dilation, groups, both layouts, and how they plan."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from support.operators import FLOATS, TARGETS, TOLERANCE, Array, close, drawn, everywhere
from tessera import graph, op
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.schedule.plan import Group
from tessera.core.settings import overridden
from tessera.graphs.function import GraphFunction

Pair = tuple[int, int]


def convolved(
    x: NDArray[Any], w: NDArray[Any], stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> NDArray[Any]:
    """The definition, one filter element after the other, with the channels last."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    x = np.pad(x, ((0, 0), (padding[0],) * 2, (padding[1],) * 2, (0, 0)))
    filters, rows, columns, each = w.shape
    height = (x.shape[1] - dilation[0] * (rows - 1) - 1) // stride[0] + 1
    width = (x.shape[2] - dilation[1] * (columns - 1) - 1) // stride[1] + 1
    out = np.zeros((len(x), height, width, filters))
    for f in range(filters):
        first = f // (filters // groups) * each
        for i, j in np.ndindex(rows, columns):
            part = x[:, i * dilation[0] :, j * dilation[1] :, first : first + each]
            part = part[:, : height * stride[0] : stride[0], : width * stride[1] : stride[1]][:, :height, :width]
            out[..., f] += part @ w[f, i, j]
    return out


def channels_first(*arrays: NDArray[Any]) -> list[NDArray[Any]]:
    return [np.ascontiguousarray(np.moveaxis(each, -1, 1)) if each.ndim == 4 else each for each in arrays]


CASES: dict[str, tuple[Sequence[int], Sequence[int], Pair, Pair, Pair, int]] = {
    "plain": ((2, 9, 8, 4), (8, 3, 2), (1, 1), (0, 0), (1, 1), 1),
    "padded, channels of a step": ((2, 9, 7, 32), (24, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "odd channels": ((3, 7, 5, 20), (12, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "strides": ((2, 10, 8, 16), (8, 3, 3), (2, 2), (1, 1), (1, 1), 1),
    "strides that divide neither side": ((2, 9, 11, 16), (8, 3, 2), (2, 3), (1, 0), (1, 1), 1),
    "dilation": ((1, 11, 13, 16), (8, 3, 5), (1, 1), (2, 0), (2, 1), 1),
    "strides and dilation": ((2, 12, 10, 16), (8, 3, 3), (2, 2), (1, 1), (2, 2), 1),
    "groups": ((2, 9, 8, 32), (8, 3, 3), (1, 1), (1, 1), (1, 1), 2),
    "depthwise": ((2, 6, 6, 8), (8, 3, 3), (1, 1), (1, 1), (1, 1), 8),
    "a stem": ((2, 9, 9, 3), (8, 5, 5), (2, 2), (2, 2), (1, 1), 1),
    "one tap": ((2, 7, 5, 16), (8, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    "one tap, strides": ((2, 8, 6, 16), (8, 1, 1), (2, 1), (0, 0), (1, 1), 1),
}


@pytest.mark.parametrize(
    ("case", "dtype"),
    [(case, dtype) for n, case in enumerate(CASES) for dtype in ("f32", ("f64", "f16", "bf16")[n % 3])],
)
def test_conv2d(case: str, dtype: str):
    shape, taps, stride, padding, dilation, groups = CASES[case]
    x, w = drawn(shape, FLOATS[dtype], 1), drawn((*taps, shape[-1] // groups), FLOATS[dtype], 2)
    bias = drawn((taps[0],), FLOATS[dtype], 3)

    def run(layout: str) -> Callable[..., Array]:
        def convolution(x: Array, w: Array, bias: Array) -> Array:
            return op.conv2d(
                x, w, bias, stride=stride, padding=padding, dilation=dilation, groups=groups, layout=layout
            )

        return convolution

    want = convolved(x, w, stride, padding, dilation, groups) + bias.astype(np.float64)
    close(everywhere(run("NHWC"), x, w, bias), want, 2 * TOLERANCE[dtype])
    close(everywhere(run("NCHW"), *channels_first(x, w, bias)), np.moveaxis(want, -1, 1), 2 * TOLERANCE[dtype])


def test_one_number_stands_for_both_sides_and_channels_come_first():
    x, w = drawn((2, 9, 8, 16), np.float32, 1), drawn((8, 3, 3, 16), np.float32, 2)
    want = np.moveaxis(convolved(x, w, (2, 2), (1, 1), (1, 1), 1), -1, 1)
    close(everywhere(lambda x, w: op.conv2d(x, w, stride=2, padding=1), *channels_first(x, w)), want, 2e-6)


def planned(function: Callable[..., Array], *arrays: NDArray[Any]) -> tuple[Group, ...]:
    made = cast("GraphFunction[..., object]", graph.module("made")(function))
    return made.executable_for(*arrays).plan.groups


def kinds(function: Callable[..., Array], *arrays: NDArray[Any]) -> list[str]:
    return [group.kind for group in planned(function, *arrays)]


@pytest.mark.parametrize(("layout", "copies"), [("NHWC", 0), ("NCHW", 2)])
def test_a_convolution_is_one_kernel_with_what_follows(layout: str, copies: int):
    """No patches are written, and no padded images: taps are axes of the product's loop.

    Images and filters with the channels first are copied, once.
    """
    x, w, bias, more = (np.ones(s, np.float16) for s in ((2, 8, 8, 32), (16, 3, 3, 32), (16,), (2, 8, 8, 16)))
    arrays = [x, w, bias, more] if layout == "NHWC" else channels_first(x, w, bias, more)
    found = kinds(lambda x, w, b, y: op.relu(op.conv2d(x, w, b, padding=1, layout=layout) + y), *arrays)
    assert found == ["maps"] * copies + ["product"]


def test_pixels_apart_need_no_copy_where_they_come_out_even():
    x, w = np.ones((2, 8, 6, 32), np.float16), np.ones((16, 3, 3, 32), np.float16)
    assert kinds(lambda x, w: op.conv2d(x, w, padding=1, stride=2, layout="NHWC"), x, w) == ["product"]
    assert kinds(lambda x, w: op.conv2d(x, w, padding=1, stride=4, layout="NHWC"), x, w) == ["elements", "product"]


def test_one_tap_is_a_product_of_matrices():
    x, w = np.ones((2, 8, 8, 32), np.float16), np.ones((16, 1, 1, 32), np.float16)
    (group,) = planned(lambda x, w: op.conv2d(x, w, layout="NHWC"), x, w)
    assert group.extents == (128, 16, 32)


def test_taps_of_few_channels_are_summed_with_them_as_one_axis():
    x, w = np.ones((2, 16, 16, 3), np.float16), np.ones((16, 7, 7, 3), np.float16)
    patches, product = planned(lambda x, w: op.relu(op.conv2d(x, w, stride=2, padding=3, layout="NHWC")), x, w)
    assert (patches.kind, product.kind) == ("elements", "product")
    assert product.extents == (128, 16, 147)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: op.conv2d(x, x), "images have 4 axes"),
        (lambda x: op.conv2d(x[None, None], x[None, None].repeat(2, 1)), "1 channels in 1 groups do not fit"),
        (lambda x: op.conv2d(x[None, None], x.T[None, None].copy()), "filters of 4 x 3 do not fit images of 3 x 4"),
        (lambda x: op.conv2d(x[None, None], x[None, None], stride=0), "stride 0, dilation 1 and padding 0"),
        (lambda x: op.conv2d(x[None, ..., None], x[None, ..., None].repeat(2, 3), layout="NHWC"), "1 channels in 1"),
        (lambda x: op.conv2d(x[None, None], x[None, None], layout="CHWN"), "there is no layout 'CHWN'"),
    ],
)
def test_bad_operands(call: Callable[[NDArray[Any]], object], message: str, target: str):
    with overridden(target=target), pytest.raises(OperandMismatch, match=message) as raised:
        call(drawn((3, 4), np.float32))
    assert "test_convolution.py, line" in str(raised.value)
    assert "^^^^" in str(raised.value)
