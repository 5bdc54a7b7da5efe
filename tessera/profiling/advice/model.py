"""Advice as data, and trials of it."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from tessera.core.program.program import Attribute
from tessera.profiling.comparison import Comparison, compare
from tessera.profiling.origin import Origin

Options = Mapping[str, Attribute]
_WHOLE: Final = 1000
"""From here on numbers are written without decimals."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A number that an advice stands on, with its unit."""

    name: str
    value: float
    unit: str

    def __str__(self) -> str:
        if self.unit == "%":
            return f"{self.name} {self.value:.0%}"
        value = f"{self.value:,.0f}" if abs(self.value) >= _WHOLE else f"{self.value:.4g}"
        return f"{self.name} {value}{' ' if self.unit else ''}{self.unit}"


def options_text(options: Options) -> str:
    """Return settings in words, `BM=64, stages=3`."""
    return ", ".join(f"{name}={value}" for name, value in options.items())


class Measured(Protocol):
    """Times of variants that a search measured for the profiled kernel and its arguments."""

    def ratio(self, options: Options) -> float | None:
        """Return a variant's time by that of the profiled values: inf of none that compiles, None where unknown."""
        ...

    @property
    def own(self) -> Options:
        """The profiled values of what was searched."""
        ...

    @property
    def fastest(self) -> Options:
        """The values of the best configuration that differ from the profiled ones; none where these are the best."""
        ...


@dataclass(frozen=True, slots=True)
class TrialResult:
    """A variant beside the original: its options, and how the two compare."""

    options: Options
    comparison: Comparison

    @property
    def ratio(self) -> float:
        """The variant's time by the original's, medians of launches in turns: 0.5 is twice as fast."""
        return 1 / self.comparison.ratio

    @property
    def agrees(self) -> bool:
        """Return whether rounding explains all differences of the results."""
        return self.comparison.agrees

    def __str__(self) -> str:
        settings = options_text(self.options)
        found = self.comparison
        before, after = (statistics.median(times) * 1e6 for times in (found.original, found.other))
        told = "" if found.clear else ", within the launches' noise"
        same = "same results" if found.agrees else f"OTHER RESULTS (differ by {found.difference:.2g})"
        return (
            f"{settings}: {found.ratio:.2f} times as fast ({before:,.1f} µs to {after:,.1f} µs, "
            f"{len(found.other)} launches each{told}), {same}"
        )


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing that costs time.

    kind: "serial loop", "tail", "imbalance", ...; text: what it is and what to do
    gain: the share of the launch's time that the change should save at most; None where nothing says how much
    lines: of the user's file; options: settings worth a try, each for `Kernel.variant`
    """

    kind: str
    text: str
    evidence: tuple[Evidence, ...]
    gain: float | None = None
    lines: tuple[int, ...] = ()
    options: tuple[Options, ...] = ()
    origin: Origin | None = field(default=None, compare=False, repr=False)

    def with_origin(self, origin: Origin | None) -> "Advice":
        """Return the advice with what its trials need."""
        return replace(self, origin=origin)

    def trial(
        self, number: int = 0, arguments: Sequence[object] | None = None, told: Callable[[str], None] | None = None
    ) -> TrialResult:
        """Compile the variant with `options[number]`, compare its results with the original's, and measure both.

        arguments: of the call, None: those of the profiled one, where they are still alive; only copies are written
        told: hears what is being done

        Raises ValueError where this advice names no option to try, or the arguments are gone.
        """
        if self.origin is None or not self.options:
            raise ValueError(f"the advice on {self.kind} is a change of the text, with no option to try")
        origin, options = self.origin, self.options[number]
        values = tuple(arguments) if arguments is not None else origin.arguments.values()
        if values is None:
            raise ValueError("the arguments of the profiled call are gone: give them, advice.try_(x, y, ...)")
        variant = origin.kernel.variant(**options)
        return TrialResult(options, compare(origin.kernel, variant, values, origin.grid, told=told))

    def try_(self, *arguments: object) -> tuple[TrialResult, ...]:
        """Try every option; return the results, the fastest first.  See `trial`."""
        given = arguments or None
        found = [self.trial(number, given) for number in range(max(1, len(self.options)))]
        return tuple(sorted(found, key=lambda result: result.ratio))


@dataclass(frozen=True, slots=True)
class Explanation:
    """Limits of a launch: advice, the largest estimated gain first, and remarks on how far to trust the numbers.

    verdict: in a sentence
    """

    verdict: str
    advice: tuple[Advice, ...]
    notes: tuple[str, ...]
