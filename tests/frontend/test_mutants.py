"""Ten thousand damaged kernels: each can be read, or is a mistake with a place in the text; nothing else happens."""

import random
import warnings
from collections.abc import Iterator
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.documents import BLOCKS
from tessera.core.errors.catalog import SyntaxMistake
from tessera.frontend.syntax.source_file import read_cell

CODE: Final = sorted(BLOCKS.values())
BATCHES: Final = 20
MUTANTS: Final = 500

# Pieces that the rewrite, the scanner or Python's parser treat in a way of their own.
PIECES: Final = (
    *("mut ", "_KiB", "8_KB", "8KiB", "KiB_8", "0.5_MiB", "@", "tile[", "tile(", "shared(", "shared[", "stream=", "="),
    *(".global", "global ", "del 8_KiB", "for 8_KiB in x:", "import 8_KiB", "f(8_KiB=1)", "(8_KiB:=3)", "case 8_KiB:"),
    *("]", ")", "(", "[", "{", "}", "\n", "    ", "\t", "\\\n", "\r", ";", ",", ":", "...", "*", "**", "#", "||", "&&"),
    *('"', "'", '"""', 'f"', "f'{", "{{", "\\", "0x", "1e", "0..9", "é", "日本", "𝟘", "\u2028", "\x0c", "\ufeff", "\0"),
    *("if ", "def ", "class ", "async ", "await ", "lambda x: ", "match x:", "yield ", "return ", "nonlocal q\n"),
    *("type X[T=int]=1", "k[g, stream=s](x)", "x[a=1]", "@a @b\n", "k<<<g>>>(x)", "not ", "\ud800"),
)


def mutate(text: str, random_: random.Random) -> str:
    """Insert pieces into `text`, delete, change and repeat characters."""
    chars = list(text)
    for _ in range(random_.choice((1, 1, 2, 3, 6))):
        place = random_.randrange(len(chars) + 1)
        match random_.randrange(4):
            case 0:
                chars[place:place] = random_.choice(PIECES)
            case 1:
                del chars[place : place + random_.choice((1, 1, 2, 5, 20))]
            case 2:
                chars[place : place + 1] = chr(random_.randrange(32, 127))
            case _:
                start = random_.randrange(len(chars) + 1)
                chars[place:place] = chars[start : start + random_.randrange(30)]
    return "".join(chars)


def read(text: str) -> bool:
    """Read `text`; False for a mistake, whose message must render and point into the text."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    cell, mistake = None, None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's own, about "is" with literals and unknown escapes
        try:
            cell = read_cell(text, "<mutant>", first_line=3)
        except SyntaxMistake as error:
            mistake = error
    if mistake is not None:
        assert str(mistake).startswith("TSR-E001")
        assert 3 <= mistake.span.line < 3 + len(lines)
        assert 1 <= mistake.span.column <= len(lines[mistake.span.line - 3]) + 1
        return False
    assert cell is not None
    for kernel in cell.kernels:
        assert kernel.source.line(kernel.function.lineno)
    return True


def mutants(seed: int) -> Iterator[str]:
    """The mutants of one batch, the same in every run."""
    random_ = random.Random(seed)
    for _ in range(MUTANTS):
        yield mutate(random_.choice(CODE), random_)


@pytest.mark.parametrize("seed", range(BATCHES))
def test_mutants_are_read_or_refused(seed: int):
    survived = sum(read(text) for text in mutants(seed))
    assert 0 < survived < MUTANTS


@settings(max_examples=300)
@given(st.lists(st.sampled_from((*PIECES, *CODE)) | st.text(max_size=6), max_size=12))
def test_heaps_of_pieces_are_read_or_refused(pieces: list[str]):
    read("".join(pieces))
