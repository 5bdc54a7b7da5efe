"""What travels between the compile service and its worker process: pickled requests one way, replies the other.

Both ends are the same installation of Tessera, and the pipe has no name: nobody else can write to it.
"""

from dataclasses import dataclass
from typing import Final

from tessera.core.program.program import Program
from tessera.core.targets import Target


@dataclass(frozen=True, slots=True)
class Compile:
    """Compile `program`; the reply's value is a `Compilation`."""

    program: Program
    target: Target
    observe: bool


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
