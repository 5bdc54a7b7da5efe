"""Compare two kernels on one call: do they compute the same, to the bit or nearly, and which is faster.

Both run on copies of the arguments, so nothing of the user's is written.  Launches of the two are timed in turns, first
one then the other, so that what slows the machine for a while slows both; the ratio is that of the medians.
"""

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

import numpy as np

from tessera.core.errors.catalog import NotAvailableYet
from tessera.core.progress import working
from tessera.kernels.kernel import Kernel
from tessera.profiling.argument_clones import ClonedArguments, CloneRing
from tessera.profiling.timing import timer_for
from tessera.profiling.wrong_elements import Numbers, tolerance_of
from tessera.runtime.binding.grid import Grid

_ROUNDS: Final = 15
_PATIENCE: Final = 1.0
"""Seconds after which no further round is begun, once there were three."""
_FEWEST: Final = 3


@dataclass(frozen=True, slots=True)
class Agreement:
    """How the values of one output agree with the original's.

    equal: elements whose bits are the same, or that are NaN in both; elements: all
    largest: the largest absolute difference; None where one of the two is not finite and the other is
    relative: that as a share of the original's largest finite value; None where that is 0, or `largest` is None
    place: where the largest difference stands
    tolerance: of `relative`, what sums in another order may differ by; 0 for integers
    """

    name: str
    elements: int
    equal: int
    largest: float | None
    relative: float | None
    place: tuple[int, ...]
    tolerance: float = 0.0

    @property
    def agrees(self) -> bool:
        """Return whether rounding explains all differences."""
        return self.same or self.largest == 0.0 or (self.relative is not None and self.relative <= self.tolerance)

    @property
    def same(self) -> bool:
        """Return whether every element has the original's bits."""
        return self.equal == self.elements

    def __str__(self) -> str:
        if self.same:
            return f"{self.name}: the same to the bit"
        where = f"at {list(self.place)}"
        if self.largest is None:
            return f"{self.name}: {self.elements - self.equal:,} of {self.elements:,} differ, not finite {where}"
        share = f" ({self.relative:.2g} of the largest value)" if self.relative is not None else ""
        differ = f"{self.elements - self.equal:,} of {self.elements:,} differ"
        return f"{self.name}: {differ}, by at most {self.largest:.3g}{share} {where}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Agreement and times of two kernels on one call; times in seconds, one a launch, in turns."""

    agreements: tuple[Agreement, ...]
    original: tuple[float, ...]
    other: tuple[float, ...]

    @property
    def same(self) -> bool:
        """Return whether every output has the same bits."""
        return all(each.same for each in self.agreements)

    @property
    def agrees(self) -> bool:
        """Return whether rounding explains all differences of all outputs."""
        return all(each.agrees for each in self.agreements)

    @property
    def difference(self) -> float:
        """The largest difference of any output, relative to its largest value; infinite where one is not finite."""
        shares = [each.relative if each.largest is not None else math.inf for each in self.agreements if not each.same]
        return max((math.inf if share is None else share for share in shares), default=0.0)

    @property
    def clear(self) -> bool:
        """Return whether no launch of the slower kernel was as fast as the faster one's median."""
        slower, faster = (self.original, self.other) if self.ratio >= 1 else (self.other, self.original)
        return min(slower) > statistics.median(faster)

    @property
    def ratio(self) -> float:
        """The original's median time over the other's: above 1, the other is faster."""
        return statistics.median(self.original) / statistics.median(self.other)

    @property
    def verdict(self) -> str:
        """How the results agree, in a few words: "same bits", or how many elements differ, in all outputs."""
        if not self.agreements:
            return "no outputs"
        if self.same:
            return "same bits"
        different, elements = (sum(each.elements - each.equal for each in self.agreements),
                               sum(each.elements for each in self.agreements))  # fmt: skip
        return f"{different:,} of {elements:,} differ" + (" by rounding" if self.agrees else "")

    def __str__(self) -> str:
        times = [statistics.median(times) * 1e6 for times in (self.original, self.other)]
        agreed = "; ".join(map(str, self.agreements)) or "no outputs"
        return f"{agreed}. {times[0]:.1f} us before, {times[1]:.1f} us now: {self.ratio:.2f} x as fast"


