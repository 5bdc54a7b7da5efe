"""Notebooks as files: the parts of nbformat that tests use, with the types that it does not give them."""

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol, cast

_nbformat: Final = import_module("nbformat")


class Output(Protocol):
    """One output of a cell, a dictionary."""

    output_type: str

    def get(self, key: str, default: dict[str, str], /) -> dict[str, str]:
        """Return the data of an output, by MIME type."""
        ...


class Metadata(Protocol):
    """The metadata of a cell or of a notebook, a dictionary."""

    kernelspec: Any  # names and languages, in a notebook alone

    def get(self, key: str, default: list[str], /) -> list[str]:
        """Return the tags of a cell."""
        ...


class Cell(Protocol):
    """One cell; only cells of code have outputs and a count."""

    id: str
    cell_type: str
    source: str
    execution_count: int | None
    outputs: list[Output]
    metadata: Metadata


class Notebook(Protocol):
    """A notebook of the fourth version."""

    cells: list[Cell]
    metadata: Metadata


def read(path: Path) -> Notebook:
    """Read a notebook."""
    return cast("Notebook", _nbformat.read(path, as_version=4))


def write(notebook: Notebook, path: Path) -> None:
    """Write a notebook."""
    _nbformat.write(notebook, path)


def validate(notebook: Notebook) -> None:
    """Fail where a notebook is not of its format."""
    _nbformat.validate(notebook)


def of_code(cells: Iterable[str]) -> Notebook:
    """Return a notebook of the Python kernel with `cells` of code, none of them run."""
    made = _nbformat.v4.new_notebook(cells=[_nbformat.v4.new_code_cell(text) for text in cells])
    made.metadata.kernelspec = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    made.metadata.language_info = {"name": "python"}
    return cast("Notebook", made)
