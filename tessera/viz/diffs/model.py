"""A diff as plain data: its sides, the stages that they can show, and a verdict on their results."""

from collections.abc import Mapping
from dataclasses import dataclass

from tessera.viz.base.code_figures import FigurePair
from tessera.viz.stage_alignment.changes import Comparison


@dataclass(frozen=True, slots=True)
class Side:
    """Contents of a column.

    kernel, target, level, stage: as `Compiled` names them; stage: the pass, "" for the end of the level
    options: what the compilation was given, and what the pass was given, in words
    """

    kernel: str
    target: str
    level: str
    stage: str
    options: str = ""

    @property
    def label(self) -> str:
        """The side in words."""
        where = f"{self.level} after {self.stage}" if self.stage else f"{self.level}, final"
        parts = (part for part in (self.kernel, self.target, where, self.options) if part)
        return " \u00b7 ".join(parts)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verdict on the results of both sides, which comes before any speed.

    text: in a few words; level: "good", "doubtful" (they differ by rounding) or "bad"; details: a sentence per output
    """

    text: str
    level: str
    details: tuple[str, ...]


@dataclass(frozen=True)
class DiffModel:
    """Everything that a diff shows.

    before, after: the sides; choices: the stages that either side can show, (level, pass)
    chosen: which of them are compared; comparisons: by pairs of numbers into the choices
    verdict: whether the results are right, where both were run
    """

    before: Side
    after: Side
    before_choices: tuple[tuple[str, str], ...]
    after_choices: tuple[tuple[str, str], ...]
    chosen: tuple[int, int]
    comparisons: Mapping[tuple[int, int], Comparison]
    figures: tuple[FigurePair, ...] = ()
    verdict: Verdict | None = None
    group: str = ""

    @property
    def comparison(self) -> Comparison:
        """The one that is shown first."""
        return self.comparisons[self.chosen]
