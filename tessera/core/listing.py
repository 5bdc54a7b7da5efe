"""One level of a compilation as text, each line linked to the user's source and to the operations it came from."""

from dataclasses import dataclass

from tessera.core.source import Span


@dataclass(frozen=True, slots=True)
class Line:
    """One printed line.

    `spans` are the places in the user's text it came from (none: the compiler made it up); `ops` are the identities
    of the operations it stands for: numbers given once, when the kernel becomes Tile IR, and kept by every pass.
    """

    text: str
    spans: tuple[Span, ...] = ()
    ops: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Listing:
    """The text of one of a target's levels, as it stood after `stage` (a pass name, or "" for the final one)."""

    level: str
    stage: str
    lines: tuple[Line, ...]

    def __reduce__(self) -> tuple[object, ...]:
        """Lines are pickled as tuples, several times faster than as dataclasses with slots: there are thousands."""
        return _listing, (self.level, self.stage, [(line.text, line.spans, line.ops) for line in self.lines])

    @property
    def text(self) -> str:
        """The whole text, lines joined by newlines."""
        return "\n".join(line.text for line in self.lines)


def _listing(level: str, stage: str, lines: list[tuple[str, tuple[Span, ...], tuple[int, ...]]]) -> Listing:
    return Listing(level, stage, tuple(Line(*line) for line in lines))
