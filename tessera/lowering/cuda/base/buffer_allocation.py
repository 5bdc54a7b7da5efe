"""Allocate addresses inside one block of memory, and free them, while code is emitted."""

from dataclasses import dataclass, field
from typing import Final

ALIGNMENT: Final = 128
"""Bytes: every piece starts on a line of shared memory's 32 banks of 4 bytes."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """Bytes [start, start + size) of an arena."""

    start: int
    size: int


@dataclass
class BufferAllocator:
    """Allocate by first fit, lowest address first.

    limit: bytes, or None for no limit; peak: the highest address ever in use
    """

    limit: int | None = None
    peak: int = 0
    _taken: list[Allocation] = field(default_factory=list[Allocation])

    def take(self, size: int, alignment: int = ALIGNMENT) -> Allocation | None:
        """Reserve `size` bytes, or return None where they do not fit under the limit."""
        size = max(1, size)
        start = self._start(size, alignment)
        return None if self.limit is not None and start + size > self.limit else self._reserve(start, size)

    def take_beyond(self, size: int, alignment: int = ALIGNMENT) -> Allocation:
        """Reserve `size` bytes after all others, ignoring the limit; `peak` then tells how much is missing."""
        end = max((piece.start + piece.size for piece in self._taken), default=0)
        start = -(-max(end, self.limit or 0) // alignment) * alignment
        return self._reserve(start, max(1, size))

    def _start(self, size: int, alignment: int) -> int:
        """Return the start of the first gap that is large enough."""
        start = 0
        for piece in self._taken:
            if piece.start - start >= size:
                break
            start = -(-(piece.start + piece.size) // alignment) * alignment
        return start

    def _reserve(self, start: int, size: int) -> Allocation:
        result = Allocation(start, size)
        self._taken.append(result)
        self._taken.sort(key=lambda p: p.start)
        self.peak = max(self.peak, start + size)
        return result

    def give_back(self, piece: Allocation) -> None:
        """Allow these bytes to be reserved again."""
        self._taken.remove(piece)

    def overlaps(self, a: Allocation, b: Allocation) -> bool:
        """Return whether two pieces share a byte."""
        return a.start < b.start + b.size and b.start < a.start + a.size
