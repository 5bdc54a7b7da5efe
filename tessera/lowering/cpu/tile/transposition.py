"""Turn a square of vectors in registers."""

from collections.abc import Callable, Sequence
from typing import Final

from tessera.core.mlir import ir
from tessera.lowering.base.emit import Emitter

_GROUP: Final = 4
"""Lanes of 32 bits within which two vectors are interleaved by one instruction."""


def transpose(emitter: Emitter, rows: Sequence[ir.Value], kind: str) -> list[ir.Value]:
    """Return the columns of a square matrix given by its rows: n vectors of n lanes of type `kind`, n a power of two.

    log2(n) rounds of shuffles of two vectors.  A round exchanges one bit of the row's number with the same bit of the
    lane's; the first two are done as interleavings within 128 bits, which take one instruction a vector.
    """
    count = len(rows)

    def shuffle(a: ir.Value, b: ir.Value, pick: Callable[[int], int]) -> ir.Value:
        mask = ", ".join(str(pick(lane)) for lane in range(count))
        return emitter.value("vector.shuffle", [a, b], kind, {"mask": f"array<i64: {mask}>"})

    rows = list(rows)
    distance = 1
    if count >= _GROUP:
        rows = [row for start in range(0, count, _GROUP) for row in _turn_group(rows[start : start + _GROUP], shuffle)]
        distance = _GROUP
    while distance < count:
        for row in range(count):
            if not row & distance:
                a, b = rows[row], rows[row + distance]
                low, high = _exchange(count, distance)
                rows[row], rows[row + distance] = shuffle(a, b, low), shuffle(a, b, high)
        distance *= 2
    return rows


def _exchange(count: int, distance: int) -> tuple[Callable[[int], int], Callable[[int], int]]:
    """Return, for both results of exchanging one bit, the lane of the two vectors that each lane takes.

    Lanes of the second vector count from `count` on.
    """

    def low(lane: int) -> int:
        return count + lane - distance if lane & distance else lane

    def high(lane: int) -> int:
        return count + lane if lane & distance else lane + distance

    return low, high


def _turn_group(
    rows: Sequence[ir.Value], shuffle: Callable[[ir.Value, ir.Value, Callable[[int], int]], ir.Value]
) -> list[ir.Value]:
    """Turn the 4 x 4 squares of four rows: interleave rows 0 1 and 2 3, then pair the halves."""
    count = ir.ShapedType(rows[0].type).shape[0]

    def interleave(half: int) -> Callable[[int], int]:
        def pick(lane: int) -> int:
            start, place = lane - lane % _GROUP, lane % _GROUP
            return start + 2 * half + place // 2 + (count if place % 2 else 0)

        return pick

    def pair(half: int) -> Callable[[int], int]:
        def pick(lane: int) -> int:
            start, place = lane - lane % _GROUP, lane % _GROUP
            return start + 2 * half + place % 2 + (count if place >= _GROUP // 2 else 0)

        return pick

    first = [shuffle(rows[0], rows[1], interleave(half)) for half in (0, 1)]
    second = [shuffle(rows[2], rows[3], interleave(half)) for half in (0, 1)]
    return [shuffle(first[column // 2], second[column // 2], pair(column % 2)) for column in range(_GROUP)]
