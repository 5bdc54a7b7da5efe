"""Places in the user's text: `Source` holds the text, `Span` a range of it."""

import re
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Source:
    """The text of one cell, file or function, as the user wrote it.

    `name` is what tracebacks call it (a cell's file name in IPython); `first_line` is the 1-based number,
    in that file, of the first line of `text`; `label` is what a person calls it (`Cell In[3]`).
    """

    name: str
    text: str
    first_line: int = 1
    label: str = ""

    def line(self, number: int) -> str:
        """Return line `number` (1-based, in the file's own numbering), or an empty string."""
        # Not splitlines(), which also breaks lines where Python does not: form feeds, U+2028 ...
        lines = re.split(r"\r\n|\r|\n", self.text)
        index = number - self.first_line
        return lines[index] if 0 <= index < len(lines) else ""


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A range of a source: 1-based lines and columns (in characters); the end column is exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


NOWHERE = Span("<unknown>", 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Note:
    """A second place that explains an error, e.g. the other access of a race."""

    message: str
    span: Span
    extra: str = field(default="")
