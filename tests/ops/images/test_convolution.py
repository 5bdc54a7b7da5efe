"""Convolutions against their definition in f64: strides, padding, dilation, groups, layouts, and how they plan."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import tessera
from support.image_references import correlated, transposed
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


FUNCTIONS = ((op.conv1d, op.conv_transpose1d, "NWC"), (op.conv2d, op.conv_transpose2d, "NHWC"),
             (op.conv3d, op.conv_transpose3d, "NDHWC"))  # fmt: skip


def last(x: NDArray[Any]) -> NDArray[Any]:
    return np.moveaxis(x, 1, -1)


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[NDArray[Any], NDArray[Any], dict[str, Any]]:
    """Images, filters and arguments, of one to three axes, of which at least one window fits."""
    rank, groups = draw(st.integers(1, 3)), draw(st.sampled_from((1, 1, 2)))

    def numbers(low: int, high: int) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank))

    taps, dilation, spacing = numbers(1, 3), numbers(1, 2), numbers(1, 3)
    size = [n + step * (count - 1) for n, step, count in zip(numbers(1, 3), dilation, taps, strict=True)]
    channels, filters = draw(st.integers(1, 2)) * groups, draw(st.integers(1, 2)) * groups
    how = {
        "stride": numbers(1, 2), "padding": list(zip(numbers(0, 2), numbers(0, 2), strict=True)),
        "dilation": dilation, "groups": groups, "input_dilation": spacing,
    }  # fmt: skip
    seed = draw(st.integers(0, 99))
    x, w = drawn((2, channels, *size), np.float64, seed), drawn((filters, channels // groups, *taps), np.float64, seed)
    return x, w, how


@settings(max_examples=60, deadline=None)
@given(convolutions())
def test_convolutions_of_any_form(case: tuple[NDArray[Any], NDArray[Any], dict[str, Any]]):
    x, w, how = case
    plain, _, layout = FUNCTIONS[x.ndim - 3]
    spacing = how["input_dilation"]
    want = correlated(x, w, spacing=spacing, **{name: each for name, each in how.items() if name != "input_dilation"})
    with overridden(target="interpret"):
        close(plain(x, w, **how), want, 1e-12)
        close(plain(last(x), last(w), layout=layout, **how), last(want), 1e-12)
        close(plain(x[0], w, **how), want[0], 1e-12)


@settings(max_examples=60, deadline=None)
@given(convolutions(), st.data())
def test_transposed_convolutions_of_any_form(
    case: tuple[NDArray[Any], NDArray[Any], dict[str, Any]], data: st.DataObject
):
    w, x, drawn_how = case[0].swapaxes(0, 1).copy(), case[1].swapaxes(0, 1).copy(), case[2]
    groups, rank = drawn_how["groups"], x.ndim - 2
    x = np.concatenate([x] * (w.shape[0] * groups), 1)[:, : w.shape[0] * groups]
    w = np.concatenate([w] * groups)
    stride, dilation = drawn_how["input_dilation"], drawn_how["dilation"]
    how = {
        "stride": stride, "dilation": dilation, "groups": groups,
        "padding": [data.draw(st.integers(0, step * (taps - 1) // 2)) for step, taps in
                    zip(dilation, w.shape[2:], strict=True)],
        "output_padding": [data.draw(st.integers(0, max(pair) - 1)) for pair in zip(stride, dilation, strict=True)],
    }  # fmt: skip
    _, function, layout = FUNCTIONS[rank - 1]
    want = transposed(x, w, **how)
    with overridden(target="interpret"):
        close(function(x, w, **how), want, 1e-12)
        close(function(last(x), last(w), layout=layout, **how), last(want), 1e-12)


@pytest.mark.parametrize("taps", [(2, 1), (3, 1), (1, 3), (3, 2)])
@pytest.mark.parametrize("groups", [1, 3])
def test_one_channel_per_group(taps: Pair, groups: int):
    """Taps are the only axis that is summed, and share an axis of the image with the rows of the result."""
    x, w = drawn((2, groups, 5, 4), np.float64, 1), drawn((groups, 1, *taps), np.float64, 2)
    want = correlated(x, w, stride=(1, 1), padding=((1, 1), (0, 0)), dilation=(1, 1), groups=groups)
    close(everywhere(lambda x, w: op.conv2d(x, w, padding=(1, 0), groups=groups), x, w), want, 1e-13)


@pytest.mark.parametrize(("taps", "dilation"), [((3, 4), 1), ((4, 1), 2)])
def test_same_padding_keeps_the_pixels(taps: Pair, dilation: int):
    """The odd pixel of padding comes after the image, as PyTorch has it."""
    x, w = drawn((1, 2, 6, 9), np.float64, 1), drawn((3, 2, *taps), np.float64, 2)
    totals = [dilation * (count - 1) for count in taps]
    sides = [(total // 2, total - total // 2) for total in totals]
    want = correlated(x, w, stride=(1, 1), padding=sides, dilation=(dilation,) * 2)
    got = everywhere(lambda x, w: op.conv2d(x, w, padding="same", dilation=dilation), x, w)
    assert got.shape == (1, 3, 6, 9)
    close(got, want, 1e-13)
    np.testing.assert_array_equal(op.conv2d(x, w, padding="valid"), op.conv2d(x, w))


def test_a_transposed_convolution_multiplies_no_zeros():
    """Four taps at a stride of two: two of them meet pixels, at each of the four phases."""
    x, w = np.ones((2, 8, 8, 32), np.float32), np.ones((32, 4, 4, 16), np.float32)
    (group,) = [g for g in planned(lambda x, w: op.conv_transpose2d(x, w, stride=2, padding=1, layout="NHWC"), x, w)
                if g.kind == "product"]  # fmt: skip
    products = 2 * 9 * 9 * 16 * 4 * (2 * 2 * 32)  # blocks of pixels, filters, phases; taps and channels
    assert np.prod(group.extents) == products


def test_a_convolution_is_adjoint_to_its_transpose():
    x, y, w = (drawn(s, np.float64, n) for n, s in enumerate(((2, 4, 7, 9), (2, 6, 3, 4), (6, 4, 3, 3))))

    def inner(x: Array) -> Array:
        return op.sum(op.conv2d(x, w, stride=(2, 2), padding=(0, 0)) * y)

    close(tessera.grad(inner)(x), op.conv_transpose2d(y, w, stride=2), 1e-13)


def test_factors_rounded_to_tf32():
    x, w = drawn((1, 8, 6, 6), np.float32, 1), drawn((8, 8, 3, 3), np.float32, 2)
    exact = everywhere(op.conv2d, x, w)
    rounded = np.asarray(op.conv2d(x, w, compute="tf32"))
    close(rounded, exact, 2e-3)
    assert (rounded != exact).any()


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
        (lambda x: op.conv2d(x, x), "images have 4 axes, or 3 without a batch, and filters 4"),
        (lambda x: op.conv2d(x[None, None], x[None, None].repeat(2, 1)), "1 channels in 1 groups do not fit"),
        (lambda x: op.conv2d(x[None, None], x.T[None, None].copy()), "filters of 4 x 3 do not fit images of 3 x 4"),
        (lambda x: op.conv2d(x[None, None], x[None, None], stride=0), "stride 0: it is less than 1"),
        (lambda x: op.conv2d(x[None, ..., None], x[None, ..., None].repeat(2, 3), layout="NHWC"), "1 channels in 1"),
        (lambda x: op.conv2d(x[None, None], x[None, None], layout="CHWN"), "there is no layout 'CHWN'"),
        (lambda x: op.conv2d(x[None, None], x[None, None], padding="same", stride=2), "differs by library"),
        (lambda x: op.conv2d(x[None, None], x[None, None], padding=(1, 2, 3)), "padding=.1, 2, 3. for 2 spatial axes"),
        (lambda x: op.conv2d(x[None, None], x[None, None], padding=-1), "padding -1: it is less than 0"),
        (lambda x: op.conv2d(x[None, None], x[None, None], groups=0), "0 groups"),
        (lambda x: op.conv2d(x[None, None], x[None, None], compute="bf8"), "there is no compute type 'bf8'"),
        (lambda x: op.conv1d(x, x), "images have 3 axes, or 2 without a batch, and filters 3"),
        (lambda x: op.conv_transpose1d(x, x[None], output_padding=1), "whose first axis is the channels"),
    ],
)
def test_bad_operands(call: Callable[[NDArray[Any]], object], message: str, target: str):
    with overridden(target=target), pytest.raises(OperandMismatch, match=rf"^[^\n]*(?:{message})") as raised:
        call(drawn((3, 4), np.float32))
    assert "test_convolution.py, line" in str(raised.value)
    assert "^^^^" in str(raised.value)
