"""The place of a call in the user's text, for mistakes that no kernel's text shows: settings, grids, streams.

Kept apart from `core/errors/base.py` because it looks at the running program.
"""

import contextlib
import inspect
import linecache
import sys
import sysconfig
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Final, TypeVar, cast

from tessera.core.base.source import NOWHERE, Source, Span
from tessera.core.errors.base import TesseraError

_HERE: Final = Path(__file__).resolve().parents[3]
_OURS: Final = (*(str(_HERE / name) + "/" for name in ("tessera", "tessera_magics")), contextlib.__file__, "<frozen")
_INSTALLED: Final = tuple({sysconfig.get_path(kind) + "/" for kind in ("stdlib", "platstdlib", "purelib", "platlib")})
_MOST_KNOWN: Final = 4096
_KNOWN: Final[dict[tuple[CodeType, int], Span]] = {}
"""Places that were asked for, by the code and the instruction."""
Mistake = TypeVar("Mistake", bound=TesseraError)


def at_call(error: Mistake) -> Mistake:
    """Give `error` the place in the user's text that led to it, where it has none and that text is known.

    That is the line of a function of the user's through which a caught error came, such as one that is captured, or
    else the call that led here.
    """
    if error.span != NOWHERE:
        return error
    error.span, source = _raised_place(error) or call_place()
    if source is not None:
        error.with_source(source)
    return error


def call_place() -> tuple[Span, Source | None]:
    """Return the place in the user's text of the call that led here, and that text; NOWHERE where it is not known."""
    frame = _users_frame(inspect.currentframe())
    return (NOWHERE, None) if frame is None else _place(frame, frame.f_lasti)


def _raised_place(error: TesseraError) -> tuple[Span, Source | None] | None:
    """Return the innermost place in the user's text on the way that an error has come so far; None without one.

    Code that Python generates, and that of installed packages, such as a library that calls back, is not the user's.
    """
    step, innermost = error.__traceback__, None
    while step is not None:
        name = step.tb_frame.f_code.co_filename
        if not _is_ours(name) and not _is_installed(name):
            span, source = _place(step.tb_frame, step.tb_lasti)
            innermost = innermost if source is None else (span, source)
        step = step.tb_next
    return innermost


def _place(frame: FrameType, instruction: int) -> tuple[Span, Source | None]:
    """Return the place of an instruction of a frame, and the text that it is in."""
    name = frame.f_code.co_filename
    lines = linecache.getlines(name, frame.f_globals)
    span = _span(frame.f_code, instruction, lines)
    return (NOWHERE, None) if span is None else (span, Source(name, "".join(lines), 1, cell_label(name)))


def call_span() -> Span:
    """Return the place in the user's text of the call that led here; quick, where it was asked for before."""
    frame = _users_frame(inspect.currentframe())
    if frame is None:
        return NOWHERE
    key = (frame.f_code, frame.f_lasti)
    span = _KNOWN.get(key)
    if span is None:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
        span = _KNOWN[key] = _span(frame.f_code, frame.f_lasti, lines) or NOWHERE
    return span


def function_source(function: object) -> Source | None:
    """Return the text that a function stands in; None for one that is not written in Python, or whose text is lost."""
    while isinstance(inner := getattr(function, "__wrapped__", None) or getattr(function, "function", None), Callable):
        function = cast("object", inner)
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType) or code.co_filename.startswith(_OURS):
        return None
    lines = linecache.getlines(code.co_filename, getattr(function, "__globals__", None))
    return Source(code.co_filename, "".join(lines), 1, cell_label(code.co_filename)) if lines else None


def _users_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame that runs code which is not Tessera's."""
    while frame is not None and _is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


@lru_cache(_MOST_KNOWN)
def _is_ours(name: str) -> bool:
    return name.startswith(_OURS)


@lru_cache(_MOST_KNOWN)
def _is_installed(name: str) -> bool:
    return name.startswith(_INSTALLED)


def _span(code: CodeType, instruction: int, lines: list[str]) -> Span | None:
    """Return the place of an instruction; Python counts columns in bytes of UTF-8."""
    positions = list(code.co_positions())[instruction // 2]
    line, end_line, column, end_column = positions
    if line is None or end_line is None or column is None or end_column is None or not 1 <= line <= len(lines):
        return None
    if end_line > len(lines):
        return None

    def characters(number: int, count: int) -> int:
        return len(lines[number - 1].encode()[:count].decode(errors="ignore")) + 1

    return Span(code.co_filename, line, characters(line, column), end_line, characters(end_line, end_column))


def cell_label(name: str) -> str:
    """Return what IPython calls the cell of this file name ("Cell In[3]"), or an empty string."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    named = shell.compile.format_code_name(name) if shell is not None else None
    return " ".join(named) if named else ""


def level_of_user() -> int:
    """Return the stack level of the user's line for a warning, as seen from the function that calls this one."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith("tessera."):
        frame, level = frame.f_back, level + 1
    return level
