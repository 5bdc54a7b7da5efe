"""`tile.softmax?` and Shift+Tab: the language's names are found without an import, and show their own texts."""

from typing import Any, Final

from tessera.api.source_module import language_names
from tessera.frontend.language.namespace import Intrinsic, Namespace

_PLAIN: Final = "text/plain"
_FIND: Final = "_ofind"
"""IPython's one way from a name to an object; nothing public lets others add names to it."""


def describe_language(shell: Any) -> None:
    """Have IPython find the language's names wherever the user has no other, and describe operations by their texts."""
    find = shell._ofind

    def find_more(name: str, namespaces: Any = None) -> Any:
        found = find(name, namespaces)
        return found if found.found or namespaces is not None else find(name, [("Tessera", language_names())])

    setattr(shell, _FIND, find_more)
    shell.inspector.mime_hooks = {**shell.inspector.mime_hooks, _PLAIN: _text}


def forget_descriptions(shell: Any) -> None:
    """Take that back."""
    if _FIND in vars(shell):
        delattr(shell, _FIND)
    shell.inspector.mime_hooks = {k: hook for k, hook in shell.inspector.mime_hooks.items() if hook is not _text}


def _text(data: Any) -> list[tuple[str, str]] | None:
    """The parts of the text of an operation or a namespace; None for all else, which IPython describes itself."""
    value = data.obj
    if isinstance(value, Intrinsic):
        return [("Signature", value.operation.call), ("Docstring", f"\n{value.__doc__}")]
    return [("Docstring", f"\n{value.__doc__}")] if isinstance(value, Namespace) else None
