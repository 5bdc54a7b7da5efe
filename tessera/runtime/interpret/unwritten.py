"""Note what a launch does not write: elements that stores leave out, and elements of outputs that no store reaches."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tessera.core.base.plurals import counted
from tessera.core.base.source import Span
from tessera.core.program.program import Op
from tessera.runtime.interpret.findings import element
from tessera.runtime.interpret.memory import Memory

_MOSTLY: Final = 0.75
"""Share of an output that is written where the others are told: kernels that update a few elements mean to."""


@dataclass(frozen=True, slots=True)
class LaunchNote:
    """A remark on what a launch did, about a place of the user's text."""

    text: str
    span: Span


@dataclass(slots=True)
class _LeftOut:
    memory: Memory
    first: int
    count: int = 0


class LeftOut:
    """Elements that stores leave out, because the tile that is stored has no value there, by operation and array."""

    def __init__(self) -> None:
        self._by_store: dict[tuple[Op, str], _LeftOut] = {}

    def add(self, memory: Memory, elements: NDArray[np.int64], op: Op) -> None:
        """Note elements that a store of `op` left out, by their numbers in row-major order."""
        if len(elements):
            first = int(elements.min())
            total = self._by_store.setdefault((op, memory.name), _LeftOut(memory, first))
            total.first, total.count = min(total.first, first), total.count + len(elements)

    @property
    def arrays(self) -> frozenset[str]:
        """The names of arrays that a store left elements out of."""
        return frozenset(name for _, name in self._by_store)

    def notes(self) -> tuple[LaunchNote, ...]:
        """Return a note per store and array."""
        return tuple(
            LaunchNote(
                f"{counted(each.count, 'element')} of {each.memory.name} are left out here, the first is "
                f"{element(each.memory, each.first)}: what is stored comes from outside of an array there; give it a "
                "value by tile.fill(x, 0.0), or do not read outside",
                op.span,
            )
            for (op, _), each in self._by_store.items()
        )  # fmt: skip


def never_written(outputs: Mapping[str, tuple[Memory, NDArray[np.bool_] | None]], span: Span) -> tuple[LaunchNote, ...]:
    """Return a note per output that nothing writes, in whole or in part.

    outputs: the arrays that the kernel may write, and which elements of each were (None: no access at all)
    span: of the kernel
    """
    notes: list[LaunchNote] = []
    for name, (memory, written) in outputs.items():
        if not memory.data.size:
            continue
        count = 0 if written is None else int(written.sum())
        if written is None or not count:
            notes.append(LaunchNote(f"nothing writes {name}", span))
        elif _MOSTLY * written.size <= count < written.size:
            first = element(memory, int(np.argmin(written)))
            text = f"{written.size - count:,} of {counted(written.size, 'element')} of {name} are never written"
            notes.append(LaunchNote(f"{text}, the first is {first}", span))
    return tuple(notes)
