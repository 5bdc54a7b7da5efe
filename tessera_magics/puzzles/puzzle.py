"""A puzzle as a notebook shows it: its text and picture, a hint, the hidden solution, and the check of an answer."""

import re
from dataclasses import dataclass
from html import escape
from typing import Final

from tessera.kernels.kernel import Configured, Kernel
from tessera_magics.puzzles.check import Verdict, check
from tessera_magics.puzzles.course import COURSE
from tessera_magics.puzzles.exercise import Exercise
from tessera_magics.puzzles.picture import picture, plain_picture

_PRE: Final = "margin:4px 0;white-space:pre;overflow-x:auto"


@dataclass(frozen=True)
class Shown:
    """A text that a cell shows: as it is, or as HTML."""

    text: str
    html: str

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/plain": self.text, "text/html": self.html}


@dataclass(frozen=True)
class Puzzle:
    """One puzzle of the course: show it, write the kernel, and `check` it."""

    number: int
    exercise: Exercise

    @property
    def title(self) -> str:
        """Its number and name."""
        return f"{self.number}. {self.exercise.title}"

    @property
    def skeleton(self) -> str:
        """The text of the cell to fill."""
        return self.exercise.skeleton

    def check(self, answer: Kernel | Configured) -> Verdict:
        """Run a kernel under the sanitizer at several sizes, compare with NumPy, and explain the first mistake.

        Raises TypeError for what is no kernel.
        """
        return check(self.exercise, answer)

    def hint(self) -> Shown:
        """Return a hint that leaves the kernel to be written."""
        return Shown(self.exercise.hint, f"<div>{_marked_up(self.exercise.hint)}</div>")

    def solution(self) -> Shown:
        """Return a solution; other kernels may be as right."""
        text = self.exercise.solution.strip()
        return Shown(text, f'<pre style="{_PRE}"><code>{escape(text)}</code></pre>')

    def text(self) -> str:
        """Return the puzzle as plain text: its title, what to do, and the small arrays."""
        inputs, expected = self.exercise.arguments(self.exercise.small)
        return f"{self.title}\n{self.exercise.text}\n{plain_picture({**inputs, **expected})}"

    def html(self) -> str:
        """Return the puzzle with its picture; inline styles only."""
        told = f"<div>{_marked_up(self.exercise.text)}</div>"
        return f"<div><b>{escape(self.title)}</b></div>{told}{picture(self.exercise)}"

    def __repr__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/plain": self.text(), "text/html": self.html()}


def puzzle(number: int) -> Puzzle:
    """Return a puzzle of the course, which counts from 1.  Raises IndexError for a number that none has."""
    if not 1 <= number <= len(COURSE):
        raise IndexError(f"there are puzzles 1 to {len(COURSE)}, and none of number {number}")
    return Puzzle(number, COURSE[number - 1])


def _marked_up(text: str) -> str:
    code = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
    return re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", code)
