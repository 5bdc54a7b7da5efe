"""The work of a launch as data; `tessera/performance/work_count.py` counts it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[Any]  # integers or floats, as the counting needs


@dataclass(frozen=True, slots=True)
class Dot:
    """One matrix product of a kernel's text: (m, k) times (k, n), operands of type `dtype`, or rounded to that."""

    m: int
    n: int
    k: int
    dtype: str

    @property
    def operand_bytes(self) -> int:
        """Bytes of both operands."""
        bits = {"f64": 64, "f32": 32, "tf32": 32, "i32": 32, "i8": 8, "fp8_e4m3": 8, "fp8_e5m2": 8}.get(self.dtype, 16)
        return (self.m + self.n) * self.k * bits // 8


@dataclass(frozen=True, eq=False)
class Work:
    """The work of one launch.

    read, written, flops: of each group, in the order of the groups: bytes asked of memory (an element read twice
        counts twice), and floating-point operations (a fused multiply-add is two)
    by_kind: operations of the launch by what does them: "dot bf16", "f32", "special" (exp and the like)
    least_read, least_written: bytes of the arrays' elements that are touched at all: what memory must move at least
    steps: operations on whole tiles that the launch runs, in all
    """

    read: Numbers
    written: Numbers
    flops: Numbers
    by_kind: Mapping[str, float]
    least_read: float
    least_written: float
    steps: float
    dots: tuple[Dot, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def groups(self) -> int:
        """Groups of the launch."""
        return len(self.read)

    @property
    def total_flops(self) -> float:
        """Floating-point operations of the launch."""
        return float(sum(self.by_kind.values()))

    @property
    def requested_bytes(self) -> float:
        """Bytes that the groups ask of memory and its caches."""
        return float(self.read.sum() + self.written.sum())

    @property
    def least_bytes(self) -> float:
        """Bytes that memory must move at least."""
        return self.least_read + self.least_written


@dataclass(frozen=True, slots=True)
class Shape:
    """The properties of a launch that its work depends on.

    extents: the value of each shape symbol; groups: groups in all
    axes: groups along each axis of the grid; lanes: of a group; whole: lanes of the launch, for kernels whose one group
        is the whole launch, cut into `groups` pieces, else None
    ranges: how many loops, from the outermost, are spread over the groups
    """

    extents: Mapping[str, int]
    groups: int
    axes: tuple[int, int, int] = (1, 1, 1)
    lanes: int = 1
    whole: int | None = None
    ranges: int = 0
