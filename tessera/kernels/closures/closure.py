"""The names a kernel's body may use besides its own: closure variables, then globals; and which of them it did use."""

from collections.abc import Callable, Iterator, Mapping
from types import CellType, FunctionType
from typing import Final

_MISSING: Final = object()


class FreeNames(Mapping[str, object]):
    """A function's surroundings as one mapping; `used` remembers every name that was found in it."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._globals: dict[str, object] = {}
        self._cells: dict[str, CellType] = {}
        if isinstance(function, FunctionType):
            self._globals = function.__globals__
            self._cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        self._used: dict[str, None] = {}

    def __getitem__(self, name: str) -> object:
        value = self._find(name)
        if value is _MISSING:
            raise KeyError(name)
        self._used[name] = None
        return value

    def __iter__(self) -> Iterator[str]:
        return iter({**self._globals, **self._cells})

    def __len__(self) -> int:
        return len({**self._globals, **self._cells})

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find(name) is not _MISSING

    @property
    def used(self) -> tuple[str, ...]:
        """Every name that was looked up and found."""
        return tuple(self._used)

    def _find(self, name: str) -> object:
        cell = self._cells.get(name)
        if cell is None:
            return self._globals.get(name, _MISSING)
        try:
            return cell.cell_contents
        except ValueError:  # assigned only later
            return _MISSING
