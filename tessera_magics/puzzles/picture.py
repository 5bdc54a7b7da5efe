"""The picture of an exercise: small arrays, and which elements one lane or tile of the solution reads and writes."""

from html import escape
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tessera.viz.tile_debugger.trace import Trace
from tessera.viz.tile_debugger.view import tiles
from tessera_magics.puzzles.exercise import Arrays, Exercise, poisoned
from tessera_magics.puzzles.findings import element

_CELL: Final = "padding:2px 7px;text-align:right;border:1px solid rgba(128,128,128,.45)"
_HOLDER: Final = "border:none;vertical-align:top;text-align:left;padding:0 8px"
_READ: Final = "background-color:#cfe3ff;color:#111111"
_WRITTEN: Final = "background-color:#ffd587;color:#111111;font-weight:bold"
_READ_SIGN, _WRITTEN_SIGN = "\N{BULLET}", "\N{BLACK STAR}"


def picture(exercise: Exercise) -> str:
    """Draw the arrays of the smallest size as tables with inline styles; marks come from a run of the solution."""
    inputs, expected = exercise.arguments(exercise.small)
    kernel = exercise.solved.variant(**exercise.constants) if exercise.constants else exercise.solved
    trace = tiles(kernel, *inputs.values(), *poisoned(expected).values()).trace
    result = next(iter(expected))
    place = int(np.ravel_multi_index(exercise.focus, expected[result].shape))
    reads, writes, worker = _focus(trace, result, place)
    made = element(result, expected[result].shape, place)
    told = f"{_READ_SIGN} read and {_WRITTEN_SIGN} written by the {worker} that makes {made}"
    cells = [_array(name, array, reads.get(name), writes.get(name)) for name, array in {**inputs, **expected}.items()]
    arrow = '<td style="border:none;padding:0 12px;font-size:20px">&rarr;</td>'
    row = "".join(cells[: len(inputs)]) + arrow + "".join(cells[len(inputs) :])
    table = f'<table style="border-collapse:collapse;margin:6px 0"><tr>{row}</tr></table>'
    return f'<div style="overflow-x:auto">{table}</div><div style="font-size:12px">{escape(told)}</div>'


def _focus(trace: Trace, name: str, place: int) -> tuple[dict[str, set[int]], dict[str, set[int]], str]:
    """Return what the lane, or tile, that writes an element reads and writes: elements by array."""
    number = next(n for n, known in enumerate(trace.arrays) if known.name == name)
    step, _, lane = next(each for each in trace.users(number, place) if each[1].writes)
    tile = trace.steps[step].tile
    reads: dict[str, set[int]] = {}
    writes: dict[str, set[int]] = {}
    for array, known in enumerate(trace.arrays):
        for _, touch in trace.touches(array, [tile]) if not known.shared else ():
            own = touch.elements if lane is None or touch.lanes is None else touch.elements[touch.lanes == lane]
            (writes if touch.writes else reads).setdefault(known.name, set()).update(own.tolist())
    return reads, writes, "lane" if lane is not None else "tile"


def _array(
    name: str,
    array: NDArray[Any],  # of any type
    reads: set[int] | None,
    writes: set[int] | None,
) -> str:
    """Draw one array, of one or two axes, under its name."""
    rows = array.reshape(1, -1) if array.ndim == 1 else array
    drawn: list[str] = []
    for r, row in enumerate(rows):
        cells = [_cell(value, r * rows.shape[1] + c, reads, writes) for c, value in enumerate(row)]
        drawn.append(f"<tr>{''.join(cells)}</tr>")
    shape = ", ".join(map(str, array.shape))
    label = f"{name}[{shape}]"
    table = f'<table aria-label="{escape(label)}" style="border-collapse:collapse">{"".join(drawn)}</table>'
    return f'<td style="{_HOLDER}"><div><b>{escape(label)}</b></div>{table}</td>'


def _cell(value: object, number: int, reads: set[int] | None, writes: set[int] | None) -> str:
    text = f"{value:.3g}" if isinstance(value, np.floating) else str(value)
    if writes and number in writes:
        return f'<td style="{_CELL};{_WRITTEN}">{_WRITTEN_SIGN}&nbsp;{text}</td>'
    if reads and number in reads:
        return f'<td style="{_CELL};{_READ}">{_READ_SIGN}&nbsp;{text}</td>'
    return f'<td style="{_CELL}">{text}</td>'


def plain_picture(arrays: Arrays) -> str:
    """Return the arrays as text."""
    return "\n".join(f"{name} = {np.array2string(array, precision=3)}" for name, array in arrays.items())
