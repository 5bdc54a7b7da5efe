"""Edited IR of a kernel that is launched in phases: each phase is compiled from its own part of the text."""

import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from tessera.core.base.source import NOWHERE, Source, Span
from tessera.core.compilation import FROM_IR, FROM_PTX
from tessera.core.errors.catalog import BadPtx, BadTileIR
from tessera.core.program.program import Program

_HEAD: Final = re.compile(r"^// phase (\d+) of (\d+)\b.*$", re.MULTILINE)
_MISTAKES: Final = {FROM_IR: BadTileIR, FROM_PTX: BadPtx}


def from_edited_parts(phases: Sequence[Program]) -> tuple[Program, ...]:
    """Return the phases of an edited kernel, each with its part of the text in place of all of it.

    Phases of a kernel that was not edited, or that has one, are returned as they are.

    Raises BadTileIR or BadPtx where the text has other phases than the kernel.
    """
    option = _edited(phases[0])
    if option is None or len(phases) == 1:
        return tuple(phases)
    parts = tuple(_parts(str(phases[0].options[option]), len(phases), option))
    return tuple(
        replace(phase, options={**phase.options, option: part}) for phase, part in zip(phases, parts, strict=True)
    )


@contextmanager
def mistakes_in_whole_text(whole: Program, number: int) -> Generator[None]:
    """Move the mistakes that are found in the part of a phase, counted from 0, to their place in the edited text."""
    try:
        yield
    except (BadTileIR, BadPtx) as mistake:
        option = _edited(whole)
        if option is not None and mistake.source is not None and mistake.span != NOWHERE:
            text = str(whole.options[option])
            head = list(_HEAD.finditer(text))[number]
            front, span = text[: head.end() + 1].count("\n"), mistake.span
            mistake.span = replace(span, line=span.line + front, end_line=span.end_line + front)
            mistake.source = Source(mistake.source.name, text)
        raise


def _edited(program: Program) -> str | None:
    return next((name for name in _MISTAKES if name in program.options), None)


def _parts(text: str, count: int, option: str) -> Iterator[str]:
    heads = list(_HEAD.finditer(text))
    wanted = [(str(number), str(count)) for number in range(1, count + 1)]
    for number in range(max(len(heads), count)):
        if heads[number : number + 1] and number < count and heads[number].groups() == wanted[number]:
            continue
        raise _other_phases(text, heads[number : number + 1], count, option)
    for number, head in enumerate(heads):
        past = heads[number + 1].start() if number + 1 < count else len(text)
        yield text[head.end() + 1 : past]


def _other_phases(text: str, heads: Sequence[re.Match[str]], count: int, option: str) -> BadTileIR | BadPtx:
    line = text[: heads[0].start()].count("\n") + 1 if heads else text.rstrip("\n").count("\n") + 1
    row = text.split("\n")[line - 1]
    name = f"edited {'IR' if option == FROM_IR else 'PTX'}"
    hint = f"keep a line `// phase 1 of {count}` in front of each phase, as in the text that was printed"
    message = f"the kernel is launched in {count} phases, and these are not all that the text has, in order"
    mistake = _MISTAKES[option](message, Span(name, line, 1, line, len(row) + 1), hint)
    mistake.with_source(Source(name, text))
    return mistake
