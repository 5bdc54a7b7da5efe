"""Explain what is wrong with an answer, in words: of the sanitizer's reports, and of elements that differ."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tessera.core.base.plurals import counted
from tessera.core.errors import catalog
from tessera.core.errors.base import TesseraError
from tessera.viz.tile_debugger.elements import slice_text
from tessera.viz.tile_debugger.trace import Touch, Trace

Values = NDArray[Any]  # of any element type
_EXPLAINED: Final[tuple[tuple[tuple[type[TesseraError], ...], str, str], ...]] = (
    (
        (catalog.Race, catalog.MeetingTrips),
        "race",
        "Two workers use one element, at least one of them writes, and nothing says who is first.",
    ),
    (
        (catalog.OutOfBounds,),
        "out of bounds",
        "An index lies outside its array. Think of the last lanes and of the first: which of them have nothing to do?",
    ),
    (
        (catalog.MissingBarrier, catalog.CopyInFlight),
        "missing barrier",
        "A lane uses shared memory before the others are done with it: lanes do not run in step.",
    ),
    (
        (catalog.DivergentBarrier,),
        "divergent barrier",
        "Some lanes wait at a barrier that the others never reach. Guard reads and writes, not barriers.",
    ),
    (
        (catalog.UninitialisedRead,),
        "never written",
        "Shared memory is read before anything was written there; it does not begin at 0.",
    ),
    (
        (catalog.ArgumentType, catalog.LossyStore),
        "wrong dtype",
        "The element types do not fit: the arrays of the puzzle are of the types in the signature that was given.",
    ),
)
COMPILER: Final = "The kernel could not be run. The message says where to look:"
MOST_DIGITS: Final = 4e-3
"""Relative error of what went through a 16-bit float, half a unit of bf16's last place."""


@dataclass(frozen=True)
class Finding:
    """One mistake: its kind in a few words, and sentences that explain it."""

    kind: str
    sentences: tuple[str, ...]


def of_error(error: TesseraError) -> Finding:
    """Explain what the sanitizer, or the compiler, reports."""
    for classes, kind, sentence in _EXPLAINED:
        if isinstance(error, classes):
            return Finding(kind, (sentence,))
    return Finding("does not run", (COMPILER,))


def of_unwritten(name: str, unwritten: NDArray[np.bool_]) -> Finding:
    """Explain that elements of a result are never written."""
    numbers = np.flatnonzero(unwritten)
    sentences = [f"{element(name, unwritten.shape, numbers[0])} is never written."]
    if len(numbers) == unwritten.size > 1:
        sentences.append(f"Nor is any other element of {name}: does the kernel write {name} at all?")
    elif len(numbers) > 1:
        sentences.append(
            f"In all, {counted(len(numbers), 'element')} are not: {name}{slice_text(unwritten.shape, numbers)}."
        )
    return Finding("never written", (*sentences, *_at_an_edge(unwritten)))


def of_difference(name: str, got: Values, expected: Values, wrong: NDArray[np.bool_], trace: Trace | None) -> Finding:
    """Explain wrong values: the first of them, who wrote it, and what they look like."""
    numbers = np.flatnonzero(wrong)
    first = int(numbers[0])
    found, right = number(got.flat[first]), number(expected.flat[first])
    sentences = [
        f"{element(name, got.shape, first)} is {found}, and should be {right}.",
        f"{counted(len(numbers), 'element')} of {got.size:,} {'is' if len(numbers) == 1 else 'are'} wrong.",
    ]
    if trace is not None:
        sentences += written_by(trace, name, first)
    if _is_rounded(got, expected):
        sentences.append(
            "All values are right to about three digits, as if they had gone through a 16-bit float: keep them in f32."
        )
        return Finding("wrong dtype", tuple(sentences))
    return Finding("wrong value", (*sentences, *(_likeness(got, expected) or _at_an_edge(wrong))))


def written_by(trace: Trace, name: str, place: int) -> list[str]:
    """Say which tile, lane and line wrote an element last, and whether it was read before that."""
    array = next((n for n, known in enumerate(trace.arrays) if known.name == name and not known.shared), None)
    if array is None:
        return []
    users = trace.users(array, place)
    writes = [each for each in users if each[1].writes]
    if not writes:
        return []
    step, _, lane = writes[-1]
    done = trace.steps[step]
    tile = trace.tiles[done.tile].name
    who = tile if lane is None else f"lane {lane}" if tile.startswith("lanes") else f"lane {lane} of {tile}"
    told = [f"Line {done.line} wrote it ({who}): `{trace.source.line(done.line).strip()}`"]
    if len(writes) > 1:
        told.append(f"It was written {len(writes)} times; this was the last.")
    if _read_first(users):
        told.append(f"{name} was read there before anything was written: it does not begin at 0.")
    return told


def element(name: str, shape: Sequence[int], place: int | np.int64) -> str:
    """Name an element by its row-major number: `out[2, 5]`."""
    return f"{name}[{', '.join(str(int(i)) for i in np.unravel_index(int(place), tuple(shape)))}]"


def number(value: object) -> str:
    """Return a number in at most six digits."""
    return f"{value:.6g}" if isinstance(value, np.floating) else str(value)


def _read_first(users: Sequence[tuple[int, Touch, int | None]]) -> bool:
    return not users[0][1].writes


def _is_rounded(got: Values, expected: Values) -> bool:
    return got.dtype.kind == "f" and bool(np.allclose(got, expected, rtol=MOST_DIGITS, atol=MOST_DIGITS))


def _likeness(got: Values, expected: Values) -> tuple[str, ...]:
    """Recognise results that are right but for their places."""
    if expected.size > 1:
        if expected.ndim == 2 and expected.shape[0] == expected.shape[1] and np.allclose(got, expected.T):
            return ("The result is the transpose of the right one: rows and columns are exchanged.",)
        for axis in range(expected.ndim):
            along = f" along axis {axis}" if expected.ndim > 1 else ""
            if np.allclose(got, np.flip(expected, axis)):
                return (f"The result is the right one in reverse{along}.",)
            inner = [np.take(each, range(1, each.shape[axis]), axis) for each in (got, expected)]
            outer = [np.take(each, range(each.shape[axis] - 1), axis) for each in (got, expected)]
            if inner[0].size > 1 and (np.allclose(inner[0], outer[1]) or np.allclose(outer[0], inner[1])):
                return (f"The result is the right one, shifted by one place{along}.",)
    return ()


def _at_an_edge(wrong: NDArray[np.bool_]) -> tuple[str, ...]:
    """Say so where all wrong elements lie at one end of an axis."""
    for axis, extent in enumerate(wrong.shape):
        others = tuple(a for a in range(wrong.ndim) if a != axis)
        along = np.flatnonzero(wrong.any(axis=others))
        if not 0 < len(along) < extent or along[-1] - along[0] + 1 != len(along):
            continue
        of_axis = f" of axis {axis}" if wrong.ndim > 1 else ""
        if along[-1] == extent - 1:
            return (f"All of them lie at the end{of_axis}, from {along[0]} on: look at how the last block is handled.",)
        if along[0] == 0:
            return (f"All of them lie at the beginning{of_axis}, up to {along[-1]}: look at the first elements.",)
    return ()
