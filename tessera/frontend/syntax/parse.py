"""Text to Python's own syntax tree, Tessera's additions given their plain meaning and every position the user's own."""

import ast
import re
from collections.abc import Callable
from typing import TypeVar, cast

from tessera.core.base.source import Source, Span
from tessera.core.base.syntax_trees import parse_module
from tessera.core.errors.catalog import SyntaxMistake
from tessera.frontend.syntax.desugar import LineIndex, desugar
from tessera.frontend.syntax.normalize import normalise
from tessera.frontend.syntax.syntax_hints import explain

Result = TypeVar("Result")


def parse(source: Source, *, fold_units: bool = False) -> ast.Module:
    """Parse Tessera syntax; plain Python is a part of it.

    `lineno` counts in the source's own numbering and `col_offset` in characters.  `fold_units`: see `normalise`.
    Raises SyntaxMistake, and nothing else, for any text.
    """
    with_unix_ends = Source(source.name, unix_line_ends(source.text), source.first_line, source.label)
    return guarded(with_unix_ends, lambda: _parse(with_unix_ends, fold_units=fold_units))


def _parse(source: Source, *, fold_units: bool) -> ast.Module:
    _refuse_unprintable(source)
    desugared = desugar(source)
    tree = parse_python(desugared.text, source)
    normalise(tree, desugared.marks, source, fold_units=fold_units)
    return tree


def _refuse_unprintable(source: Source) -> None:
    """Point at characters that Python's parser refuses without saying where."""
    match = re.search("[\0\ud800-\udfff]", source.text)
    if match is not None:
        span = LineIndex(source).span(match.start(), match.end())
        message = f"the character {match.group()!a} cannot stand in source text"
        raise SyntaxMistake(message, span, "remove it").with_source(source)


def parse_python(text: str, source: Source) -> ast.Module:
    """Parse `text`, which stands at the place of `source.text`, as plain Python; columns count characters."""
    # The empty lines let Python number lines itself, also inside its messages.
    tree = parse_module("\n" * (source.first_line - 1) + text, source.name)
    if not text.isascii():
        shift_columns(tree, source, to_bytes=False)
    return tree


def unix_line_ends(text: str) -> str:
    """`text` with every line end that Python knows as "\\n"."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def guarded(source: Source, action: Callable[[], Result]) -> Result:
    """Run `action`, which parses or compiles `source`, and explain what Python dislikes as a SyntaxMistake."""
    whole = Span(source.name, source.first_line, 1, source.first_line, 1)
    try:
        return action()
    except SyntaxError as error:
        raise explain(error, source) from None
    except (RecursionError, MemoryError):
        # Python's parser reports its own full stack as a MemoryError.
        mistake = SyntaxMistake("the code is nested too deeply", whole, "split the deepest expression in two")
    except ValueError as error:
        # An integer of more digits than Python converts.
        mistake = SyntaxMistake(f"Python cannot read this: {error}", whole, "write the number in another way")
    raise mistake.with_source(source)


def shift_columns(tree: ast.AST, source: Source, *, to_bytes: bool) -> None:
    """Turn columns that count UTF-8 bytes (Python's) into columns that count characters, or back, in place."""
    lines = source.text.split("\n")
    wide = {number: line for number, line in enumerate(lines, source.first_line) if not line.isascii()}

    def moved(number: int, column: int) -> int:
        line = wide.get(number)
        if line is None:
            return column
        if to_bytes:
            return len(line[:column].encode())
        return len(line.encode()[:column].decode(errors="ignore"))

    for node in ast.walk(tree):
        if "col_offset" in node._attributes:
            node = cast(ast.expr, node)
            node.col_offset = moved(node.lineno, node.col_offset)
            if node.end_lineno is not None and node.end_col_offset is not None:
                node.end_col_offset = moved(node.end_lineno, node.end_col_offset)
