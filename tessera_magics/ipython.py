"""The parts of IPython that have no types, in one place, typed as Any; and the one call that displays."""

from importlib import import_module
from typing import Any, Final

from tessera.session.compiled import Compiled
from tessera.viz.display import compiled_bundle

magic: Final[Any] = import_module("IPython.core.magic")
magic_arguments: Final[Any] = import_module("IPython.core.magic_arguments")
display: Final[Any] = import_module("IPython.display").display


def show(compiled: Compiled, opened: tuple[str, ...]) -> None:
    """Display the viewer with the levels `opened` first."""
    display(compiled_bundle(compiled, opened), raw=True)
