"""Products of parts of arrays that begin anywhere: C[m + i, n + result] = A[m, k + left] B[k, n + right]."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from support.builder import Builder
from tessera.core.base.dtypes import DType, bf16, f16, f32, i64, u8
from tessera.core.program.program import Program, Value

Shape = tuple[int, int, int]
TILE: Shape = (128, 128, 64)


@dataclass(frozen=True)
class Shifts:
    """Where parts begin beside where their blocks do, along the axis that is contiguous: numbers, or "s" for a parameter.

    turned: whether A is stored as [K, M], and B as [N, K]
    rows: by how much the parts of A, B and C are moved along the other axis
    first: where the range over columns begins
    """

    left: int | str = 0
    right: int | str = 0
    result: int | str = 0
    turned: tuple[bool, bool] = (False, False)
    rows: Shape = (0, 0, 0)
    first: int = 0


@dataclass(frozen=True)
class Case:
    """A product of parts, and what it is called with: where its ranges end, `s`, and which arrays are not aligned."""

    shifts: Shifts
    dtype: DType
    compute: str
    tile: Shape
    s: int
    ends: Shape
    odd: tuple[bool, bool, bool]
    result: DType

    def program(self) -> Program:
        """The kernel."""
        a, b, c = self.odd
        return shifted(self.shifts, self.dtype, self.result, self.compute, self.tile, (not a, not b, not c))


NONE, ALL = (False, False, False), (True, True, True)
BEFORE: list[Case] = [
    Case(Shifts(0, 8, -8, (True, True), (1, -1, -2)), f32, "tf32", (64, 128, 32), 2, (1906, 2030, 407), NONE, bf16),
    Case(Shifts(0, 16, -8, (True, False), (2, 2, -1), 8), f16, "", (128, 256, 64), 0, (2039, 1948, 373), (False, True, False), bf16),
    Case(Shifts(8, -8, -8, (False, True), (2, -1, -1), 8), f32, "tf32", (64, 64, 64), 0, (1908, 2006, 463), NONE, bf16),
    Case(Shifts(0, 0, -8, (True, False), (0, 1, 3)), bf16, "", (128, 256, 64), -8, (2018, 1859, 358), NONE, bf16),
    Case(Shifts(8, 8, -8, (True, True), (-2, 2, 2)), f32, "tf32", (64, 64, 64), 7, (1887, 2046, 435), NONE, f32),
    Case(Shifts(-8, 0, 0, (True, False), (1, 3, -1)), f16, "", (128, 128, 16), 0, (1902, 1988, 462), (False, True, False), bf16),
    Case(Shifts(0, 0, -7, (False, False), (2, 3, 3)), bf16, "", (64, 128, 32), 0, (2010, 2032, 348), (True, False, False), bf16),
    Case(Shifts(8, 0, -8, (True, False), (1, 0, -1)), f16, "", (128, 256, 64), 0, (1857, 1917, 432), ALL, bf16),
    Case(Shifts(8, 8, "s", (True, True), (-1, -2, 3)), f16, "", (128, 128, 16), -3, (2022, 2013, 473), NONE, bf16),
]  # fmt: skip
"""Results that begin before their array: columns, rows, or both."""


def shifted(
    shifts: Shifts, dtype: DType = bf16, result: DType = f32, compute: str = "", tile: Shape = TILE,
    aligned: tuple[bool, bool, bool] = (True, True, True), **options: int,
) -> Program:  # fmt: skip
    """The product in blocks of `tile` (rows, columns, steps of K); the parameter "s" comes last."""
    rows, columns, step = tile
    b = Builder("shifted")
    names = [("K", "M") if shifts.turned[0] else ("M", "K"), ("N", "K") if shifts.turned[1] else ("K", "N")]
    # What is beside the product has extents of its own: shifted parts reach into it, or past it.
    a = b.array("A", dtype, *(f"{name}A" for name in names[0]), aligned=aligned[0])
    w = b.array("B", dtype, *(f"{name}B" for name in names[1]), aligned=aligned[1])
    c = b.array("C", result, "MC", "NC", aligned=aligned[2], mutable=True)
    for name in "MNK":  # ranges over extents are what groups share; nothing reads these
        b.array(f"extent_{name}", u8, name)
    unknown = b.scalar("s", i64)

    def moved(index: Value, by: int | str) -> Value:
        return index if by == 0 else b.value("add", index, unknown if by == "s" else b.const(by))

    def part(memory: Value, place: tuple[Value, Value], shape: tuple[int, int], by: tuple[int | str, int]) -> Value:
        outer, inner = place
        return b.load(memory, [moved(outer, by[1]), moved(inner, by[0])], list(shape))

    with (
        b.loop(b.const(0), b.dim("M"), b.const(rows), kind="tile", names=("m",)) as m,
        b.loop(b.const(shifts.first), b.dim("N"), b.const(columns), kind="tile", names=("n",)) as n,
    ):
        start = b.full(b.const(0.0, f32), rows, columns)
        with b.loop(b.const(0), b.dim("K"), b.const(step), [start], names=("k", "acc")) as k:
            by = (shifts.left, shifts.rows[0]), (shifts.right, shifts.rows[1])
            if shifts.turned[0]:
                left = b.transpose(part(a, (k.index, m.index), (step, rows), by[0]), 1, 0)
            else:
                left = part(a, (m.index, k.index), (rows, step), by[0])
            if shifts.turned[1]:
                right = b.transpose(part(w, (n.index, k.index), (columns, step), by[1]), 1, 0)
            else:
                right = part(w, (k.index, n.index), (step, columns), by[1])
            k.yields = (b.dot(left, right, k.carried[0], compute=compute),)
        total = k.results[0] if result == f32 else b.cast(k.results[0], result)
        b.store(c, total, [moved(m.index, shifts.rows[2]), moved(n.index, shifts.result)], [rows, columns])
    return replace(b.program(), options=options)


def arguments(arrays: Sequence[np.ndarray], ends: Shape, s: int) -> list[Any]:
    """What the kernel is called with: A, B and C, where its ranges end, and the parameter "s"."""
    return [*arrays, *(np.zeros(end, np.uint8) for end in ends), s]


def window(array: np.ndarray, start: tuple[int, int], shape: tuple[int, int]) -> np.ndarray:
    """The part of an array in f64, zeros where there is none."""
    found = np.zeros(shape)
    low = [max(0, -at) for at in start]
    high = [min(length, extent - at) for length, extent, at in zip(shape, array.shape, start, strict=True)]
    if all(a < b for a, b in zip(low, high, strict=True)):
        inside = tuple(slice(a, b) for a, b in zip(low, high, strict=True))
        source = tuple(slice(a + at, b + at) for a, b, at in zip(low, high, start, strict=True))
        found[inside] = array[source].astype(np.float64)
    return found


def expected(
    shifts: Shifts, a: np.ndarray, b: np.ndarray, c: np.ndarray, ends: Shape, s: int, tile: Shape
) -> np.ndarray:  # fmt: skip
    """What C is afterwards, in f64: whole blocks are computed, of what there is of A and B."""
    by = [s if shift == "s" else int(shift) for shift in (shifts.left, shifts.right, shifts.result)]
    m, k = (-(-end // step) * step for end, step in ((ends[0], tile[0]), (ends[2], tile[2])))
    n = -(-(ends[1] - shifts.first) // tile[1]) * tile[1] if ends[1] > shifts.first else 0
    left_place, right_place = (shifts.rows[0], by[0]), (shifts.rows[1], by[1])
    left = window(a, left_place, (k, m)).T if shifts.turned[0] else window(a, left_place, (m, k))
    if shifts.turned[1]:
        right = window(b, (right_place[0] + shifts.first, right_place[1]), (n, k)).T
    else:
        right = window(b, (right_place[0], right_place[1] + shifts.first), (k, n))
    found = c.astype(np.float64)
    product, place = left @ right, (shifts.rows[2], by[2] + shifts.first)
    low = [max(0, -at) for at in place]
    high = [min(length, extent - at) for length, extent, at in zip((m, n), c.shape, place, strict=True)]
    if all(x < y for x, y in zip(low, high, strict=True)):
        inside = tuple(slice(x, y) for x, y in zip(low, high, strict=True))
        found[tuple(slice(x + at, y + at) for x, y, at in zip(low, high, place, strict=True))] = product[inside]
    return found
