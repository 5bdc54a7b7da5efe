"""Layout by graphviz's `dot`, where the binary is installed."""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Final, TypedDict

from tessera.viz.graph.layered import acyclic
from tessera.viz.graph.placing import COLUMN_GAP, ROW_GAP, Rows, Scope, Slot, straightened

_POINTS: Final = 72  # of an inch, in which dot takes sizes
_SECONDS: Final = 10
_FROM: Final = 300
"""Boxes and links from which another process pays: some 15 ms to start it."""


class _Box(TypedDict):
    """A node as `dot -Tjson` says it; `pos` is its middle."""

    name: str
    pos: str


class _Way(TypedDict):
    """An edge: the numbers of its ends, and its spline."""

    tail: int
    head: int
    pos: str


class _Output(TypedDict, total=False):
    """Output of `dot -Tjson`, as far as it is used here."""

    objects: list[_Box]
    edges: list[_Way]


def is_installed() -> bool:
    """Return whether there is a `dot`."""
    return shutil.which("dot") is not None


def source_of(scope: Scope) -> str:
    """Return a scope in the DOT language; boxes and links are numbered."""
    numbers = {item.id: n for n, item in enumerate(scope.items)}
    sizes = [
        f"{n}[width={item.width / _POINTS:.3f},height={item.height / _POINTS:.3f}]"
        for n, item in enumerate(scope.items)
    ]
    links = [f"{numbers[a]}->{numbers[b]}" for a, b in acyclic(scope)]
    head = f"nodesep={COLUMN_GAP / _POINTS:.3f};ranksep={ROW_GAP / _POINTS:.3f};nslimit=.5;nslimit1=1;mclimit=.2;"
    return f'digraph{{{head}node[shape=box,fixedsize=true,label=""];edge[arrowhead=none];{";".join([*sizes, *links])}}}'


def by_dot(scopes: Sequence[Scope]) -> list[Rows]:
    """Lay out scopes by `dot`, one process a core where there is much to do.

    Raises:
        OSError: it cannot be run, or fails.
        subprocess.TimeoutExpired: it takes longer than 10 s.
    """
    size = sum(len(scope.items) + len(scope.links) for scope in scopes)
    parts = min(len(scopes), os.cpu_count() or 1, 1 + size // _FROM)
    if parts < 2:
        return _ran(scopes)
    found: list[Rows] = [()] * len(scopes)
    with ThreadPoolExecutor(parts) as pool:
        # Dealt out, so that each part gets about as much.
        for part, rows in enumerate(pool.map(_ran, [scopes[part::parts] for part in range(parts)])):
            found[part::parts] = rows
    return found


def _ran(scopes: Sequence[Scope]) -> list[Rows]:
    """Lay out scopes by one run of `dot`."""
    if not scopes:
        return []
    text = "\n".join(map(source_of, scopes))
    ran = subprocess.run(
        [shutil.which("dot") or "dot", "-Tjson"],
        input=text,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if ran.returncode:
        raise OSError(f"dot: {ran.stderr.strip()[:200]}")
    decoder, at = json.JSONDecoder(), 0
    found: list[Rows] = []
    for scope in scopes:
        graph, at = decoder.raw_decode(ran.stdout, at)
        at += len(ran.stdout[at:]) - len(ran.stdout[at:].lstrip())
        found.append(rows_of(scope, graph))
    return found


def rows_of(scope: Scope, graph: _Output) -> Rows:
    """Return the rows of what `dot` placed; edges that pass rows get the places where they cross these."""
    middles = {int(each["name"]): tuple(map(float, each["pos"].split(","))) for each in graph.get("objects", ())}
    heights = sorted({y for _, y in middles.values()}, reverse=True)
    row_at = {y: n for n, y in enumerate(heights)}
    rows: list[list[Slot]] = [[] for _ in heights]
    for n, item in enumerate(scope.items):
        x, y = middles[n]
        rows[row_at[y]].append(Slot(item.id, x))
    for each in graph.get("edges", ()):
        source, target = scope.items[each["tail"]].id, scope.items[each["head"]].id
        points = _points(each["pos"])
        for y in heights[row_at[middles[each["tail"]][1]] + 1 : row_at[middles[each["head"]][1]]]:
            rows[row_at[y]].append(Slot(source, _crossing(points, y), target))
    ordered = tuple(tuple(sorted(row, key=lambda slot: slot.x)) for row in rows)
    return straightened(ordered, {item.id: item for item in scope.items})


def _points(pos: str) -> list[tuple[float, float]]:
    """Read a spline: knots and control points, without the ends that arrows have of their own."""
    pairs = [part.split(",") for part in pos.split() if part[:2] not in ("e,", "s,")]
    return [(float(x), float(y)) for x, y in pairs]


def _crossing(points: Sequence[tuple[float, float]], y: float) -> float:
    """Return x where the polygon of a spline's points is at height `y`."""
    for (x0, y0), (x1, y1) in pairwise(points):
        if min(y0, y1) <= y <= max(y0, y1) and y0 != y1:
            return x0 + (x1 - x0) * (y - y0) / (y1 - y0)
    return min(points, key=lambda point: abs(point[1] - y))[0]
