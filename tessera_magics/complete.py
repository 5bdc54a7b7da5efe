"""Completion in `%%tessera` cells and `%tessera` lines: options, commands, and the names of the language."""

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, Final

from tessera_magics.line import kernel_names
from tessera_magics.names import Found, complete_body
from tessera_magics.options import complete_cell, complete_line

_api: Final[Any] = import_module("IPython.core.completer")
_IDENTIFIER: Final = "tessera"
_PRIORITY: Final = 100
"""Above the matchers of IPython, which know nothing of the language and would only add to what we find."""


def complete_language(shell: Any) -> None:
    """Have IPython ask us, too, what can stand at the cursor."""
    shell.Completer.custom_matchers.append(_matcher(shell))


def forget_language(shell: Any) -> None:
    """Take that back."""
    kept = [one for one in shell.Completer.custom_matchers if getattr(one, "matcher_identifier", "") != _IDENTIFIER]
    shell.Completer.custom_matchers[:] = kept


def _matcher(shell: Any) -> Callable[[Any], Any]:
    @_api.context_matcher(identifier=_IDENTIFIER, priority=_PRIORITY)
    def complete(context: Any) -> Any:
        found = _complete(shell, context.full_text, context.cursor_line, context.text_until_cursor)
        if found is None:
            return {"completions": []}
        return {
            "completions": [_api.SimpleCompletion(text=name, type=kind) for name, kind in found.names],
            "matched_fragment": found.fragment,
            "suppress": found.alone,
            "ordered": True,
        }

    return complete


def _complete(shell: Any, text: str, number: int, line: str) -> Found | None:
    lines = text.split("\n")
    if line.lstrip().startswith("%tessera"):
        return _words(line, complete_line(line, kernel_names(shell.user_ns)))
    if not lines[0].startswith("%%tessera"):
        return None
    if number == 0:
        return _words(line, complete_cell(line))
    return complete_body("\n".join([*lines[1:number], line]), shell.user_ns)


def _words(line: str, words: Iterable[str]) -> Found:
    """Completions of a magic's own line."""
    current = "" if line.endswith(" ") else line.rsplit(maxsplit=1)[-1]
    return Found(current, tuple((word, "param") for word in words), alone=True)
