"""Convolution: windows of images, contracted with filters; no layout of patches is ever written.

before: `conv2d(x, w, padding=1, layout="NHWC")`, x: [n, h, w, c], w: [f, r, s, c]
after:  windows = view x: [n, p, q, r, s, c] is x[n, p + r - 1, q + s - 1, c], or 0 outside; y = sum windows * w

A transposed convolution is one of images with zeros between their pixels, which are not multiplied: see
`window_products.py`.
"""

from collections.abc import Sequence

from tessera.core.arrays.array_methods import Array
from tessera.core.errors.catalog import OperandMismatch
from tessera.graphs.function import operator
from tessera.graphs.trace import trace_of
from tessera.graphs.tracer import Tracer, as_tracer
from tessera.ops.images.spatial import Padding, PerAxis, WindowAxis, padding_per_axis, per_axis
from tessera.ops.images.window_products import LAYOUTS, ConvolutionForm, convolve


@operator("conv1d")
def conv1d(  # noqa: PLR0913 - the names of the algorithm
    x: Array, weight: Array, bias: Array | None = None, *, stride: PerAxis = 1, padding: Padding = 0,
    dilation: PerAxis = 1, groups: int = 1, input_dilation: PerAxis = 1, layout: str = "NCW", compute: str = "",
) -> Array:  # fmt: skip
    """Return the cross-correlation of signals with filters, as PyTorch's `conv1d`.

    x: [batch, channels, width], or without the batch; weight: [filters, channels / groups, taps]; see `conv2d`, with
    layout="NWC" for channels last.  Raises OperandMismatch.
    """
    form = ConvolutionForm(rank=1, layout=layout, groups=groups, compute=compute)
    return _convolved(form, (x, weight, bias), stride, padding, dilation, input_dilation)


@operator("conv2d")
def conv2d(  # noqa: PLR0913 - the names of the algorithm
    x: Array, weight: Array, bias: Array | None = None, *, stride: PerAxis = 1, padding: Padding = 0,
    dilation: PerAxis = 1, groups: int = 1, input_dilation: PerAxis = 1, layout: str = "NCHW", compute: str = "",
) -> Array:  # fmt: skip
    """Return the cross-correlation of images with filters, as PyTorch's `conv2d`.

    x: [batch, channels, height, width], or without the batch
    weight: [filters, channels / groups, kernel height, kernel width]; bias: [filters]
    stride, dilation: pixels between windows, and between taps of a window; a number, or one per axis
    padding: zeros around images: a number, per axis a number or (before, after), "same" or "valid"
    input_dilation: d puts d - 1 zeros between pixels, before the padding (JAX's `lhs_dilation`)
    layout: "NHWC" for channels last, everywhere: x [batch, height, width, channels], weight [filters, kernel height,
    kernel width, channels / groups], the result [batch, rows, columns, filters]; tensor cores are fastest with it
    compute: what f32 is rounded to before it is multiplied, as for `op.matmul`: "tf32"
    Returns [batch, filters, rows, columns].  Raises OperandMismatch.
    """
    form = ConvolutionForm(rank=2, layout=layout, groups=groups, compute=compute)
    return _convolved(form, (x, weight, bias), stride, padding, dilation, input_dilation)


@operator("conv3d")
def conv3d(  # noqa: PLR0913 - the names of the algorithm
    x: Array, weight: Array, bias: Array | None = None, *, stride: PerAxis = 1, padding: Padding = 0,
    dilation: PerAxis = 1, groups: int = 1, input_dilation: PerAxis = 1, layout: str = "NCDHW", compute: str = "",
) -> Array:  # fmt: skip
    """Return the cross-correlation of volumes with filters, as PyTorch's `conv3d`.

    x: [batch, channels, depth, height, width], or without the batch; weight: [filters, channels / groups, kernel
    depth, kernel height, kernel width]; see `conv2d`, with layout="NDHWC" for channels last.  Raises OperandMismatch.
    """
    form = ConvolutionForm(rank=3, layout=layout, groups=groups, compute=compute)
    return _convolved(form, (x, weight, bias), stride, padding, dilation, input_dilation)


