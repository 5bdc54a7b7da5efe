"""The names a kernel's body may use besides its own: closure variables, then globals; and which of them it did use."""

from collections.abc import Callable, Iterator, Mapping
from types import CellType, FunctionType
from typing import Final

_MISSING: Final = object()

Capture = tuple[Callable[[str], object], str, object]
"""How to look a name up again, the name, and what it stood for when the kernel was compiled."""


class FreeNames(Mapping[str, object]):
    """A function's surroundings as one mapping; `captured` remembers every name that was found in it."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._globals: dict[str, object] = {}
        self._cells: dict[str, CellType] = {}
        if isinstance(function, FunctionType):
            self._globals = function.__globals__
            self._cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        self._captured: dict[str, object] = {}

    def __getitem__(self, name: str) -> object:
        value = self._find(name)
        if value is _MISSING:
            raise KeyError(name)
        self._captured[name] = value
        return value

    def __iter__(self) -> Iterator[str]:
        return iter({**self._globals, **self._cells})

    def __len__(self) -> int:
        return len({**self._globals, **self._cells})

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find(name) is not _MISSING

    @property
    def captured(self) -> tuple[Capture, ...]:
        """Every name that was looked up and found, for `unchanged`."""
        return tuple(
            (self._find if name in self._cells else self._globals.get, name, value)
            for name, value in self._captured.items()
        )

    def _find(self, name: str) -> object:
        cell = self._cells.get(name)
        if cell is None:
            return self._globals.get(name, _MISSING)
        try:
            return cell.cell_contents
        except ValueError:  # assigned only later
            return _MISSING


def unchanged(captured: tuple[Capture, ...]) -> bool:
    """Return whether every captured name still stands for the same object."""
    for find, name, value in captured:  # noqa: SIM110 - `all` with a generator takes three times as long, in every launch
        if find(name) is not value:
            return False
    return True
