"""Completion in `%%tessera` cells and `%tessera` lines, as IPython asks for it; `completions.py` finds what fits."""

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from tessera_magics.ipython import Shell, completer

if TYPE_CHECKING:
    from tessera_magics.language.names import Found

_IDENTIFIER: Final = "tessera"
_PRIORITY: Final = 100
"""Above the matchers of IPython, which know nothing of the language and would only add to what we find."""


class Context(Protocol):
    """The part of IPython's `CompletionContext` that is used here."""

    full_text: str
    cursor_line: int
    text_until_cursor: str


Matcher = Callable[[Context], dict[str, object]]


def complete_language(shell: Shell) -> None:
    """Add a matcher that completes names of the language to IPython's."""
    shell.Completer.custom_matchers.append(_matcher(shell))


def forget_language(shell: Shell) -> None:
    """Take that back."""
    kept = [one for one in shell.Completer.custom_matchers if getattr(one, "matcher_identifier", "") != _IDENTIFIER]
    shell.Completer.custom_matchers[:] = kept


def _matcher(shell: Shell) -> Matcher:
    @completer.context_matcher(identifier=_IDENTIFIER, priority=_PRIORITY)
    def complete(context: Context) -> dict[str, object]:
        # The names are those of the whole language, with kernels: who completes is soon enough to load them.
        find: Callable[..., Found | None] = importlib.import_module("tessera_magics.completions").completions
        found = find(shell.user_ns, context.full_text, context.cursor_line, context.text_until_cursor)
        if found is None:
            return {"completions": []}
        return {
            "completions": [completer.SimpleCompletion(text=name, type=kind) for name, kind in found.names],
            "matched_fragment": found.fragment,
            "suppress": found.alone,
            "ordered": True,
        }

    return complete
