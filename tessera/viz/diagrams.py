"""Small pictures that explain how work is laid out: lanes over elements, tiles over a matrix, banks, pipelines.

Each function returns a `Picture`: an HTML table with inline styles, which survives in notebooks that are not trusted
(scripts, style sheets and SVG do not), and one line of text for everywhere else.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from tessera.core.base.plurals import counted

BANKS: Final = 32
"""Banks of shared memory, each 4 bytes wide, that a warp can read at once on every NVIDIA GPU."""

# Tints of the Okabe-Ito colours, which people with any colour vision can tell apart; the text on them is dark.
TINTS: Final = ("#a8d8f5", "#ffd587", "#7fd6bb", "#f2bfda", "#f7ef9a", "#f2a877", "#b7c4ef", "#cfcfcf")
_IDLE: Final = "#e6e6e6"
_HOT: Final = "#ff8c66"
_CELL: Final = "padding:2px 6px;border:1px solid #888888;text-align:center;color:#111111;font-size:12px"
_TABLE: Final = "border-collapse:collapse;margin:6px 0;display:inline-table"
_PLAIN: Final = "padding:2px 8px;border:none;text-align:right;font-size:12px;background-color:transparent"


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing: `html` for notebooks, `text` (one line) for terminals."""

    html: str
    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.html


