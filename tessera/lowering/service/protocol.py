"""Messages between the compile service and its worker process: pickled requests one way, replies the other.

Both ends are the same installation of Tessera, and the pipe has no name: no other process can write to it.
"""

from dataclasses import dataclass
from typing import Final

from tessera.core.events import Attempted, Event, PassRan
from tessera.core.program.program import Program
from tessera.core.targets import Target, TargetKind


@dataclass(frozen=True, slots=True)
class Compile:
    """Compile `program`; the reply's value is a `Compilation`.

    events: the kinds of events that the worker sends on their way, each as soon as it happens, before its reply
    row: the target's row of the table, which the worker's own table may lack
    """

    program: Program
    target: Target
    observe: bool
    events: tuple[type[Event], ...] = ()
    row: TargetKind | None = None


@dataclass(frozen=True, slots=True)
class Warm:
    """Import the compiler and compile something small, so that the next request finds everything in place."""

    target: Target


@dataclass(frozen=True, slots=True)
class Sleep:
    """Do nothing for so many seconds: what an endless compilation looks like from outside."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Abort:
    """Die as LLVM does on input that it does not expect: SIGABRT after a line on stderr."""

    message: str = ""


Request = Compile | Warm | Sleep | Abort


FROM_COMPILER: Final[tuple[type[Event], ...]] = (PassRan, Attempted)
"""Events that happen in the worker."""

# What the worker sends as soon as it has a request, before it sets to work on it.
TAKEN: Final = b"taken"


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one request.

    outcome: "done" (`value` is the result), "mistake" (`value` is a TesseraError) or "failure" (`value` is the text of
             a traceback: our fault)
    peak_bytes: the largest memory the worker has held so far
    """

    outcome: str
    value: object
    peak_bytes: int
