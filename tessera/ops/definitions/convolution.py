"""Convolution: a window of images, contracted with filters; no layout of patches is ever written.

before: `conv2d(x, w, padding=1, layout="NHWC")`, x: [n, h, w, c], w: [f, r, s, c]
after:  windows = view x: [n, p, q, r, s, c] is x[n, p + r - 1, q + s - 1, c], or 0 outside; y = sum windows * w
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.index_maps import Affine, IndexMap, Term
from tessera.graphs.function import operator
from tessera.graphs.tracer import Tracer, as_tracer, contraction, trace_of

Array = Any  # an array of NumPy, PyTorch, CuPy or JAX, or a value of the graph that is being captured

_LAYOUTS: Final = ("NCHW", "NHWC")


@operator("conv2d")
def conv2d(
    x: Array, weight: Array, bias: Array | None = None, *, stride: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] = 0, dilation: int | tuple[int, int] = 1, groups: int = 1, layout: str = "NCHW",
) -> Array:  # fmt: skip
    """Return the cross-correlation of images with filters, as PyTorch's `conv2d`.

    x: [batch, channels, height, width]; weight: [filters, channels / groups, kernel height, kernel width]
    bias: [filters]; the result is [batch, filters, rows, columns]
    layout: "NHWC" for channels last, everywhere: x [batch, height, width, channels], weight [filters, kernel height,
    kernel width, channels / groups], the result [batch, rows, columns, filters]; tensor cores are fastest with it
    Raises OperandMismatch.
    """
    if layout not in _LAYOUTS:
        raise OperandMismatch(f"there is no layout {layout!r}", hint=f"choose from {', '.join(_LAYOUTS)}")
    trace = trace_of(x, weight, bias)
    image, kernel = as_tracer(x, trace), as_tracer(weight, trace)
    if image.ndim != 4 or kernel.ndim != 4:
        raise OperandMismatch(f"images have 4 axes and filters too, not {image.shape} and {kernel.shape}")
    last = layout == "NHWC"
    channels, each = (image.shape[-1], kernel.shape[-1]) if last else (image.shape[1], kernel.shape[1])
    filters = kernel.shape[0]
    if channels != each * groups or filters % groups:
        raise OperandMismatch(f"{channels} channels in {groups} groups do not fit {filters} filters of {each}")
    pixels, taps = (image.shape[1:3], kernel.shape[1:3]) if last else (image.shape[2:], kernel.shape[2:])
    sides = tuple(map(_Side, pixels, taps, _pair(stride), _pair(padding), _pair(dilation)))
    if any(min(side.stride, side.dilation) < 1 or side.padding < 0 for side in sides):
        raise OperandMismatch(f"stride {stride}, dilation {dilation} and padding {padding}: give at least 1, 1 and 0")
    if min(side.places for side in sides) < 1:
        (height, width), (rows, columns) = pixels, taps
        raise OperandMismatch(f"filters of {rows} x {columns} do not fit images of {height} x {width}")
    offset = None if bias is None else as_tracer(bias, trace)
    made = _channels_last(image, kernel, sides, groups) if last else _channels_first(image, kernel, sides, groups)
    if offset is not None:
        parts = (groups, filters // groups) if groups > 1 else (filters,)
        made = made + (offset.reshape(*parts) if last else offset.reshape(*parts, 1, 1))
    if groups == 1:
        return made
    rows, columns = (side.places for side in sides)
    shape = (rows, columns, filters) if last else (filters, rows, columns)
    return made.reshape(image.shape[0], *shape)


@dataclass(frozen=True, slots=True)
class _Side:
    """The windows along the height or the width: pixels of the image, taps of the filter."""

    pixels: int
    taps: int
    stride: int
    padding: int
    dilation: int

    @property
    def places(self) -> int:
        """The number of windows."""
        return (self.pixels + 2 * self.padding - self.dilation * (self.taps - 1) - 1) // self.stride + 1

    @property
    def kept(self) -> tuple[int, ...]:
        """The axis of the taps; a single one needs none."""
        return (self.taps,) if self.taps > 1 else ()

    def index(self, place: int, tap: int) -> Affine:
        """Return the pixel, of the axis that counts windows and the one that counts taps."""
        terms = (Term(place, self.stride), *((Term(tap, self.dilation),) if self.kept else ()))
        return Affine(-self.padding, terms)


def _channels_last(image: Tracer, kernel: Tracer, sides: Sequence[_Side], groups: int) -> Tracer:
    """Return [batch, rows, columns, groups, filters]: taps and channels are summed, the channels innermost."""
    rows, columns = sides
    split = groups > 1
    batch, each = image.shape[0], kernel.shape[-1]
    # axes of the windows: batch, row, column, group, filter row, filter column, channel
    group = (groups,) if split else ()
    shape = (batch, rows.places, columns.places, *group, *rows.kept, *columns.kept, each)
    first = 3 + len(group)
    channel = Affine(0, (*((Term(3, each),) if split else ()), Term(len(shape) - 1)))
    index = (
        Affine(0, (Term(0),)), rows.index(1, first), columns.index(2, first + len(rows.kept)), channel,
    )  # fmt: skip
    windows = _windows(image, shape, index, sides)
    filters = kernel.reshape(*group, kernel.shape[0] // groups, *rows.kept, *columns.kept, each)
    taps, new = tuple(range(first, len(shape))), len(shape)
    grouped = (3,) if split else ()
    return contraction(
        windows, filters, (range(len(shape)), (*grouped, new, *taps)), (0, 1, 2, *grouped, new)
    )  # fmt: skip


def _channels_first(image: Tracer, kernel: Tracer, sides: Sequence[_Side], groups: int) -> Tracer:
    """Return [batch, groups, filters, rows, columns]: filters are the rows of the product, pixels its columns."""
    rows, columns = sides
    split = groups > 1
    batch, each = image.shape[0], kernel.shape[1]
    # axes of the windows: batch, group, channel, filter row, filter column, row, column
    group = (groups,) if split else ()
    shape = (batch, *group, each, *rows.kept, *columns.kept, rows.places, columns.places)
    first, rank = 1 + len(group), len(shape)
    channel = Affine(0, (*((Term(1, each),) if split else ()), Term(first)))
    index = (
        Affine(0, (Term(0),)), channel, rows.index(rank - 2, first + 1),
        columns.index(rank - 1, first + 1 + len(rows.kept)),
    )  # fmt: skip
    windows = _windows(image, shape, index, sides)
    filters = kernel.reshape(*group, kernel.shape[0] // groups, each, *rows.kept, *columns.kept)
    taps, new = tuple(range(first, rank - 2)), rank
    grouped = (1,) if split else ()
    return contraction(
        filters, windows, ((*grouped, new, *taps), range(rank)), (0, *grouped, new, rank - 2, rank - 1)
    )  # fmt: skip


def _windows(image: Tracer, shape: tuple[int, ...], index: tuple[Affine, ...], sides: Sequence[_Side]) -> Tracer:
    padded = any(side.padding for side in sides)
    return image.of(image.trace.builder.view(image.value, IndexMap(shape, index, padded)))


def _pair(value: int | tuple[int, int]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else value
