"""The IR viewer as one piece of HTML: no network, and readable even where scripts and styles are removed.

Layout of the output: a plain part (`<details>` and `<pre>`, no styles of ours needed), the data as JSON, the style and
one script that builds the viewer from the data and hides the plain part.
"""

import base64
import json
import zlib
from collections.abc import Sequence
from functools import lru_cache
from html import escape
from importlib.resources import files
from typing import Final

from tessera.viz.ir_view import IrView, Pane, ViewLine

CAPTIONS: Final = {
    "tile": "Tile IR: the program of one group, on tiles and lanes",
    "target": "Target IR: loops, vectors and memory of the machine",
    "llvm": "LLVM IR",
    "asm": "machine code of the CPU",
    "ptx": "PTX: NVIDIA's virtual machine code",
    "sass": "SASS: machine code of the GPU",
}
PLAIN_LINES: Final = 48
"""Lines of each level in the plain part; the whole text is in the data."""
PACK_FROM: Final = 24_000
"""Characters from which the data are deflated."""
_SIGNS: Final = {"": " ", "new": "+", "changed": "~", "moved": ">"}
_BOX: Final = "white-space:pre;overflow:auto;max-height:24em;margin:4px 0 4px 16px;font-size:12px;line-height:1.4"


def ir_html(view: IrView, opened: Sequence[str] = ()) -> str:
    """Return the viewer for `view` as self-contained HTML.

    `opened` names levels to show first; more than one opens them side by side.
    """
    data, packed = _packed(json.dumps(_data(view, opened), separators=(",", ":"), ensure_ascii=False))
    return (
        '<div class="tsr-ir" data-lm-suppress-shortcuts="true">'
        f'<div class="tsr-plain">{_plain(view, opened)}</div>'
        f"<style>{asset('ir.css')}</style>"
        f'<script type="application/json" class="tsr-data"{packed}>{data}</script>'
        f"<script>{asset('ir.js')}</script></div>"
    )


def _packed(data: str) -> tuple[str, str]:
    """The data as they lie in the page, and the attribute that says they were deflated (long ones only)."""
    if len(data) < PACK_FROM:
        return data.replace("<", "\\u003c"), ""
    return base64.b64encode(zlib.compress(data.encode(), 9)).decode("ascii"), " data-packed"


@lru_cache
def asset(name: str) -> str:
    """Return a file of `static/` without its comments and indentation."""
    text = files("tessera.viz").joinpath("static", name).read_text(encoding="utf-8")
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("// "))


def _plain(view: IrView, opened: Sequence[str]) -> str:
    """The part for readers without scripts: the source, and each level folded, long ones cut."""
    source = "\n".join(f"{view.first_line + i:>4}  {line}" for i, line in enumerate(view.source))
    parts = [
        f'<div style="margin:4px 0"><b>{escape(view.name)}</b> for {escape(view.target)}</div>',
        f'<pre style="{_BOX}"><code>{escape(source)}</code></pre>',
    ]
    for level in view.levels:
        pane = view.stages(level)[-1]
        shown = " open" if level in opened else ""
        count = f"{len(pane.lines)} line{'' if len(pane.lines) == 1 else 's'}"
        parts.append(
            f"<details{shown}><summary>{escape(CAPTIONS.get(level, level))} ({count})</summary>"
            f'<pre style="{_BOX}"><code>{escape(_excerpt(pane))}</code></pre></details>'
        )
    return "".join(parts)


def _excerpt(pane: Pane) -> str:
    """The level's text with the source line before each; what is cut is said."""
    rows = [f"{f'L{line.sources[0]}' if line.sources else '':>5}  {line.text}" for line in pane.lines[:PLAIN_LINES]]
    left = len(pane.lines) - PLAIN_LINES
    if left > 0:
        rows.append(f"       ... {left} more lines (run the cell, or trust the notebook, to see them all)")
    return "\n".join(rows)


def _data(view: IrView, opened: Sequence[str]) -> dict[str, object]:
    """What `static/ir.js` reads.  A line's links are an index into `keys`: many lines share one."""
    keys: dict[tuple[object, ...], int] = {}
    panes = [_pane(pane, keys, view) for pane in view.panes]
    return {
        "name": view.name,
        "target": view.target,
        "label": view.label,
        "first": view.first_line,
        "source": view.source,
        "captions": {level: CAPTIONS.get(level, level) for level in view.levels},
        "open": [level for level in opened if level in view.levels],
        "panes": panes,
        "keys": list(keys),
        "ops": {
            op: {
                "place": (story.place.line, story.place.column) if story.place is not None else None,
                "born": story.born,
                "last": story.last,
                "mates": story.mates,
            }
            for op, story in view.stories.items()
        },
    }


def _pane(pane: Pane, keys: dict[tuple[object, ...], int], view: IrView) -> dict[str, object]:
    changes = pane.changes
    return {
        "level": pane.level,
        "stage": pane.stage or "final",
        "text": pane.text,
        "keys": [keys.setdefault(_links(line, view), len(keys)) for line in pane.lines],
        "signs": "".join(_SIGNS[line.change] for line in pane.lines).rstrip(),
        "ghosts": [(ghost.before, ghost.text) for ghost in pane.ghosts],
        "counts": {"fresh": changes["new"], "changed": changes["changed"] + changes["moved"], "gone": changes["gone"]},
    }


def _links(line: ViewLine, view: IrView) -> tuple[object, ...]:
    """Source lines, operations, and places as (line, first column, column past the end), cut at the line's end."""
    places: list[tuple[int, int, int]] = []
    for span in line.spans:
        index = span.line - view.first_line
        width = len(view.source[index]) if 0 <= index < len(view.source) else 0
        stop = span.end_column if span.end_line == span.line else width + 1
        places.append((span.line, span.column, max(stop, span.column + 1)))
    return line.sources, line.ops, tuple(places)
