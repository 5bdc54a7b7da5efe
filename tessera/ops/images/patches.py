"""Patches of images as columns of a matrix ("im2col"): a view, which products and element-wise operators read."""

import math

from tessera.core.arrays.array_methods import Array
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.index_maps import Affine, IndexMap, Term
from tessera.graphs.function import operator
from tessera.graphs.tracer import as_tracer
from tessera.ops.images.spatial import Padding, PerAxis, WindowAxis, padding_per_axis, per_axis


@operator("im2col")
def im2col(x: Array, size: PerAxis, stride: PerAxis = 1, padding: Padding = 0, dilation: PerAxis = 1) -> Array:
    """Return patches of images as columns, as PyTorch's `torch.nn.functional.unfold`.

    x: [channels, height, width], or with a batch before it, of any dtype
    size: pixels of a patch, a number or (height, width), and so are stride and dilation
    padding: zeros around the images, as in `conv2d`
    Returns [..., channels * size of a patch, patches]: pixels of one channel after another, patches in row-major order.
    The derivative adds up what overlaps.  Raises OperandMismatch.
    """
    images = as_tracer(x)
    if images.ndim not in (3, 4):
        raise OperandMismatch(f"im2col of {images.shape}", hint="give [channels, height, width], or a batch of these")
    taps, strides, steps = per_axis(size, 2, "size"), per_axis(stride, 2, "stride"), per_axis(dilation, 2, "dilation")
    sides = padding_per_axis(padding, taps, strides, steps)
    first = images.ndim - 2
    rows, columns = (
        WindowAxis(size=images.shape[first + n], taps=taps[n], stride=strides[n], before=sides[n][0],
                   after=sides[n][1], dilation=steps[n]) for n in range(2)
    )  # fmt: skip
    counts = rows.windows, columns.windows
    if min(counts) < 1:
        height, width = images.shape[first:]
        raise OperandMismatch(f"patches of {taps[0]} x {taps[1]} do not fit images of {height} x {width}")
    # Axes of the view: those before the pixels, pixels of a patch, patches.
    before = images.shape[:first]
    index = [Affine(0, (Term(n),)) for n in range(first)]
    for n, axis in enumerate((rows, columns)):
        index.append(Affine(-axis.before, (Term(first + 2 + n, axis.stride), Term(first + n, axis.dilation))))
    padded = rows.before > 0 or columns.before > 0 or rows.is_padded or columns.is_padded
    view = images.trace.builder.view(images.value, IndexMap((*before, *taps, *counts), tuple(index), padded))
    return images.of(view).reshape(*before[:-1], before[-1] * math.prod(taps), math.prod(counts))
