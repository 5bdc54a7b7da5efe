"""What is compiled: kernels of the library and their variants, of the documentation, and generated ones.

The name of a case says what it computes; neither a module nor a schedule option is part of it, so that it survives
renaming.
"""

import contextlib
import functools
import io
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest import mock

import tessera
from agreement import test_shipped
from fuzz.kernels import case_of
from replay.variants import VARIANTS
from support import document_calls, library
from support.examples import Example, run_section, sections
from support.random_lanes import Kernel
from tessera.core.errors.base import TesseraError
from tessera.core.program.program import Program
from tessera.core.settings import overridden
from tessera.lowering.program.split_phases import phases
from tessera.runtime.binding.grid import Grid
from tessera.runtime.streams.streams import Stream

_DOCS: Final = Path(__file__).parents[2]
_PAGES: Final = ("README.md", "docs/language.md")
_FROM_TEXT, _LANES = 150, 50
_GROUPS: Final = (None, (32,), (48,), (8, 4), (64,))
_FAMILY: Final = re.compile(r"shipped/\w+|\w+")


@dataclass(frozen=True, slots=True)
class Case:
    """One or more kernels; `programs` makes their programs for the target that the settings name."""

    name: str
    programs: Callable[[], Iterable[Program]]

    @property
    def family(self) -> str:
        """The kernels that it is one of: of shipped ones, the first word of what stands behind that."""
        return _FAMILY.match(self.name)[0]  # type: ignore[index] - every name has one


def _cases() -> Iterator[Case]:
    for name, prepare in test_shipped.CALLS.items():
        yield Case(f"shipped/{name}", functools.partial(_prepared, prepare))
    for name, prepare in VARIANTS.items():
        yield Case(f"variant/{name}", functools.partial(_prepared, prepare))
    for call in library.CALLS:
        yield Case(f"call/{call.name}", functools.partial(_called, call))
    for call in document_calls.CALLS:
        yield Case(f"document/{call.name.removeprefix('document-')}", functools.partial(_called, call))
    for path in _PAGES:
        for heading, blocks in sections(_DOCS / path).items():
            if any(block.kind in ("tessera", "python") for block in blocks):
                name = f"{Path(path).stem.lower()}/{heading}"
                yield Case(name, functools.partial(_shown, _DOCS / path, tuple(blocks)))
    for seed in range(_FROM_TEXT):
        yield Case(f"generated/text {seed:03}", functools.partial(_from_text, seed))
    for seed in range(_LANES):
        yield Case(f"generated/lanes {seed:03}", functools.partial(_lanes, seed))


def _programs(kernel: tessera.Kernel, arguments: tuple[Any, ...]) -> Iterator[Program]:
    yield from phases(kernel.program(arguments))


def _prepared(prepare: Callable[[], Any]) -> Iterator[Program]:
    for launch in prepare().launches:
        yield from _programs(launch.kernel, launch.arguments)


def _called(call: library.Call) -> Iterator[Program]:
    yield from _prepared(lambda: call.prepare(*_arguments(call)))


@functools.lru_cache(maxsize=1)
def _arguments(call: library.Call) -> tuple[Any, ...]:
    """The arguments of a call, once for all targets."""
    return tuple(call.arguments())


def _shown(page: Path, blocks: tuple[Example, ...]) -> Iterator[Program]:
    for kernel, arguments in _run(page, blocks):
        yield from _programs(kernel, arguments)


@functools.lru_cache(maxsize=1)
def _run(page: Path, blocks: tuple[Example, ...]) -> list[tuple[tessera.Kernel, tuple[Any, ...]]]:
    """Run a section of a page by the interpreter; return each kernel it calls, with its arguments."""
    found: dict[object, tuple[tessera.Kernel, tuple[Any, ...]]] = {}
    launch = tessera.Kernel.launch

    def noted(
        kernel: tessera.Kernel, arguments: tuple[object, ...], keywords: Mapping[str, object] | None = None,
        grid: Grid | None = None, stream: Stream | None = None,
    ) -> None:  # fmt: skip
        launch(kernel, arguments, keywords, grid, stream)
        if not _of_a_search():
            values = kernel.ordered(arguments, keywords or {})
            found.setdefault((kernel, kernel.described(values).key), (kernel, values))

    with (
        overridden(target="interpret"), contextlib.redirect_stdout(io.StringIO()),
        mock.patch.object(tessera.Kernel, "launch", noted),
    ):  # fmt: skip
        try:
            run_section(page, list(blocks))
        except TesseraError as mistake:  # the page is wrong: no target refuses this
            raise AssertionError(str(mistake)) from mistake
    return list(found.values())


def _of_a_search() -> bool:
    """Return whether a search launches: which trials it makes, and in which order, depends on how long they take."""
    frames = (frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_stack(None))
    return any(name.startswith("tessera.tuning.") for name in frames)


def _from_text(seed: int) -> Iterator[Program]:
    case = case_of(seed, first=True)
    yield from _programs(tessera.compile_source(case.text).k, tuple(case.arguments()))


def _lanes(seed: int) -> Iterator[Program]:
    yield from phases(Kernel(seed, _GROUPS[seed % len(_GROUPS)]).build())


CASES: Final = {case.name: case for case in _cases()}
"""Every case, by name."""
