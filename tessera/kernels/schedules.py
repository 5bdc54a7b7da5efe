"""Default tuning parameters of the library's kernels, from the kind of machine and the size of the work.

They are starting points: `schedule=` replaces any of them, and `tune=True` searches the space beside each rule, which
may also hold schedule options (`tessera.core.schedule`).
"""

from collections.abc import Mapping
from typing import Any, Final

from tessera.core.dtypes import DType
from tessera.core.settings import current
from tessera.kernels.launches import Machine

# Multiprocessors of the largest part of each architecture (NVIDIA's data sheets): A100, RTX 4090, H100 and H200, B200.
_PROCESSORS: Final = {"sm_80": 108, "sm_86": 84, "sm_89": 128, "sm_90": 132, "sm_100": 148, "sm_120": 170}
_WGMMA: Final = ("sm_90",)  # warpgroups multiply there: 64 rows at a time, four warps each

# What a multiprocessor gets done with blocks of 128 rows and so many columns, relative to the widest: estimates, from
# the time tensor cores take for a step beside the time shared memory takes to feed them.
_WORTH: Final = {256: 1.0, 128: 0.9, 64: 0.7}

ROW_LIMIT: Final = 16384
"""Longest row kept as one tile: 16384 f32 are 32 registers in each of 512 lanes.

It does not depend on the machine: it decides in which order a row's numbers are added.
"""


def processors(machine: Machine) -> int:
    """How many groups run side by side: multiprocessors, or threads."""
    return _PROCESSORS.get(machine.name, 108) if machine.is_gpu else current().threads


def power_of_two(n: int) -> int:
    """The least power of two that is `n` or more."""
    return 1 << max(0, n - 1).bit_length()


def clamp(n: int, least: int, most: int) -> int:
    """`n` as a power of two from `least` to `most`, both powers of two."""
    return max(least, min(most, power_of_two(n)))


GEMM_SPACE: Final[Mapping[str, Mapping[str, tuple[int, ...]]]] = {
    "cpu": {"BM": (128, 256, 512), "BN": (128, 256, 512), "BK": (128, 256, 512)},
    "gpu": {"BM": (64, 128, 256), "BN": (64, 128, 256), "BK": (32, 64, 128), "warps": (4, 8), "stages": (3, 4)},
}


