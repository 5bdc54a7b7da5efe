"""Windows of images contracted with filters, also of images with zeros between their pixels.

before: y[o] = sum x'[o - before + t] * w[t], where x' has `spacing - 1` zeros after each pixel of x
after:  y[b, q] = sum x[b + j - before'] * w[spacing * j + spacing - 1 - q], and o + first is spacing * b + q

Results with one remainder by the spacing are a phase.  Each phase has taps of its own, and phases are more filters of
one product, so that no zero is multiplied (Shi et al. 2016, "Is the deconvolution layer the same as a convolutional
layer?").
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.index_maps import Affine, IndexMap, Term
from tessera.graphs.tracer import Tracer, contraction
from tessera.ops.images.spatial import WindowAxis

LAYOUTS: Final = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}
"""Names of layouts by the number of spatial axes: channels first, channels last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionForm:
    """A convolution but for its windows.

    rank: the number of spatial axes
    transposed: whether filters are [channels, filters / groups, taps], their taps in falling order
    """

    rank: int
    layout: str
    groups: int
    compute: str = ""
    transposed: bool = False

    @property
    def channels_last(self) -> bool:
        """True where channels are the last axis of images, filters and results."""
        return self.layout == LAYOUTS[self.rank][1]

    def channels(self, array: Tracer) -> int:
        """Return the extent of the axis of channels of images, of the second one of filters."""
        return array.shape[-1 if self.channels_last else 1]

    def pixels(self, array: Tracer) -> tuple[int, ...]:
        """Return the spatial extents of images or filters."""
        return array.shape[1:-1] if self.channels_last else array.shape[2:]

    def filters(self, weight: Tracer) -> int:
        """Return the number of filters, of all groups."""
        return self.channels(weight) * self.groups if self.transposed else weight.shape[0]