@operator("conv_transpose1d")
def conv_transpose1d(  # noqa: PLR0913 - the names of the algorithm
    x: Array, weight: Array, bias: Array | None = None, *, stride: PerAxis = 1, padding: PerAxis = 0,
    output_padding: PerAxis = 0, groups: int = 1, dilation: PerAxis = 1, layout: str = "NCW", compute: str = "",
) -> Array:  # fmt: skip
    """Return the transposed convolution of signals: the adjoint of `conv1d`, as PyTorch's `conv_transpose1d`.

    x: [batch, channels, width], or without the batch; weight: [channels, filters / groups, taps]; see
    `conv_transpose2d`.  Raises OperandMismatch.
    """
    form = ConvolutionForm(rank=1, layout=layout, groups=groups, compute=compute, transposed=True)
    return _transposed(form, (x, weight, bias), stride, padding, output_padding, dilation)


@operator("conv_transpose2d")
def conv_transpose2d(  # noqa: PLR0913 - the names of the algorithm
    x: Array, weight: Array, bias: Array | None = None, *, stride: PerAxis = 1, padding: PerAxis = 0,
    output_padding: PerAxis = 0, groups: int = 1, dilation: PerAxis = 1, layout: str = "NCHW", compute: str = "",
) -> Array:  # fmt: skip
    """Return the transposed convolution of images: the adjoint of `conv2d`, as PyTorch's `conv_transpose2d`.

    x: [batch, channels, height, width], or without the batch
    weight: [channels, filters / groups, kernel height, kernel width]; bias: [filters]
    stride, dilation: pixels of the result between the windows of two pixels of x, and between taps of a window
    padding: pixels cut off from each side of the result; output_padding: pixels more after it, fewer than the stride
    layout: "NHWC" for channels last: weight [channels, kernel height, kernel width, filters / groups]
    compute: as for `conv2d`
    A result has (height - 1) * stride - 2 * padding + dilation * (kernel height - 1) + output_padding + 1 rows.
    Raises OperandMismatch.
    """
    form = ConvolutionForm(rank=2, layout=layout, groups=groups, compute=compute, transposed=True)
    return _transposed(form, (x, weight, bias), stride, padding, output_padding, dilation)


@operator("conv_transpose3d")
def conv_transpose3d(  # noqa: PLR0913 - the names of the algorithm
    x: Array, weight: Array, bias: Array | None = None, *, stride: PerAxis = 1, padding: PerAxis = 0,
    output_padding: PerAxis = 0, groups: int = 1, dilation: PerAxis = 1, layout: str = "NCDHW", compute: str = "",
) -> Array:  # fmt: skip
    """Return the transposed convolution of volumes: the adjoint of `conv3d`, as PyTorch's `conv_transpose3d`.

    x: [batch, channels, depth, height, width], or without the batch; weight: [channels, filters / groups, kernel
    depth, kernel height, kernel width]; see `conv_transpose2d`.  Raises OperandMismatch.
    """
    form = ConvolutionForm(rank=3, layout=layout, groups=groups, compute=compute, transposed=True)
    return _transposed(form, (x, weight, bias), stride, padding, output_padding, dilation)