def gemm_schedule(
    machine: Machine, m: int, n: int, k: int, dtype: DType, *, heavy: bool = False
) -> dict[str, int]:  # fmt: skip
    """Blocks of C (BM x BN) and steps of K (BK).

    On the CPU the largest blocks of which every thread has at least two: they reuse most of what is in the caches.  On
    GPUs 128 bytes of K a step, as wide as the widest swizzle of shared memory, and the width of C that loses least: to
    multiprocessors without work in the last round, and to operands that are read more often where blocks are small.
    heavy: what follows the product needs registers of its own (gelu), so that accumulators may only have half of them.
    """
    if not machine.is_gpu:
        return _cpu_gemm(m, n, k)
    if dtype.bits > 16:
        return {"BM": 64, "BN": 64, "BK": 32}
    wide = machine.name in _WGMMA

    def value(bn: int) -> float:
        groups = -(-m // 128) * -(-n // bn)
        rounds = -(-groups // processors(machine))
        return _WORTH[bn] * m * n / (rounds * processors(machine) * 128 * bn)

    most = (256 if wide else 128) // (2 if heavy else 1)
    best = max((bn for bn in _WORTH if bn <= most), key=value)
    return {"BM": 128, "BN": best, "BK": (128 if wide else 64) // dtype.bytes}


def byte_schedule(chosen: Mapping[str, int], *, along_k: bool) -> dict[str, int]:
    """The schedule of a product of floats of 8 bits on a GPU.

    Sums of 128 products are added in f32 (`promote`), as the tensor cores' own sums keep 14 bits.
    along_k: K is contiguous in both factors, so that tensor cores may read bytes; else they become f16 in registers,
    and larger blocks than these do not fit there.
    """
    if along_k:
        return {**chosen, "promote": 128}
    return {**chosen, "BN": min(chosen["BN"], 128), "BK": min(chosen["BK"], 64)}


def _cpu_gemm(m: int, n: int, k: int) -> dict[str, int]:
    bm, bn = clamp(m, 32, 512), clamp(n, 32, 512)
    while bm * bn > 128 * 128 and -(-m // bm) * -(-n // bn) < 2 * current().threads:
        bm, bn = (bm // 2, bn) if bm >= bn else (bm, bn // 2)
    return {"BM": bm, "BN": bn, "BK": clamp(k, 32, 256)}


ATTENTION_SPACE: Final[Mapping[str, Mapping[str, tuple[int, ...]]]] = {
    "cpu": {"BM": (64, 128, 256), "BN": (64, 128, 256)},
    "gpu": {"BM": (64, 128, 256), "BN": (64, 128), "warps": (4, 8), "stages": (2, 3)},
}


def attention_schedule(machine: Machine, queries: int, keys: int, dtype: DType) -> dict[str, int]:
    """Queries (BM) against keys (BN) at a time: 128 of each, fewer where there are fewer, or elements are wide."""
    most = 128 if not machine.is_gpu or dtype.bits <= 16 else 64
    return {"BM": clamp(queries, 16, most), "BN": clamp(keys, 16, most)}


BACKWARD_SPACE: Final[Mapping[str, Mapping[str, tuple[int, ...]]]] = {
    "cpu": {"BM": (64, 128), "BN": (64, 128)},
    "gpu": {"BM": (16, 32, 64, 128), "BN": (64, 128), "warps": (4, 8)},
}


def backward_schedule(machine: Machine, queries: int, keys: int, width: int, dtype: DType) -> dict[str, int]:
    """BN keys at a time, and BM queries in each step over them, for the kernel with two accumulators and four products.

    Warpgroups take their operands from shared memory; elsewhere these have to pass through registers, and fewer
    queries fit beside the accumulators (found by the register counts of ptxas: no lane spills).
    """
    whole = attention_schedule(machine, queries, keys, dtype)
    if not machine.is_gpu:
        return whole
    if machine.name in _WGMMA:
        return {**whole, "BM": min(64 if width <= 64 else 32, whole["BM"])}
    return {"BM": min(32 if width <= 64 else 16, whole["BM"]), "BN": min(64 if width <= 64 else 32, whole["BN"])}


def backward_queries_schedule(machine: Machine, queries: int, keys: int, dtype: DType) -> dict[str, int]:
    """BM queries at a time, and BN keys in each step, for the kernel with one accumulator and three products."""
    whole = attention_schedule(machine, queries, keys, dtype)
    if not machine.is_gpu or machine.name in _WGMMA:
        return whole
    return {"BM": min(64, whole["BM"]), "BN": min(64, whole["BN"])}


ROWS_SPACE: Final[Mapping[str, Mapping[str, tuple[int, ...]]]] = {
    "cpu": {"ROWS": (1, 2, 4, 8, 16, 32)},
    "gpu": {"ROWS": (1, 2, 4, 8, 16, 32)},
}


def rows_schedule(columns: int) -> dict[str, int]:
    """How many rows a group takes at a time: about 4096 elements, and at most 32 rows."""
    return {"ROWS": clamp(4096 // max(1, columns), 1, 32)}


LONG_SPACE: Final[Mapping[str, Mapping[str, tuple[int, ...]]]] = {"cpu": {}, "gpu": {}}
"""Rows that are read in several passes: the block decides in which order numbers are added, so it is not tuned."""

LONG_BLOCK: Final = 8192
"""Elements of a long row at a time."""

REDUCE_SPACE: Final[Mapping[str, Mapping[str, tuple[int, ...]]]] = {
    "cpu": {"COLUMNS": (16, 64, 256)},
    "gpu": {"COLUMNS": (32, 64, 128)},
}


def columns_schedule(inner: int) -> dict[str, int]:
    """How many neighbouring columns are reduced side by side: whole cache lines, of up to 64 elements."""
    return {"COLUMNS": clamp(inner, 1, 64)}


TRANSPOSE_SPACE: Final[Mapping[str, Mapping[str, tuple[int, ...]]]] = {
    "cpu": {"BLOCK": (32, 64, 128, 256)},
    "gpu": {"BLOCK": (32, 64, 128)},
}


def transpose_schedule(machine: Machine) -> dict[str, int]:
    """Squares of 64 x 64: 128 bytes or more of every row that is read and of every row that is written."""
    return {"BLOCK": 64 if machine.is_gpu else 128}


def space(table: Mapping[str, Mapping[str, Any]], machine: Machine) -> Mapping[str, Any]:
    """The row of a table of spaces for `machine`."""
    return table["gpu" if machine.is_gpu else "cpu"]