def convolve(
    form: ConvolutionForm,
    images: Tracer,
    weight: Tracer,
    bias: Tracer | None,
    axes: Sequence[WindowAxis],
    *,
    batched: bool,
) -> Tracer:
    """Return the contraction of windows with filters, shifted and in the layout of the images."""
    if min(axis.windows for axis in axes) < 1:
        taps, pixels = (" x ".join(map(str, form.pixels(each))) for each in (weight, images))
        raise OperandMismatch(f"filters of {taps} do not fit images of {pixels}")
    spaced = any(axis.spacing > 1 for axis in axes)
    if spaced:
        weight, axes = _without_gaps(form, weight, axes)
    phases = [Phase.of(axis) for axis in axes]
    last, groups, filters = form.channels_last, form.groups, form.filters(weight)
    make = _channels_last if last else _channels_first
    y = make(form, images, weight, phases)
    if bias is not None:
        split = (groups,) if groups > 1 else ()
        ones = (1,) * sum(phase.axis.spacing > 1 for phase in phases)
        y = y + bias.reshape(*split, *ones, filters // groups, *(() if last else (1,) * len(axes)))
    if spaced:
        y = _interleaved(y, phases, batch=images.shape[0], groups=groups, last=last)
    elif groups > 1:
        windows = [axis.windows for axis in axes]
        y = y.reshape(images.shape[0], *((*windows, filters) if last else (filters, *windows)))
    return y if batched else y[0]


def _without_gaps(form: ConvolutionForm, weight: Tracer, axes: Sequence[WindowAxis]) -> tuple[Tracer, list[WindowAxis]]:
    """Return filters and windows whose taps lie side by side, with zeros between the taps of those that did not.

    A phase of a dilated filter has the taps of one remainder, which depends on both steps: zeros are simpler, and
    filters with both are rare.
    """
    first = 1 if form.channels_last else 2
    packed: list[WindowAxis] = []
    for n, axis in enumerate(axes):
        if axis.dilation > 1 and axis.spacing > 1:
            weight = _dilated(weight, first + n, axis.dilation)
            axis = replace(axis, taps=axis.dilation * (axis.taps - 1) + 1, dilation=1)  # noqa: PLW2901
        packed.append(axis)
    return weight, packed


def _dilated(weight: Tracer, axis: int, step: int) -> Tracer:
    """Return filters with step - 1 zeros between the taps along an axis."""
    shape = weight.shape
    taps = shape[axis]
    index = [Affine(0, (Term(n if n <= axis else n + 1),)) for n in range(weight.ndim)]
    # A second index above 0 leaves the axis, where there is 0: taps * (number of the zero) is outside of it.
    index[axis] = Affine(0, (Term(axis), Term(axis + 1, taps)))
    spread = IndexMap((*shape[: axis + 1], step, *shape[axis + 1 :]), tuple(index), padded=True)
    zeros = weight.of(weight.trace.builder.view(weight.value, spread))
    joined = zeros.reshape(*shape[:axis], taps * step, *shape[axis + 1 :])
    return joined[(*(slice(None),) * axis, slice(0, step * (taps - 1) + 1))]


@dataclass(frozen=True, slots=True)
class Phase:
    """Windows along an axis of spaced pixels, by blocks of `spacing` results.

    blocks: the number of blocks; first: the results before the first one, of the first block
    taps: of a phase; before: the padding in front of the images, of the windows of blocks
    """

    axis: WindowAxis
    blocks: int
    first: int
    taps: int
    before: int

    @classmethod
    def of(cls, axis: WindowAxis) -> "Phase":
        """Return the phases of an axis; without spacing, its windows.

        Tap t of result o reads pixel p where o - before + t = spacing * p.  Block b and phase q have o - before =
        spacing * b - (spacing - 1) + q, so that taps t = spacing * j + spacing - 1 - q read the pixels p = b + j.
        """
        if axis.spacing == 1:
            return cls(axis, axis.windows, 0, axis.taps, axis.before)
        block = (axis.spacing - 1 - axis.before) // axis.spacing
        first = axis.spacing - 1 - axis.before - axis.spacing * block
        results = (axis.windows - 1) * axis.stride + 1  # at a stride of 1
        return cls(axis, -(-(results + first) // axis.spacing), first, -(-axis.taps // axis.spacing), -block)

    @property
    def tap_extents(self) -> tuple[int, ...]:
        """The extents of the axes of taps: a single tap needs none."""
        return (self.taps,) if self.taps > 1 else ()

    @property
    def phase_extents(self) -> tuple[int, ...]:
        """The extents of the axes of phases."""
        return (self.axis.spacing,) if self.axis.spacing > 1 else ()

    @property
    def windows(self) -> WindowAxis:
        """The windows of the images that blocks read."""
        spaced = self.axis.spacing > 1
        return replace(
            self.axis, taps=self.taps, stride=1 if spaced else self.axis.stride, before=self.before, spacing=1,
            after=self.blocks + self.taps - 1 - self.before - self.axis.size if spaced else self.axis.after,
        )  # fmt: skip

    def tap(self, phase_axis: int, tap_axis: int, *, falling: bool) -> Affine:
        """Return the index of a filter's tap, of the axes of a view that count phases and taps."""
        spacing = self.axis.spacing
        terms = [Term(tap_axis, spacing)] if self.taps > 1 else []
        terms += [Term(phase_axis, -1)] if spacing > 1 else []
        if not falling:
            return Affine(spacing - 1, tuple(terms))
        turned = tuple(Term(term.axis, -term.scale) for term in terms)
        return Affine(self.axis.taps - spacing, turned)


def _channels_last(form: ConvolutionForm, images: Tracer, weight: Tracer, phases: Sequence[Phase]) -> Tracer:
    """Return [batch, blocks..., groups, phases..., filters]: taps and channels are summed, the channels innermost."""
    rank, groups = len(phases), form.groups
    split = (groups,) if groups > 1 else ()
    batch, inner = images.shape[0], images.shape[-1] // groups
    taps = [extent for phase in phases for extent in phase.tap_extents]
    # Axes of the windows: batch, block per axis, group, tap per axis, channel.
    shape = (batch, *(phase.blocks for phase in phases), *split, *taps, inner)
    first, number = 1 + rank + len(split), len(shape)
    index = [Affine(0, (Term(0),)), *_pixels(phases, 1, first)]
    index.append(Affine(0, (*((Term(1 + rank, inner),) if split else ()), Term(number - 1))))
    windows = _windows(images, shape, index, phases)
    kernel, counts = _filters(form, weight, phases, last=True)
    group = (1 + rank,) if split else ()
    new = tuple(range(number, number + 1 + len(counts)))
    labels = (range(number), (*group, *new, *range(first, number)))
    return contraction(windows, kernel, labels, (*range(1 + rank), *group, *new), compute=form.compute)


def _channels_first(form: ConvolutionForm, images: Tracer, weight: Tracer, phases: Sequence[Phase]) -> Tracer:
    """Return [batch, groups, phases..., filters, blocks...]: filters are rows of the product, pixels its columns."""
    rank, groups = len(phases), form.groups
    split = (groups,) if groups > 1 else ()
    batch, inner = images.shape[0], images.shape[1] // groups
    taps = [extent for phase in phases for extent in phase.tap_extents]
    # Axes of the windows: batch, group, channel, tap per axis, block per axis.
    shape = (batch, *split, inner, *taps, *(phase.blocks for phase in phases))
    first, number = 1 + len(split), len(shape)
    index = [Affine(0, (Term(0),)), Affine(0, (*((Term(1, inner),) if split else ()), Term(first)))]
    index += _pixels(phases, number - rank, first + 1)
    windows = _windows(images, shape, index, phases)
    kernel, counts = _filters(form, weight, phases, last=False)
    group = (1,) if split else ()
    new = tuple(range(number, number + 1 + len(counts)))
    labels = ((*group, *new, *range(first, number - rank)), range(number))
    result = (0, *group, *new, *range(number - rank, number))
    return contraction(kernel, windows, labels, result, compute=form.compute)


def _pixels(phases: Sequence[Phase], block_axis: int, tap_axis: int) -> list[Affine]:
    """Return the indices of pixels, of the axes that count blocks and taps, from the first ones on."""
    indices: list[Affine] = []
    for n, phase in enumerate(phases):
        indices.append(phase.windows.pixel(block_axis + n, tap_axis))
        tap_axis += len(phase.tap_extents)
    return indices


def _windows(images: Tracer, shape: tuple[int, ...], index: Sequence[Affine], phases: Sequence[Phase]) -> Tracer:
    padded = any(phase.windows.is_padded for phase in phases)
    return images.of(images.trace.builder.view(images.value, IndexMap(shape, tuple(index), padded)))


def _filters(form: ConvolutionForm, weight: Tracer, phases: Sequence[Phase], *, last: bool) -> tuple[Tracer, list[int]]:
    """Return filters [groups, phases..., filters, taps..., channels], the channels before the taps unless `last`.

    The filters come after the phases: blocks of a product are those of the last axis of each side.

    Returns the extents of the phases, too.
    """
    groups, counts = form.groups, [extent for phase in phases for extent in phase.phase_extents]
    taps = [extent for phase in phases for extent in phase.tap_extents]
    split = (groups,) if groups > 1 else ()
    filters = form.filters(weight) // groups
    inner = weight.shape[0] // groups if form.transposed else form.channels(weight)
    tail = (*taps, inner) if last else (inner, *taps)
    if not counts and not form.transposed:
        return weight.reshape(*split, filters, *tail), counts
    shape = (*split, *counts, filters, *tail)
    phase_axis, filter_axis = len(split), len(split) + len(counts)
    tap_axis = filter_axis + (1 if last else 2)
    inner_axis = len(shape) - 1 if last else tap_axis - 1
    outer, within = (inner_axis, filter_axis) if form.transposed else (filter_axis, inner_axis)
    width = inner if form.transposed else filters
    by_channel = [Affine(0, (*((Term(0, width),) if split else ()), Term(outer))), Affine(0, (Term(within),))]
    by_tap: list[Affine] = []
    for phase in phases:
        by_tap.append(phase.tap(phase_axis, tap_axis, falling=form.transposed))
        phase_axis += len(phase.phase_extents)
        tap_axis += len(phase.tap_extents)
    index = [by_channel[0], *by_tap, by_channel[1]] if last else [*by_channel, *by_tap]
    # The last phases of a filter whose taps are no multiple of the spacing have a tap that is not there.
    ragged = any(phase.taps * phase.axis.spacing > phase.axis.taps for phase in phases)
    view = IndexMap(shape, tuple(index), padded=ragged)
    return weight.of(weight.trace.builder.view(weight.value, view)), counts


def _interleaved(y: Tracer, phases: Sequence[Phase], *, batch: int, groups: int, last: bool) -> Tracer:
    """Return the phases of results side by side, those alone that were asked for.

    One view reads each result from its block and phase: a transposition would become one of the product's result, whose
    blocks of pixels have phases in between then.
    """
    rank = len(phases)
    filters = y.shape[-1] if last else y.shape[-1 - rank]
    sides = [phase.blocks * phase.axis.spacing for phase in phases]
    shape = (batch, *sides, groups * filters) if last else (batch, groups * filters, *sides)
    first, channel = (1, 1 + rank) if last else (2, 1)
    blocks, offsets = list[Affine](), list[Affine]()
    for n, phase in enumerate(phases):
        spacing = phase.axis.spacing
        blocks.append(Affine(0, (Term(first + n, 1, spacing),)))
        if spacing > 1:
            offsets.append(Affine(0, (Term(first + n, 1, 1, spacing),)))
    group = [Affine(0, (Term(channel, 1, filters),))] if groups > 1 else []
    inner = Affine(0, (Term(channel, 1, 1, filters if groups > 1 else 0),))
    index = [Affine(0, (Term(0),)), *(blocks if last else ()), *group, *offsets, inner, *(() if last else blocks)]
    joined = y.of(y.trace.builder.view(y.value, IndexMap(shape, tuple(index))))
    chosen = tuple(
        slice(phase.first, phase.first + (phase.axis.windows - 1) * phase.axis.stride + 1, phase.axis.stride)
        if phase.axis.spacing > 1 else slice(None) for phase in phases
    )  # fmt: skip
    return joined[(slice(None), *chosen)] if last else joined[(slice(None), slice(None), *chosen)]
