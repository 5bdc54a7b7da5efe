"""The parts of IPython that have no types, in one place; and the one call that displays."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol

from tessera.viz.display import DisplayFormatter, compiled_bundle

if TYPE_CHECKING:
    from tessera.session.compiled import Compiled

magic: Final = import_module("IPython.core.magic")
magic_arguments: Final = import_module("IPython.core.magic_arguments")
completer: Final = import_module("IPython.core.completer")


class DisplayHandle(Protocol):
    """The part of IPython's `DisplayHandle` that is used here."""

    def update(self, obj: object, *, raw: bool) -> None:
        """Show something else in the same place."""
        ...


class _Show(Protocol):
    """The part of `IPython.display.display` that is used here."""

    def __call__(self, obj: object, *, raw: bool = False, display_id: bool = False) -> DisplayHandle | None: ...


display: Final[_Show] = import_module("IPython.display").display


class CodeCache(Protocol):
    """The part of IPython's `CachingCompiler` that is used here."""

    def cache(self, transformed_code: str, number: int, raw_code: str) -> str:
        """Keep a cell's text for tracebacks; return its file name."""
        ...

    def format_code_name(self, name: str) -> tuple[str, str] | None:
        """Return what a person calls the cell of a file name; None for other files."""
        ...


class ObjectInfo(Protocol):
    """The part of IPython's `OInfo` that is used here."""

    found: bool
    obj: object


class MagicsManager(Protocol):
    """The part of IPython's `MagicsManager` that is used here; `magics` by kind ("line", "cell") and name."""

    magics: dict[str, dict[str, object]]


class Inspector(Protocol):
    """The part of IPython's `Inspector` that is used here."""

    mime_hooks: Mapping[str, Callable[..., object]]


class Completer(Protocol):
    """The part of IPython's `IPCompleter` that is used here."""

    custom_matchers: list[Callable[..., object]]


class Shell(Protocol):
    """The part of IPython's `InteractiveShell` that is used here: most of it has no types in IPython."""

    user_ns: dict[str, object]
    execution_count: int
    ast_node_interactivity: str
    ast_transformers: list[object]
    compile: CodeCache
    display_formatter: DisplayFormatter
    magics_manager: MagicsManager
    inspector: Inspector
    Completer: Completer

    def transform_cell(self, raw_cell: str) -> str:
        """Return a cell with its magics and shell commands as Python."""
        ...

    def register_magics(self, magics: object) -> None:
        """Add magics."""
        ...


def show(compiled: "Compiled", opened: tuple[str, ...]) -> None:
    """Display the viewer with the levels `opened` first."""
    display(compiled_bundle(compiled, opened), raw=True)