def lanes(elements: int, group: int | None = None) -> Picture:
    """Draw which lane of which group handles which of `elements` elements; without `group` there is one group.

    Lanes past the end are drawn idle: the kernel's `if i < n` masks them.
    """
    width = group or elements
    groups = -(-elements // width)
    rows: list[str] = []
    for number in range(groups):
        cells = [_head(f"group {number}" if group else "lanes")]
        for lane in range(width):
            index = number * width + lane
            busy = index < elements
            text = f"lane {lane}<br><b>x[{index}]</b>" if busy else f"lane {lane}<br>&ndash;"
            cells.append(_cell(text, TINTS[number % len(TINTS)] if busy else _IDLE))
        rows.append(_row(cells))
    idle = groups * width - elements
    tail = f", {idle} idle" if idle else ""
    if group is None:
        return _picture(rows, f"{elements} lanes, one an element")
    text = f"{elements} elements over {groups} groups of {width} lanes{tail}"
    return _picture(rows, text)


def tiles(shape: tuple[int, int], tile: tuple[int, int], unit: int = 1) -> Picture:
    """Draw how a matrix of `shape` is cut into tiles of shape `tile`, one a group; a cell is `unit` elements wide.

    The last tiles of a row and a column may stick out: what is outside is masked.
    """
    down, across = (-(-extent // step) for extent, step in zip(shape, tile, strict=True))
    columns = (_head(f"columns {n * tile[1]}..{min(shape[1], (n + 1) * tile[1]) - 1}") for n in range(across))
    rows = [_row([_head(""), *columns])]
    for m in range(down):
        cells = [_head(f"rows {m * tile[0]}..{min(shape[0], (m + 1) * tile[0]) - 1}")]
        for n in range(across):
            inside = (m + 1) * tile[0] <= shape[0] and (n + 1) * tile[1] <= shape[1]
            label = f"<b>group {m * across + n}</b><br>{tile[0]} &times; {tile[1]}"
            label += "" if inside else "<br>edge: masked"
            cells.append(_cell(label, TINTS[(m * across + n) % len(TINTS)], f"height:{max(28, tile[0] // unit)}px"))
        rows.append(_row(cells))
    text = f"{shape[0]} x {shape[1]} in {down * across} tiles of {tile[0]} x {tile[1]}"
    return _picture(rows, text)


def bank(row: int, column: int, columns: int, itemsize: int = 4, swizzle: str | None = None) -> int:
    """Return the bank that holds the first byte of element (row, column) of a shared buffer with `columns` columns.

    With `swizzle="xor"` the 16-byte chunks of each line of 128 bytes change places: chunk c of line r lies at
    c ^ (r % 8).
    """
    address = (row * columns + column) * itemsize
    if swizzle == "xor":
        address ^= (address >> 7 & 7) << 4
    return address // 4 % BANKS


def banks(rows: int, columns: int, itemsize: int = 4, swizzle: str | None = None, column: int = 0) -> Picture:
    """Draw the banks of a shared buffer of `rows` x `columns` elements, as lanes 0..rows-1 read `column` at once.

    Two lanes that need different words of one bank wait for each other: a bank conflict.
    """
    read = [bank(row, column, columns, itemsize, swizzle) for row in range(rows)]
    worst = max(read.count(number) for number in set(read))

    def colour(row: int, place: int) -> str:
        number = bank(row, place, columns, itemsize, swizzle)
        return (_HOT if read.count(number) > 1 else TINTS[2]) if place == column else ""

    drawn = [_row([_head(""), *(_head(f"{place}") for place in range(columns))])]
    for row in range(rows):
        cells = (
            _cell(f"{bank(row, place, columns, itemsize, swizzle)}", colour(row, place)) for place in range(columns)
        )
        drawn.append(_row([_head(f"lane {row}"), *cells]))
    layout = f"swizzle={swizzle}" if swizzle else "row major"
    text = f"{rows} lanes read column {column} of {rows} x {columns} ({layout}): {_conflicts(worst)}"
    return _picture(drawn, text)


def _conflicts(count: int) -> str:
    return "no bank conflict, 1 turn" if count == 1 else f"{count} of them share a bank, {count} turns"


def shuffle_sum(width: int = 8) -> Picture:
    """Draw the steps of a sum over `width` lanes with `warp_shuffle_down`: which lanes' values each lane holds."""
    held = [[lane] for lane in range(width)]
    drawn = [_row([_head(""), *(_head(f"lane {lane}") for lane in range(width))])]
    drawn.append(_row([_head("start"), *(_cell(f"{lane}", "#f4f4f4") for lane in range(width))]))
    offset = width // 2
    while offset:
        held = [own + (held[lane + offset] if lane < offset else []) for lane, own in enumerate(held)]
        cells = (
            _cell(" + ".join(map(str, own)), TINTS[0] if lane < offset else _IDLE) for lane, own in enumerate(held)
        )
        drawn.append(_row([_head(f"offset {offset}"), *cells]))
        offset //= 2
    text = f"{width} lanes summed in {width.bit_length() - 1} steps; lane 0 holds the sum"
    return _picture(drawn, text)


def pipeline(blocks: int, stages: int = 2) -> Picture:
    """Draw copies and computation of a pipeline over `blocks` blocks with `stages` buffers, step by step."""
    drawn = [_row([_head(""), *(_head(f"step {step}") for step in range(blocks + stages - 1))])]

    def track(name: str, first: int, verb: str) -> str:
        cells = [_head(name)]
        for step in range(blocks + stages - 1):
            block = step - first
            busy = 0 <= block < blocks
            label = f"{verb} block {block}<br>s{block % stages}" if busy else "&ndash;"
            cells.append(_cell(label, TINTS[block % stages] if busy else _IDLE))
        return _row(cells)

    drawn += [track("copy", 0, "load"), track("compute", stages - 1, "use")]
    alone, together = blocks * 2, blocks + stages - 1
    text = f"{counted(blocks, 'block')}, {counted(stages, 'buffer')}: {counted(together, 'step')} instead of {alone}"
    return _picture(drawn, text)


def barrier(names: Sequence[str], work: Callable[[int], int]) -> Picture:
    """Draw what lanes called `names` do around a barrier: `work(lane)` is how many steps each needs before it."""
    needed = [work(lane) for lane in range(len(names))]
    longest = max(needed)
    drawn: list[str] = []
    for name, steps in zip(names, needed, strict=True):
        cells = [_head(name)]
        cells += [_cell("work", TINTS[0])] * steps
        cells += [_cell("wait", _IDLE)] * (longest - steps)
        cells += [_cell("<b>barrier</b>", TINTS[1]), _cell("go on", TINTS[2])]
        drawn.append(_row(cells))
    text = f"{len(names)} lanes wait at the barrier for the slowest: {longest} steps"
    return _picture(drawn, text)


def _cell(text: str, colour: str, style: str = "") -> str:
    if not colour:  # hundreds of them make up a bank view: they stay as the page draws tables
        return f"<td>{text}</td>"
    return f'<td style="{_CELL};background-color:{colour}{";" + style if style else ""}">{text}</td>'


def _head(text: str) -> str:
    return f'<th style="{_PLAIN}">{escape(text)}</th>'


def _row(cells: Iterable[str]) -> str:
    return f'<tr style="background-color:transparent">{"".join(cells)}</tr>'


def _picture(rows: Iterable[str], text: str) -> Picture:
    html = f'<div style="overflow-x:auto"><table style="{_TABLE}">{"".join(rows)}</table></div>'
    return Picture(f'{html}<div style="font-size:12px">{escape(text)}</div>', text)
