"""Split Tessera text into tokens.

Python's own tokenizer refuses `8_KiB`, so the rewrite in `desugar.py` reads tokens from here.  The scanner never
fails: text that is no token of Python is kind "other", and Python's parser says what is wrong with it later.
"""

import keyword
import re
import sys
from collections.abc import Iterator
from typing import Final, NamedTuple


class Token(NamedTuple):
    """One token: `kind` is name, number, string, op or other; offsets count characters; `depth` counts open brackets.

    An opening bracket has the depth outside it, as has its closing one.
    """

    kind: str
    text: str
    start: int
    end: int
    depth: int

    @property
    def is_word(self) -> bool:
        """True for a name that is no keyword."""
        return self.kind == "name" and not keyword.iskeyword(self.text)

    @property
    def ends_atom(self) -> bool:
        """True when an expression may end here, so that a name right after it cannot be Python."""
        return self.is_word or self.kind in ("number", "string") or self.text in (")", "]", "}", "...")


_TOKEN: Final = re.compile(
    r"""
    (?P<space>[ \t\f]+)
  | (?P<join>\\\n)
  | (?P<newline>\n)
  | (?P<comment>\#[^\n]*)
  | (?P<string>(?i:br|rb|fr|rf|[bfru])?(?:\"\"\"|'''|"|'))
  | (?P<number>0[xX]\w*|(?:\d|\.\d)(?:[eE][+-]|[\w.])*)
  | (?P<name>[^\W\d]\w*)
  | (?P<op>\.\.\.|->|:=|\*\*=|//=|<<=|>>=|\*\*|//|<<|>>|[-+*/%&|^@=!<>]=|[-+*/%&|^@=!<>~.,:;()\[\]{}])
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_STRING_END: Final = {
    '"""': re.compile(r'(?:\\.|(?!""").)*"""', re.DOTALL),
    "'''": re.compile(r"(?:\\.|(?!''').)*'''", re.DOTALL),
    '"': re.compile(r'(?:\\.|[^\\\n"])*"', re.DOTALL),
    "'": re.compile(r"(?:\\.|[^\\\n'])*'", re.DOTALL),
}
# From Python 3.12 on, a field of an f-string may hold the f-string's own quotes, newlines and comments.
_FREE_FIELDS: Final = sys.version_info >= (3, 12)


def tokens(text: str) -> Iterator[Token | None]:
    """Yield the tokens of `text` without blanks and comments, and None at the end of each logical line.

    `text` has "\\n" line ends.  Raises RecursionError for f-strings nested beyond reason.
    """
    position = depth = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        assert match is not None, "the last alternative matches any character"
        kind = match.lastgroup or "other"
        start, position = position, match.end()
        if kind == "string":
            position = _string_end(text, match.group(), position)
        if kind == "newline" and depth == 0:
            yield None
        if kind in ("space", "join", "newline", "comment"):
            continue
        piece = text[start:position]
        if piece in (")", "]", "}"):
            depth = max(0, depth - 1)
        yield Token(kind, piece, start, position, depth)
        if piece in ("(", "[", "{"):
            depth += 1
    yield None


def logical_lines(text: str) -> Iterator[list[Token]]:
    """Yield the tokens of each logical line (brackets and backslashes join lines) that has any."""
    line: list[Token] = []
    for token in tokens(text):
        if token is not None:
            line.append(token)
        elif line:
            yield line
            line = []


def _string_end(text: str, opening: str, position: int) -> int:
    """Offset past the string that `opening` (prefix and quotes) begins; its contents start at `position`."""
    quote = opening.lstrip("bBfFrRuU")
    if "f" in opening[: -len(quote)].lower():
        return _literal_end(text, position, quote, in_spec=False)
    match = _STRING_END[quote].match(text, position)
    return match.end() if match else _unterminated(text, position, quote)


def _unterminated(text: str, position: int, quote: str) -> int:
    if len(quote) == 3:
        return len(text)
    end = text.find("\n", position)
    return end if end >= 0 else len(text)


def _literal_end(text: str, position: int, quote: str, *, in_spec: bool) -> int:
    """Offset past the closing quote of an f-string's text, or (in a format spec) of the `}` that ends the spec."""
    while position < len(text):
        char = text[position]
        if text.startswith(quote, position):
            # A quote inside a format spec ends the string: the field was never closed, as Python will say.
            return position if in_spec else position + len(quote)
        if char == "\n" and len(quote) == 1:
            return position
        if char == "\\" or (char == "{" and not in_spec and text.startswith("{{", position)):
            position += 2
        elif char == "{":
            position = _field_end(text, position + 1, quote)
        elif char == "}" and in_spec:
            return position
        else:
            position += 1
    return len(text)


def _field_end(text: str, position: int, quote: str) -> int:
    """Offset past the `}` that closes a replacement field; the field's expression starts at `position`."""
    depth = 0
    while position < len(text):
        if not _FREE_FIELDS and (text.startswith(quote, position) or (text[position] == "\n" and len(quote) == 1)):
            return position
        match = _TOKEN.match(text, position)
        assert match is not None, "the last alternative matches any character"
        kind, piece = match.lastgroup, match.group()
        if depth == 0 and piece == "}":
            return position + 1
        position = match.end()
        if kind == "string":
            position = _string_end(text, piece, position)
        elif piece in ("(", "[", "{"):
            depth += 1
        elif piece in (")", "]", "}"):
            depth -= 1
        elif depth == 0 and piece in (":", ":="):
            # `:=` at the top of a field is a colon and a spec that begins with "=".
            position = _literal_end(text, match.start() + 1, quote, in_spec=True)
    return len(text)
