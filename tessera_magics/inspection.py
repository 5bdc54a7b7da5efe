"""`tile.softmax?` and Shift+Tab: the language's names are found without an import, and show their own texts."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tessera.frontend.language.namespace import Intrinsic, Namespace
from tessera_magics.ipython import ObjectInfo, Shell

_PLAIN: Final = "text/plain"
_FIND: Final = "_ofind"
"""IPython's one way from a name to an object; nothing public lets others add names to it."""


def describe_language(shell: Shell) -> None:
    """Have IPython find the language's names wherever the user has no other, and describe operations by their texts."""
    find: Callable[..., ObjectInfo] = getattr(shell, _FIND)

    def find_more(name: str, namespaces: Sequence[tuple[str, Mapping[str, object]]] | None = None) -> ObjectInfo:
        found = find(name, namespaces)
        if found.found or namespaces is not None:
            return found
        names: Callable[[], dict[str, object]] = importlib.import_module("tessera.api.source_module").language_names
        return find(name, [("Tessera", names())])

    setattr(shell, _FIND, find_more)
    shell.inspector.mime_hooks = {**shell.inspector.mime_hooks, _PLAIN: _text}


def forget_descriptions(shell: Shell) -> None:
    """Take that back."""
    if _FIND in vars(shell):
        delattr(shell, _FIND)
    shell.inspector.mime_hooks = {k: hook for k, hook in shell.inspector.mime_hooks.items() if hook is not _text}


def _text(data: ObjectInfo) -> list[tuple[str, str]] | None:
    """Return the text of an operation or a namespace in parts; None for all else, which IPython describes itself."""
    value = data.obj
    if isinstance(value, Intrinsic):
        return [("Signature", value.operation.call), ("Docstring", f"\n{value.__doc__}")]
    return [("Docstring", f"\n{value.__doc__}")] if isinstance(value, Namespace) else None