def _convolved(
    form: ConvolutionForm, operands: Sequence[Array | None], stride: PerAxis, padding: Padding, dilation: PerAxis,
    input_dilation: PerAxis,
) -> Tracer:  # fmt: skip
    """Return a convolution of (images, filters, biases or None)."""
    images, weight, bias, batched = _checked(form, operands)
    taps = form.pixels(weight)
    strides, steps = per_axis(stride, form.rank, "stride"), per_axis(dilation, form.rank, "dilation")
    spacings = per_axis(input_dilation, form.rank, "input_dilation")
    axes = [
        WindowAxis(size=size, taps=count, stride=s, before=low, after=high, dilation=step, spacing=spacing)
        for size, count, s, (low, high), step, spacing in zip(
            form.pixels(images), taps, strides, padding_per_axis(padding, taps, strides, steps), steps, spacings,
            strict=True,
        )
    ]  # fmt: skip
    return convolve(form, images, weight, bias, axes, batched=batched)


def _transposed(
    form: ConvolutionForm, operands: Sequence[Array | None], stride: PerAxis, padding: PerAxis, output_padding: PerAxis,
    dilation: PerAxis,
) -> Tracer:  # fmt: skip
    """Return a transposed convolution of (images, filters, biases or None): one of images with zeros in between."""
    images, weight, bias, batched = _checked(form, operands)
    strides, steps = per_axis(stride, form.rank, "stride"), per_axis(dilation, form.rank, "dilation")
    cut = per_axis(padding, form.rank, "padding", 0)
    more = per_axis(output_padding, form.rank, "output_padding", 0)
    if any(extra >= max(s, step) for extra, s, step in zip(more, strides, steps, strict=True)):
        raise OperandMismatch(
            f"output_padding={output_padding} for a stride of {stride} and a dilation of {dilation}",
            hint="give less than the greater of both",
        )
    axes: list[WindowAxis] = []
    for n, (size, count) in enumerate(zip(form.pixels(images), form.pixels(weight), strict=True)):
        reach = steps[n] * (count - 1)
        axes.append(
            WindowAxis(size=size, taps=count, before=reach - cut[n], after=reach - cut[n] + more[n], dilation=steps[n],
                       spacing=strides[n])
        )  # fmt: skip
    return convolve(form, images, weight, bias, axes, batched=batched)


def _checked(form: ConvolutionForm, operands: Sequence[Array | None]) -> tuple[Tracer, Tracer, Tracer | None, bool]:
    """Return images with a batch, filters and biases, and whether the images had a batch.  Raises OperandMismatch."""
    if form.layout not in LAYOUTS[form.rank]:
        raise OperandMismatch(
            f"there is no layout {form.layout!r} of {form.rank} spatial {'axis' if form.rank == 1 else 'axes'}",
            hint=f"choose from {', '.join(LAYOUTS[form.rank])}",
        )
    trace = trace_of(*operands)
    x, w, b = operands
    images, weight = as_tracer(x, trace), as_tracer(w, trace)
    axes = form.rank + 2
    batched = images.ndim == axes
    if images.ndim not in (axes, axes - 1) or weight.ndim != axes:
        raise OperandMismatch(
            f"images have {axes} axes, or {axes - 1} without a batch, and filters {axes}, not {images.shape} and "
            f"{weight.shape}"
        )
    images = images if batched else images[None]
    _require_channels(form, images, weight)
    bias = None if b is None else as_tracer(b, trace)
    if bias is not None and bias.shape != (form.filters(weight),):
        raise OperandMismatch(f"a bias of {bias.shape} for {form.filters(weight)} filters", hint="give one per filter")
    return images, weight, bias, batched


def _require_channels(form: ConvolutionForm, images: Tracer, weight: Tracer) -> None:
    channels, inner, groups = form.channels(images), form.channels(weight), form.groups
    if groups < 1:
        raise OperandMismatch(f"{groups} groups", hint="give 1 or more")
    if form.transposed and (channels != weight.shape[0] or channels % groups):
        raise OperandMismatch(
            f"{channels} channels in {groups} groups do not fit filters of {weight.shape}, whose first axis is the "
            "channels"
        )
    if not form.transposed and (channels != inner * groups or weight.shape[0] % groups):
        raise OperandMismatch(f"{channels} channels in {groups} groups do not fit {weight.shape[0]} filters of {inner}")