def compare(
    original: Kernel, other: Kernel, values: Sequence[object], grid: Grid | None = None, *,
    told: Callable[[str], None] | None = None,
) -> Comparison:  # fmt: skip
    """Run two kernels of the same parameters on copies of `values`, compare their outputs, and time both.

    told: hears what is being done

    Raises NotAvailableYet where one runs on a GPU and the other does not, and what a launch raises.
    """
    kinds = [kernel.target_for(values).kind for kernel in (original, other)]
    if kinds[0].on_gpu != kinds[1].on_gpu:
        raise NotAvailableYet("a kernel on a GPU and one that is not are not timed beside each other")
    tell = told or _unheard
    tell("compiling")
    mutable = output_names(original, values)
    other.compile_quietly(*values)
    tell("comparing results")
    results = [_results(kernel, values, mutable, grid, on_device=kinds[0].on_gpu) for kernel in (original, other)]
    agreements = tuple(agreement(name, value, results[1][name]) for name, value in results[0].items())
    ring = CloneRing(values, [name is not None for name in mutable], on_device=kinds[0].on_gpu)
    timer = timer_for(kinds[0], values)
    times: tuple[list[float], list[float]] = ([], [])
    begun = time.monotonic()
    try:
        with timer.inside(), working(f"timing {other.source.name} beside the original", _ROUNDS) as task:
            for turn in range(_ROUNDS):
                if turn >= _FEWEST and time.monotonic() - begun > _PATIENCE:
                    break
                task.step(turn)
                tell(f"measuring, {turn + 1} of at most {_ROUNDS} rounds")
                for kernel, found in zip((original, other), times, strict=True):
                    arguments = ring.take()
                    found.append(
                        timer.time(lambda kernel=kernel, given=arguments: kernel.launch(given.values, None, grid))
                    )
                    arguments.restore()
    finally:
        timer.close()
        ring.close()
    return Comparison(agreements, tuple(times[0]), tuple(times[1]))


def _unheard(_: str) -> None:
    """Do nothing."""


def results_of(
    kernel: Kernel, values: Sequence[object], grid: Grid | None = None, named_like: Kernel | None = None
) -> Mapping[str, Numbers]:
    """Return what a kernel writes, by the parameters of `named_like` (None: its own), on copies of its arguments."""
    on_device = kernel.target_for(values).kind.on_gpu
    return _results(kernel, values, output_names(named_like or kernel, values), grid, on_device=on_device)


def output_names(kernel: Kernel, values: Sequence[object]) -> list[str | None]:
    """Return, for each argument, its parameter's name where the kernel may write it."""
    compiled = kernel.compile_quietly(*values)
    written = {binding.name for binding in compiled.bindings if binding.mutable}
    names = [parameter.arg for parameter in kernel.source.function.args.args]
    return [name if name in written else None for name in names]


def _results(
    kernel: Kernel, values: Sequence[object], mutable: Sequence[str | None], grid: Grid | None, *, on_device: bool
) -> Mapping[str, Numbers]:
    """Return what a kernel writes, by parameter, on a copy of the arguments."""
    copies = ClonedArguments(values, [name is not None for name in mutable], on_device=on_device)
    try:
        kernel.launch(copies.values, None, grid)
        return {name: copies.read(index) for index, name in enumerate(mutable) if name is not None}
    finally:
        copies.close()


def agreement(name: str, original: Numbers, other: Numbers) -> Agreement:
    """Return how the values of one output agree."""
    same_bits = _bits(original) == _bits(other)
    exact = original.dtype.kind not in "fV"
    a, b = (np.asarray(each, np.float64 if not exact else None) for each in (original, other))
    equal = same_bits | (np.isnan(a) & np.isnan(b)) if not exact else same_bits
    tolerance = tolerance_of(original.dtype)
    if bool(equal.all()):
        return Agreement(name, original.size, original.size, 0.0, 0.0, (), tolerance)
    with np.errstate(all="ignore"):
        distance = np.where(equal, 0.0, np.abs(a.astype(np.float64) - b.astype(np.float64)))
        sizes = np.abs(a.astype(np.float64))
        peak = float(np.max(sizes, initial=0.0, where=np.isfinite(sizes)))
    strange = ~np.isfinite(distance)
    at = int(np.argmax(strange if strange.any() else distance))
    place = tuple(int(index) for index in np.unravel_index(at, original.shape))
    largest = None if strange.any() else float(distance.max())
    relative = largest / peak if largest is not None and peak > 0 else None
    return Agreement(name, original.size, int(equal.sum()), largest, relative, place, tolerance)


def _bits(array: Numbers) -> Numbers:
    whole = np.ascontiguousarray(array)
    return cast("Numbers", whole.view(f"u{whole.itemsize}"))
