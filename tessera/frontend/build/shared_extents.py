"""Extents that are the same in this launch: where one window of indices is used in several arrays, one symbol does.

before: `C[m:m+128, :] = A[m:m+128, :]`, 4096 rows both: for all that is known, what is absent of A lies inside C
after:  C has A.shape[0] rows, too: what is absent of A lies outside C
Of windows that begin elsewhere it would say nothing.  Where extents differ, the kernel is built without.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from tessera.core.program.program import Symbol, Value
from tessera.core.program.types import Array
from tessera.frontend.base.bindings import Knowledge, Rebuild, Region
from tessera.frontend.base.builder import Builder, memory_type

Symbols = Mapping[str, Sequence[Symbol]]


def join_extents(builder: Builder, symbols: Symbols) -> None:
    """Let one symbol stand for all with the same extent that windows with the same start meet, and start again.

    Raises Rebuild where there are any.
    """
    knowledge, order = builder.knowledge, list(symbols)
    found: dict[object, set[str]] = {}
    for region in builder.windows:
        for axis, extent in enumerate(_shape(region)):
            if isinstance(extent, str) and all(s.scale == 1 for s in symbols[extent]):
                key = (_start(builder, region.starts[axis]), knowledge.extents[extent])
                found.setdefault(key, set()).add(extent)
    groups = [sorted(names, key=order.index) for names in found.values() if len(names) > 1]
    for first, name in (pair for names in groups for pair in pairwise(names)):
        _join(knowledge, order, first, name)
    if groups:
        raise Rebuild


def _join(knowledge: Knowledge, order: Sequence[str], a: str, b: str) -> None:
    """Let the earlier one of what two symbols stand for stand for all of both."""
    first, second = sorted((knowledge.same.get(a, a), knowledge.same.get(b, b)), key=order.index)
    if first == second:
        return
    for name in order:
        if knowledge.same.get(name, name) == second:
            knowledge.same[name] = first


def _shape(region: Region) -> Sequence[int | str]:
    kind = memory_type(region.memory)
    return kind.shape if isinstance(kind, Array) else ()


def _start(builder: Builder, start: Value | int) -> object:
    if isinstance(start, int):
        return frozenset[object](), start
    terms, rest = builder.affine.form(start)
    return frozenset(terms.items()), rest


def bound_symbols(knowledge: Knowledge, symbols: Symbols) -> tuple[Symbol, ...]:
    """Every binding of every symbol, those that others stand for left out."""
    joined: dict[str, list[Symbol]] = {}
    for name, bindings in symbols.items():
        stands = knowledge.same.get(name, name)
        joined.setdefault(stands, []).extend(Symbol(stands, s.parameter, s.axis, s.scale) for s in bindings)
    return tuple(symbol for bindings in joined.values() for symbol in bindings)


def same_extents(knowledge: Knowledge, symbols: Symbols) -> tuple[tuple[tuple[int, int], tuple[int, int]], ...]:
    """The places, pair by pair, whose extents became one symbol."""

    def place(name: str) -> tuple[int, int]:
        return symbols[name][0].parameter, symbols[name][0].axis

    return tuple((place(stands), place(name)) for name, stands in knowledge.same.items())
