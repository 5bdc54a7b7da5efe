"""Layered layout (Sugiyama): longest-path layers, barycentre ordering, coordinates by averages.

It stands in where graphviz is missing: plain, quick, and of any graph.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from tessera.viz.graph.placing import COLUMN_GAP, Rows, Scope, Slot, gaps_of, spread, straightened

_SWEEPS: Final = 6
_LONGEST: Final = 10
"""Layers that an edge may pass and still have a way of its own between boxes."""

_Place = tuple[str, str]  # of a box, or of an edge that passes


def layered(scope: Scope) -> Rows:
    """Lay out one scope."""
    sizes = {item.id: item for item in scope.items}
    links = acyclic(scope)
    layers = _layers([item.id for item in scope.items], links)
    rows, near = _with_passing(scope, layers, links)
    _order(rows, near)
    places = _places(rows, near, {key: item.width for key, item in sizes.items()})
    return straightened(tuple(tuple(Slot(a, places[a, b, n], b) for a, b in row) for n, row in enumerate(rows)), sizes)


def acyclic(scope: Scope) -> list[tuple[str, str]]:
    """Return the links without those that close a cycle, as a search in the order of the program finds them."""
    after: dict[str, list[str]] = defaultdict(list)
    for source, target in dict.fromkeys(scope.links):
        if source != target:
            after[source].append(target)
    done: dict[str, bool] = {}  # False while below it is searched
    kept: list[tuple[str, str]] = []
    for item in scope.items:
        if item.id in done:
            continue
        done[item.id] = False
        stack = [(item.id, iter(after[item.id]))]
        while stack:
            at, rest = stack[-1]
            target = next(rest, None)
            if target is None:
                done[at] = True
                stack.pop()
            elif done.get(target, True):
                kept.append((at, target))
                if target not in done:
                    done[target] = False
                    stack.append((target, iter(after[target])))
    return kept


def _layers(items: Sequence[str], links: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Longest paths from above; what nothing comes to stands as near as it can to what it goes to."""
    before: dict[str, int] = dict.fromkeys(items, 0)
    after: dict[str, list[str]] = defaultdict(list)
    for source, target in links:
        after[source].append(target)
        before[target] += 1
    fed = {target for _, target in links}
    layers = dict.fromkeys(items, 0)
    ready = [item for item in items if not before[item]]
    for item in ready:
        for target in after[item]:
            layers[target] = max(layers[target], layers[item] + 1)
            before[target] -= 1
            if not before[target]:
                ready.append(target)
    for item in items:
        if item not in fed and after[item]:
            layers[item] = min(layers[target] for target in after[item]) - 1
    return layers


def _with_passing(
    scope: Scope, layers: Mapping[str, int], links: Sequence[tuple[str, str]]
) -> tuple[list[list[_Place]], dict[_Place, list[_Place]]]:
    """Return the rows, places of passing edges included, and for each place those that it is joined with."""
    rows: list[list[_Place]] = [[] for _ in range(max(layers.values(), default=-1) + 1)]
    for item in scope.items:
        rows[layers[item.id]].append((item.id, ""))
    near: dict[_Place, list[_Place]] = defaultdict(list)
    for source, target in links:
        between = range(layers[source] + 1, layers[target])
        if 0 < len(between) <= _LONGEST:
            for row in between:
                rows[row].append((source, target))
            near[source, ""].append((source, target))
            near[target, ""].append((source, target))
            near[source, target] = [(source, ""), (source, target), (target, "")]
        else:
            near[source, ""].append((target, ""))
            near[target, ""].append((source, ""))
    return rows, near


def _order(rows: list[list[_Place]], near: Mapping[_Place, Sequence[_Place]]) -> None:
    """Sort each row by the average place of what its boxes are joined with in the row before, there and back."""
    for sweep in range(_SWEEPS):
        numbers = range(1, len(rows)) if sweep % 2 == 0 else range(len(rows) - 2, -1, -1)
        for number in numbers:
            beside = rows[number - 1 if sweep % 2 == 0 else number + 1]
            at = {place: i / max(1, len(beside)) for i, place in enumerate(beside)}
            own = {place: i / max(1, len(rows[number])) for i, place in enumerate(rows[number])}

            def mean(place: _Place, at: dict[_Place, float] = at, own: dict[_Place, float] = own) -> float:
                found = [at[one] for one in near.get(place, ()) if one in at]
                return sum(found) / len(found) if found else own[place]

            rows[number].sort(key=mean)


def _places(
    rows: list[list[_Place]], near: Mapping[_Place, Sequence[_Place]], widths: Mapping[str, float]
) -> dict[tuple[str, str, int], float]:
    """Return the middle of each place in each row: as near to what it is joined with as the row's order allows."""
    sizes = [[0.0 if to else widths[box] for box, to in row] for row in rows]
    gaps = [gaps_of([Slot(box, 0, to) for box, to in row]) for row in rows]
    places: dict[tuple[str, str, int], float] = {}
    for number, row in enumerate(rows):
        x = -sum(sizes[number]) / 2 - COLUMN_GAP * (len(row) - 1) / 2
        for place, width in zip(row, sizes[number], strict=True):
            places[*place, number] = x + width / 2
            x += width + COLUMN_GAP
    for sweep in range(_SWEEPS + 1):
        down = sweep % 2 == 0
        for number in range(len(rows)) if down else range(len(rows) - 1, -1, -1):
            beside = (number - 1,) if down else (number + 1,)
            beside = (number - 1, number + 1) if sweep == _SWEEPS else beside
            wanted = [_wanted(place, number, beside, near, places) for place in rows[number]]
            found = spread(wanted, sizes[number], gaps[number])
            places.update({(*place, number): x for place, x in zip(rows[number], found, strict=True)})
    return places


def _wanted(
    place: _Place, number: int, beside: Sequence[int], near: Mapping[_Place, Sequence[_Place]],
    places: Mapping[tuple[str, str, int], float],
) -> float:  # fmt: skip
    joined = near.get(place, ())
    found = [places[*one, row] for row in beside for one in joined if (*one, row) in places]
    return sum(found) / len(found) if found else places[*place, number]
