"""The parts of IPython's shell and formatters that tests use: most of them have no types in IPython."""

from collections.abc import Callable, Iterator
from typing import Any, Literal, Protocol, cast

from IPython.core.formatters import DisplayFormatter
from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from traitlets.config import Config

from tessera.viz import display
from tessera_magics import ipython


class TypeFormatter(display.TypeFormatter, Protocol):
    """IPython's `BaseFormatter`."""

    type_printers: dict[type, Callable[..., object]]


class Formatter(display.DisplayFormatter, Protocol):
    """IPython's `DisplayFormatter`."""

    mimebundle_formatter: TypeFormatter  # pyright: ignore[reportIncompatibleVariableOverride] - it is never set

    def format(self, obj: object) -> tuple[dict[str, str], dict[str, object]]:
        """Return what an object shows, by MIME type, and the metadata."""
        ...


class Completion(Protocol):
    """IPython's `Completion`."""

    text: str


class Completer(ipython.Completer, Protocol):
    """IPython's `IPCompleter`."""

    def completions(self, text: str, offset: int) -> Iterator[Completion]:
        """Return the completions of the text that ends at `offset`."""
        ...


class Publisher(Protocol):
    """IPython's `DisplayPublisher`."""

    def publish(self, data: dict[str, str]) -> None:
        """Show a bundle."""
        ...


class Shell(ipython.Shell, Protocol):
    """IPython's `InteractiveShell`."""

    user_ns: dict[str, Any]  # whatever cells define
    display_formatter: Formatter  # pyright: ignore[reportIncompatibleVariableOverride] - it is never set
    Completer: Completer  # pyright: ignore[reportIncompatibleVariableOverride] - it is never set
    display_pub: Publisher
    kernel: object

    def run_cell(self, raw_cell: str, store_history: bool = False) -> ExecutionResult:
        """Run a cell."""
        ...

    def run_line_magic(self, magic_name: str, line: str) -> object:
        """Run a magic of one line."""
        ...

    def run_cell_magic(self, magic_name: str, line: str, cell: str) -> object:
        """Run a magic of a cell."""
        ...

    def register_magic_function(
        self, func: Callable[..., object], magic_kind: Literal["line", "cell"], magic_name: str
    ) -> None:
        """Add a magic."""
        ...

    def object_inspect(self, oname: str) -> dict[str, str]:
        """Return what is known of a name."""
        ...

    def object_inspect_mime(self, oname: str) -> dict[str, str]:
        """Return what `?` shows of a name, by MIME type."""
        ...


def formatter() -> Formatter:
    """Return a formatter as IPython makes it."""
    return cast("Formatter", DisplayFormatter())


def start(config: Config | None = None) -> Shell:
    """Return the one shell of this process."""
    return cast("Shell", InteractiveShell.instance(config=config or Config()))


def end() -> None:
    """Forget the shell of this process."""
    InteractiveShell.clear_instance()
