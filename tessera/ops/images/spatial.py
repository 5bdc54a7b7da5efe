"""Arguments of operators on images: strides, padding and extents of windows, one number per spatial axis."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import TypeAlias

from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.index_maps import Affine, Term

PerAxis: TypeAlias = int | Sequence[int]
"""One number for all spatial axes, or one for each."""
Padding: TypeAlias = int | str | Sequence[int | tuple[int, int]]
"""Zeros around an image: "same", "valid", a number for all sides, or per axis a number or (before, after)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowAxis:
    """Windows along one axis of an image.

    size: pixels of the image; taps: of a window; stride: pixels between windows; dilation: pixels between taps
    before, after: pixels of padding, less than 0 to cut some off; spacing: 1 more than the zeros between two pixels
    partial: whether windows may end after the padding (the "ceil mode" of pools)
    """

    size: int
    taps: int
    stride: int = 1
    before: int = 0
    after: int = 0
    dilation: int = 1
    spacing: int = 1
    partial: bool = False

    @property
    def windows(self) -> int:
        """The number of windows, less than 1 where not even one fits."""
        extent = self.spacing * (self.size - 1) + 1 if self.size else 0
        free = extent + self.before + self.after - self.dilation * (self.taps - 1) - 1
        if not self.partial:
            return free // self.stride + 1
        windows = -(-free // self.stride) + 1
        # The last window begins in the image or in the padding before it, as in PyTorch.
        return windows - 1 if (windows - 1) * self.stride >= extent + self.before else windows

    @property
    def tap_extents(self) -> tuple[int, ...]:
        """The extents of the axes of taps: a single tap needs none."""
        return (self.taps,) if self.taps > 1 else ()

    @property
    def is_padded(self) -> bool:
        """True for windows that reach outside of the image."""
        return self.before > 0 or (self.windows - 1) * self.stride + self.dilation * (self.taps - 1) >= (
            self.size + self.before
        )

    def pixel(self, window_axis: int, tap_axis: int) -> Affine:
        """Return the index of a pixel, of the axes of a view that count windows and taps."""
        taps = (Term(tap_axis, self.dilation),) if self.taps > 1 else ()
        return Affine(-self.before, (Term(window_axis, self.stride), *taps))


def per_axis(value: PerAxis, rank: int, name: str, least: int = 1) -> tuple[int, ...]:
    """Return an argument as one number per spatial axis.

    Raises OperandMismatch for another count, for what is no integer, and for numbers below `least`.
    """
    remedy = f"give an integer, or {rank} of them"
    wrong = OperandMismatch(f"{name}={value!r} for {rank} spatial {'axis' if rank == 1 else 'axes'}", hint=remedy)
    try:
        numbers = tuple(map(index, value)) if isinstance(value, Sequence) else (index(value),) * rank
    except TypeError as failed:
        raise wrong from failed
    if len(numbers) != rank:
        raise wrong
    if min(numbers) < least:
        raise OperandMismatch(f"{name} {value}: it is less than {least}", hint=f"give at least {least}")
    return numbers


def padding_per_axis(
    padding: Padding, taps: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """Return (before, after) per spatial axis.

    "same" gives as many windows as pixels, the odd pixel of padding after the image, as PyTorch; "valid" gives none.
    Raises OperandMismatch for another name or count, numbers below 0, and "same" with strides.
    """
    rank = len(taps)
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise OperandMismatch(f"there is no padding {padding!r}", hint='choose "same" or "valid", or give numbers')
        if padding == "same" and max(strides) > 1:
            raise OperandMismatch(
                f'padding="same" with a stride of {tuple(strides)}: how many windows that makes differs by library',
                hint="give (before, after) per axis",
            )
        totals = [step * (count - 1) if padding == "same" else 0 for step, count in zip(dilation, taps, strict=True)]
        return tuple((total // 2, total - total // 2) for total in totals)
    sides = tuple(padding) if isinstance(padding, Sequence) else (padding,) * rank
    pairs = tuple(tuple(side) if isinstance(side, Sequence) else (side, side) for side in sides)
    if len(pairs) != rank or any(len(pair) != 2 or float in map(type, pair) for pair in pairs):
        raise OperandMismatch(
            f"padding={padding!r} for {rank} spatial {'axis' if rank == 1 else 'axes'}",
            hint=f"give an integer, or per axis an integer or (before, after): {rank} of them",
        )
    if any(number < 0 for pair in pairs for number in pair):
        raise OperandMismatch(f"padding {padding}: it is less than 0", hint="cut pixels off with a slice first")
    return tuple((pair[0], pair[1]) for pair in pairs)
