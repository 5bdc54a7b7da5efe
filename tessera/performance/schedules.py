"""Default tuning parameters of the library's kernels, from the kind of machine and the size of the work.

They are starting points: `schedule=` replaces any of them, and `tune=True` searches the space beside each rule, which
may also hold schedule options (`tessera.core.schedule.options`).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeVar

from tessera.core.base import reductions
from tessera.core.base.dtypes import DType
from tessera.core.settings import current
from tessera.performance.machine_kind import MachineKind

T = TypeVar("T")

# What a multiprocessor gets done with blocks of so many rows and columns, relative to the first: estimates, from the
# time tensor cores take for a step beside the time shared memory takes to feed them; the second measured on an H200.
_TALL: Final = (256, 128)
_WORTH: Final = {(128, 256): 1.0, _TALL: 0.96, (128, 128): 0.9, (128, 64): 0.7}

_PADDED_LEAST: Final = 1 << 31
"""Operations of a product that takes as long with copies of its factors as without them, on an H200."""

_WIDEST: Final = 128
"""Of the heads whose sums leave registers for 128 keys at a time."""

ROW_LIMIT: Final = 16384
"""Longest row kept as one tile: 16384 f32 are 32 registers in each of 512 lanes.

It does not depend on the machine: it decides in which order a row's numbers are added.
"""


def processors(machine: MachineKind) -> int:
    """Return how many groups run side by side: multiprocessors, or threads."""
    return machine.gpu.processors if machine.gpu is not None else current().threads


def power_of_two(n: int) -> int:
    """Return the least power of two that is `n` or more."""
    return 1 << max(0, n - 1).bit_length()


def clamp(n: int, least: int, most: int) -> int:
    """Return `n` as a power of two from `least` to `most`, both powers of two."""
    return max(least, min(most, power_of_two(n)))


GEMM_SPACE: Final[Mapping[str, Mapping[str, tuple[int, ...]]]] = {
    "host": {"BM": (128, 256, 512), "BN": (128, 256, 512), "BK": (128, 256, 512)},
    "gpu": {"BM": (64, 128, 256), "BN": (64, 128, 256), "BK": (32, 64, 128), "num_warps": (4, 8), "stages": (3, 4)},
}


def gemm_schedule(
    machine: MachineKind, m: int, n: int, k: int, dtype: DType, *, heavy: bool = False, rounded: bool = False,
    sums: int = 1,
) -> dict[str, int]:  # fmt: skip
    """Return the blocks of C (BM x BN) and the steps of K (BK).

    On the CPU the largest blocks of which every thread has at least two: they reuse most of what is in the caches.  On
    GPUs 128 bytes of K a step, as wide as the widest swizzle of shared memory, and the block of C that loses least: to
    multiprocessors without work in the last round, and to operands that are read more often where blocks are small.
    (4097 columns are 17 blocks of 256, and 5 rounds of blocks; 33 of 128 columns and 256 rows are 4.)
    heavy: what follows the product needs registers of its own (gelu), so that accumulators may only have half of them.
    rounded: factors of f32 become tf32, for which there are tensor cores
    sums: how many products have a block of C each, in the registers of one: two of 128 columns read their common
    factor as often as one of 256 does
    """
    if not machine.is_gpu:
        return _cpu_gemm(m, n, k)
    if dtype.bits > 16 and not rounded:
        exact = _exact_gemm(machine, m, n)
        return {**exact, "BN": max(exact["BN"] // power_of_two(sums), 16)}
    wide = machine.wgmma

    def value(block: tuple[int, int]) -> float:
        groups = -(-m // block[0]) * -(-n // block[1])
        rounds = -(-groups // processors(machine))
        return _WORTH[block] * m * n / (rounds * processors(machine) * block[0] * block[1])

    most = (256 if wide else 128) // max(2 if heavy else 1, min(power_of_two(sums), 4 if wide else 2))
    tall = wide and dtype.bits == 16 and not heavy and sums == 1
    rows, columns = max((block for block in _WORTH if block[1] <= most and (tall or block != _TALL)), key=value)
    return {"BM": rows, "BN": columns, "BK": (128 if wide else 64) // dtype.bytes}


def rectangle(machine: MachineKind, extents: Sequence[int], size: int) -> tuple[int, ...]:
    """Return the extents of a block of about `size` elements of an array: a box, along each of its axes.

    On GPUs powers of two, of which the fewest elements lie beyond the array, and of those the longest rows: 28 x 28
    images of a batch are blocks of 8 images, 4 x 4 pixels each.  On the CPU whole rows, as many as there is room for.
    """
    if len(extents) < 2:
        return (size,) * len(extents)
    if not machine.is_gpu:
        left, found = size, list[int]()
        for extent in reversed(extents):
            found.append(min(extent, left))
            left //= found[-1]
        return tuple(reversed(found))

    def beyond(sizes: Sequence[int]) -> tuple[int, ...]:
        covered = math.prod(-(-extent // size) * size for extent, size in zip(extents, sizes, strict=True))
        return (covered, *(-size for size in reversed(sizes)))

    return min(_boxes(size, len(extents)), key=beyond)


def _boxes(size: int, axes: int) -> Iterator[tuple[int, ...]]:
    """Yield the boxes of `size` elements, a power of two, whose sides are powers of two."""
    if axes == 1:
        yield (size,)
        return
    for first in (1 << bit for bit in range(size.bit_length())):
        for rest in _boxes(size // first, axes - 1):
            yield (first, *rest)


def distant_rows(chosen: Mapping[str, int], columns: int) -> dict[str, int]:
    """Return the blocks of a product whose rows lie far apart in memory, as the same pixel of many images does.

    Small blocks wait for the copy engine then: 7 x 7 images of 512 channels take 90 us in blocks of 128 x 256 on an
    H200, and 132 in those of 128 x 128, although these leave no multiprocessor without work.
    """
    small = (chosen["BM"], chosen["BN"]) == (128, 128) and columns > chosen["BN"]
    return {**chosen, "BN": 2 * chosen["BN"]} if small else dict(chosen)


def padding_pays(machine: MachineKind, m: int, n: int, k: int) -> bool:
    """Return whether copying a product's operands to aligned rows pays (see `cuda-pad-rows`).

    Where warp groups multiply, and for large products: lanes copy such factors at a fourth of the copy engine's rate;
    the copies cost another launch, and memory for it.
    """
    return machine.wgmma and 2 * m * n * k >= _PADDED_LEAST


def _exact_gemm(machine: MachineKind, m: int, n: int) -> dict[str, int]:
    """Fused multiply-adds: large blocks read their factors least, where every multiprocessor gets one.

    At 4096 x 4096 x 4096 on an H200, 47 TFLOP/s with blocks of 128 x 128 and 36 with 64 x 64.
    """
    if -(-m // 128) * -(-n // 128) >= processors(machine):
        return {"BM": 128, "BN": 128, "BK": 16}
    return {"BM": 64, "BN": 64, "BK": 32}


def rounded_schedule(
    machine: MachineKind, chosen: Mapping[str, int], along_k: tuple[bool, bool], *, aligned: bool, heavy: bool = False
) -> dict[str, int]:
    """Return the schedule of a product of f32 rounded to tf32 on a GPU.

    along_k: whether K is contiguous in each factor; aligned: whether the copy engine can bring (and round) them
    heavy: as for `gemm_schedule`; single warps then share their sums among twice as many
    Warpgroups multiply where K is contiguous in one factor: with the left one alone, they compute the transpose, and
    the wide side of a block is that of its rows.  Elsewhere single warps do, with blocks as on older GPUs.
    """
    if not machine.wgmma:
        return dict(chosen)
    if not aligned or not any(along_k):
        shared = {"num_warps": 8} if heavy else {}
        return {**chosen, "BM": 128, "BN": min(chosen["BN"], 128), "BK": 16, **shared}
    return {**chosen, "BM": chosen["BN"], "BN": chosen["BM"]} if along_k == (True, False) else dict(chosen)


def byte_schedule(
    chosen: Mapping[str, int], *, along_k: bool, aligned: bool = True, added: bool = False
) -> dict[str, int]:
    """Return the schedule of a product of floats of 8 bits on a GPU.

    Sums of 128 products are added in f32 (`promotion_interval`), as the tensor cores' own sums keep 14 bits.
    along_k: K is contiguous in both factors, so that tensor cores may read bytes; else they become f16 in registers,
    and larger blocks than these do not fit there, nor longer steps of rows that are not aligned.
    added: whether a bias follows, for which two sets of sums over rows of 256 columns leave no registers
    """
    if not along_k:
        return {**chosen, "BN": min(chosen["BN"], 128), "BK": min(chosen["BK"], 64 if aligned else 32)}
    blocks = {"BM": _TALL[0], "BN": _TALL[1]} if added and chosen["BN"] > _TALL[1] else {}
    return {**chosen, **blocks, "promotion_interval": 128}


def _cpu_gemm(m: int, n: int, k: int) -> dict[str, int]:
    bm, bn = clamp(m, 32, 512), clamp(n, 32, 512)
    while bm * bn > 128 * 128 and -(-m // bm) * -(-n // bn) < 2 * current().threads:
        bm, bn = (bm // 2, bn) if bm >= bn else (bm, bn // 2)
    return {"BM": bm, "BN": bn, "BK": clamp(k, 32, 256)}


_PANEL: Final = 32
"""Columns of f32 that the widest vectors multiply side by side: blocks are whole panels."""
_PACKING: Final = 1.0
"""Cycles that copying an element of a factor takes, where a multiply-add of 16 takes half a cycle: 0.7 seen."""
_STORING: Final = 1.0
_TAIL: Final = 0.5
"""Of a block, that threads wait for one another at the end."""
_MOST_DEPTH: Final = 512
_MOST_SUMS: Final = 1 << 17
"""Sums of a block at most: half a mebibyte of the second-level cache."""


def even_gemm(m: int, n: int, k: int, *, batch: int = 1, sums: int = 1) -> dict[str, int]:
    """Return the blocks of `batch` products on the CPU, where all extents are known when the kernel is compiled.

    Shares of rows and columns as even as they come, not powers of two, so that neither threads nor vectors are left
    over: the ones that take fewest cycles, counting multiply-adds, packing, and rounds of blocks.
    """
    threads, m, n, k = current().threads, max(1, m), max(1, n), max(1, k)
    tail = _TAIL if threads > 1 else 0.0
    sides = sorted({min(m, -(-m // parts // 8) * 8) for parts in range(1, m // 32 + 2)} & set(range(513))) or [512]
    widths = sorted({-(-n // parts // _PANEL) * _PANEL for parts in range(1, n // _PANEL + 2)} & set(range(769)))

    def cycles(block: tuple[int, int]) -> float:
        rows, columns = block
        rounds = -(-batch * -(-m // rows) * -(-n // columns) // threads)
        each = sums * rows * columns * (k / 32 + _STORING) + _PACKING * k * (rows + sums * columns)
        return (rounds + tail) * each

    blocks = [(rows, columns) for rows in sides for columns in widths if sums * rows * columns <= _MOST_SUMS]
    rows, columns = min(blocks, key=cycles)
    depths = range(_MOST_DEPTH // 2, _MOST_DEPTH + 1, _PANEL)
    return {"BM": rows, "BN": columns, "BK": k if k <= _MOST_DEPTH else min(depths, key=lambda d: (-(-k // d) * d, -d))}


ATTENTION_SPACE: Final[Mapping[str, Mapping[str, tuple[int, ...]]]] = {
    "host": {"BM": (64, 128, 256), "BN": (64, 128, 256)},
    "gpu": {"BM": (64, 128, 256), "BN": (64, 128), "num_warps": (4, 8), "stages": (2, 3)},
}


def attention_schedule(machine: MachineKind, queries: int, keys: int, dtype: DType) -> dict[str, int]:
    """Queries (BM) against keys (BN) at a time: 128 of each, fewer where there are fewer, or elements are wide."""
    most = 128 if not machine.is_gpu or dtype.bits <= 16 else 64
    return {"BM": clamp(queries, 16, most), "BN": clamp(keys, 16, most)}


def forward_schedule(
    machine: MachineKind, queries: int, keys: int, width: int, dtype: DType, *, causal: bool
) -> dict[str, int]:  # fmt: skip
    """Return the blocks of the forward pass: `attention_schedule`'s, and 256 narrow keys at a time for warpgroups.

    What a round costs beside its products and exponentials is then paid half as often; where attention is causal, more
    of what is masked would be computed.  Of f32, 32 keys at a time leave registers for the sums, and 64 of
    heads wider than usual; of those, where there is little shared memory, 64 queries and 32 keys leave room to copy
    ahead.
    """
    whole = attention_schedule(machine, queries, keys, dtype)
    if machine.wgmma and dtype.bits <= 16 and width <= 64 and not causal:
        return {**whole, "BN": clamp(keys, 16, 256)}
    if machine.little_shared and width > _WIDEST:
        return {"BM": clamp(queries, 16, 64), "BN": clamp(keys, 16, 32)}
    if machine.is_gpu and (dtype.bits > 16 or width > _WIDEST):
        return {**whole, "BN": clamp(keys, 16, 32 if dtype.bits > 16 else 64)}
    return whole


BACKWARD_SPACE: Final[Mapping[str, Mapping[str, tuple[int, ...]]]] = {
    "host": {"BM": (64, 128), "BN": (64, 128)},
    "gpu": {"BM": (16, 32, 64, 128), "BN": (64, 128), "num_warps": (4, 8)},
}


def backward_schedule(machine: MachineKind, queries: int, keys: int, width: int, dtype: DType) -> dict[str, int]:
    """BN keys at a time, and BM queries in each step over them, for the kernel with two accumulators and four products.

    Warpgroups take their operands from shared memory; elsewhere these have to pass through registers, and fewer
    queries fit beside the accumulators (found by the register counts of ptxas: no lane spills).  Of heads wider than
    usual, warp groups have no registers for the accumulators at all, and single warps keep part of theirs in memory.
    """
    whole = attention_schedule(machine, queries, keys, dtype)
    if not machine.is_gpu:
        return whole
    if machine.wgmma and dtype.bits > 16:
        return {"BM": min(32, whole["BM"]), "BN": min(32, whole["BN"])}
    if machine.wgmma and width <= _WIDEST:
        return {**whole, "BM": min(64, whole["BM"])}
    return {"BM": min(32 if width <= 64 else 16, whole["BM"]), "BN": min(64 if width <= 64 else 32, whole["BN"])}


DELTA_ROWS: Final = 64
"""Vectors and rows of scores are this many elements long, or a multiple: what the copy engine takes at a time."""

_KEPT_BYTES: Final = 2 << 30
_KEPT_BITS: Final = 16


def heads_together(machine: MachineKind, dtype: DType, heads: int, scores: int, width: int) -> int:
    """Return how many heads keep the gradients of their `scores` at a time; 0: none, they are computed twice.

    An even share of at most 2 GiB.  It must not depend on the memory that happens to be free: the bits of the results
    may.  Only where warp groups multiply: elsewhere products cost less than writing and reading the scores.
    """
    if not machine.wgmma or dtype.bits != _KEPT_BITS or width > _WIDEST:
        return 0
    most = _KEPT_BYTES // (scores * dtype.bytes)
    return max((n for n in range(1, heads + 1) if heads % n == 0 and n <= most), default=0)


def backward_product_schedule(queries: int, keys: int, given: object = None) -> dict[str, int]:
    """BM queries and steps of BN keys for the product of the kept gradients of the scores with the keys.

    given: the blocks of keys that the caller asked for, if any
    BN divides the blocks of keys of the kernel that keeps them: then none is read that was not written.
    """
    block = given if isinstance(given, int) else clamp(keys, 16, 64)
    return {"BM": clamp(queries, 16, 128), "BN": min(64, block)}


def backward_queries_schedule(
    machine: MachineKind, queries: int, keys: int, width: int, dtype: DType
) -> dict[str, int]:
    """BM queries at a time, and BN keys in each step, for the kernel with one accumulator and three products.

    Of heads wider than usual, more than 32 keys and these queries do not fit the shared memory of some GPUs.
    """
    whole = attention_schedule(machine, queries, keys, dtype)
    if not machine.is_gpu:
        return whole
    chosen = whole if machine.wgmma else {"BM": min(64, whole["BM"]), "BN": min(64, whole["BN"])}
    crowded = width > _WIDEST and (machine.wgmma or machine.little_shared)
    return {**chosen, "BN": min(32, chosen["BN"])} if crowded else chosen


ROWS_SPACE: Final[Mapping[str, Mapping[str, tuple[int, ...]]]] = {
    "host": {"ROWS": (1, 2, 4, 8, 16, 32)},
    "gpu": {"ROWS": (1, 2, 4, 8, 16, 32), "vector_width": (2, 4)},
}


def rows_schedule(columns: int) -> dict[str, int]:
    """Return how many rows a group takes at a time: about 4096 elements, and at most 32 rows."""
    return {"ROWS": clamp(4096 // max(1, columns), 1, 32)}


LONG_SPACE: Final[Mapping[str, Mapping[str, tuple[int, ...]]]] = {"host": {}, "gpu": {}}
"""Rows that are read in several passes: the block decides in which order numbers are added, so it is not tuned."""

LONG_BLOCK: Final = 8192
"""Elements of a long row at a time."""

_MOST_BLOCKS: Final = 4
_GROUPS: Final = 4

REDUCE_SPACE: Final[Mapping[str, Mapping[str, tuple[int, ...]]]] = {
    "host": {"COLUMNS": (16, 64, 256)},
    "gpu": {"COLUMNS": (32, 64, 128)},
}


def block_of_row(machine: MachineKind, rows: int, length: int) -> int:
    """Elements of a long row that a group reduces at a time: 4096, or what that is multiplied by a power of two.

    It does not change a sum's bits.  On GPUs up to 16384, eight warps with 64 values a lane, so that little is left to
    add; less where four groups a multiprocessor, which keep memory busy, would not come together.
    """
    block = (_MOST_BLOCKS if machine.is_gpu else 1) * reductions.BLOCK
    while block > reductions.BLOCK and rows * -(-length // block) < _GROUPS * processors(machine):
        block //= 2
    return block


def block_of_pairs(machine: MachineKind) -> int:
    """Results of blocks that a group reduces at a time: on GPUs another launch costs more than a larger group."""
    return (_MOST_BLOCKS if machine.is_gpu else 1) * reductions.BLOCK


_COLUMNS: Final = 64
_REGISTER: Final = 32  # bits
_SECTOR: Final = 8
"""Elements of f32 in 32 bytes, the least that a GPU reads of its memory."""


def fits_tile(machine: MachineKind, elements: int, bits: int) -> bool:
    """Return whether a tile of so many elements is not too large for the machine's compiler.

    bits: of an element as it is computed; one of 64 bits fills two registers, and counts twice
    """
    return not machine.tile_elements or elements * max(1, bits // _REGISTER) <= machine.tile_elements


def columns_schedule(machine: MachineKind, length: int, inner: int, bits: int = _REGISTER) -> dict[str, int]:
    """Return how many neighbouring columns, each of `length` elements, are reduced side by side.

    Whole cache lines, of up to 64 elements; fewer, but a sector of memory, where the tile is too large for the machine.
    """
    most = _COLUMNS
    while most > _SECTOR and not fits_tile(machine, power_of_two(length) * most, bits):
        most //= 2
    return {"COLUMNS": clamp(inner, 1, most)}


TRANSPOSE_SPACE: Final[Mapping[str, Mapping[str, tuple[int, ...]]]] = {
    "host": {"BLOCK": (32, 64, 128, 256)},
    "gpu": {"BLOCK": (32, 64, 128)},
}


def transpose_schedule(machine: MachineKind) -> dict[str, int]:
    """Squares of 64 x 64: 128 bytes or more of every row that is read and of every row that is written."""
    return {"BLOCK": 64 if machine.is_gpu else 128}


def parameters(*tables: Mapping[str, Mapping[str, object]]) -> tuple[str, ...]:
    """Return the tuning parameters that tables of spaces name, on any machine."""
    return tuple(dict.fromkeys(name for table in tables for row in table.values() for name in row))


def space(table: Mapping[str, Mapping[str, T]], machine: MachineKind) -> Mapping[str, T]:
    """Return the row of a table of spaces for `machine`."""
    return table["gpu" if machine.is_gpu else "host"]
