"""Read the assembly that LLVM prints: instructions, labels and directives of the sections that hold code."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

_LABEL: Final = re.compile(r"(\.?\w+):")
_COMMENT: Final = re.compile(r"\s*#.*$")

Kind = Literal["instruction", "label", "directive"]


@dataclass(frozen=True, slots=True)
class AssemblyRow:
    """A row of code.

    number: in the whole text, from 0 on; text: without a comment
    """

    number: int
    text: str
    kind: Kind


def rows_of_code(assembly: str) -> Iterator[AssemblyRow]:
    """Yield the rows of the sections that hold code which are not empty."""
    inside = False
    for number, row in enumerate(assembly.split("\n")):
        text = _COMMENT.sub("", row).rstrip()
        bare = text.strip()
        if ".section" in row or bare == ".text":
            inside = bare == ".text" or ',"ax' in text
        elif inside and bare:
            kind: Kind = "label" if _LABEL.match(text) else "directive" if bare.startswith(".") else "instruction"
            yield AssemblyRow(number, text, kind)
