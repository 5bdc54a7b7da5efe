"""Follow a build from outside: what each name stood for, and every mistake instead of the first one.

Tools that read a text while it is written hand an `Observer` to `specialise`.  A statement with a mistake is then noted
and left out, and what it would have set is `Unknown`: statements that use that are left out too, in silence.
"""

import time
from dataclasses import dataclass, field
from typing import Final

from tessera.core.base.source import Span
from tessera.core.errors.base import TesseraError

_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Unknown:
    """Stands for the value of a name that only a run of the program tells."""


UNKNOWN: Final = Unknown()


class UnknownUsed(Exception):
    """A statement uses what is unknown: nothing can be said about it."""


class OutOfTime(Exception):
    """The build takes longer than its observer has."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake, and the statement of the kernel itself in which it came up (perhaps inside a function it calls)."""

    error: TesseraError
    statement: Span


@dataclass(slots=True)
class Observer:
    """Record of a build.

    bindings: what each place that names something stood for; of a place that is built several times, the last
    mistakes: in the order of the text
    seconds: how long the build may take
    """

    seconds: float = _SECONDS
    bindings: dict[Span, object] = field(default_factory=dict[Span, object])
    mistakes: list[Mistake] = field(default_factory=list[Mistake])
    troubles: int = 0
    """Statements that were left out so far."""
    _started: float = field(default_factory=time.monotonic)

    def restart(self) -> None:
        """Forget the mistakes of an attempt that is made again."""
        self.mistakes.clear()
        self.troubles = 0

    def saw(self, span: Span, binding: object) -> None:
        """Note what the name at `span` stands for."""
        self.bindings[span] = binding

    def tick(self) -> None:
        """Raise OutOfTime when the time is up."""
        if time.monotonic() - self._started > self.seconds:
            raise OutOfTime

    def leave_out(self, error: TesseraError | None, statement: Span, troubles: int) -> None:
        """Note a statement that is left out; `troubles` is how many were before it.

        What goes wrong in a loop or branch of which a part was left out may be a consequence of that, and is not told.
        """
        if error is not None and self.troubles == troubles:
            self.mistakes.append(Mistake(error, statement))
        self.troubles += 1
