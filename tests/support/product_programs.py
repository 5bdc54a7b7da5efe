"""Products of matrices in every storage order, for the tests of tile kernels on GPUs."""

from dataclasses import replace

from support.builder import Builder
from tessera.core.base.dtypes import DType, bf16, f32
from tessera.core.program.program import Program, Value


def matrix_product(
    tile: tuple[int, int, int], dtype: DType = bf16, *, aligned: bool = True, turned: tuple[bool, bool] = (False, False),
    result: DType = f32, compute: str = "", **options: int,
) -> Program:  # fmt: skip
    """C = A B in blocks of `tile` (rows, columns, steps of K); `turned`: A is stored as [K, M], B as [N, K].

    compute: what factors are rounded to
    """
    rows, columns, step = tile
    b = Builder("product")
    a = b.array("A", dtype, *(("K", "M") if turned[0] else ("M", "K")), aligned=aligned)
    w = b.array("B", dtype, *(("N", "K") if turned[1] else ("K", "N")), aligned=aligned)
    c = b.array("C", result, "M", "N", aligned=aligned, mutable=True)
    zero = b.const(0)
    with (
        b.loop(zero, b.dim("M"), b.const(rows), kind="tile", names=("m",)) as m,
        b.loop(zero, b.dim("N"), b.const(columns), kind="tile", names=("n",)) as n,
    ):
        start = b.full(b.const(0.0, f32), rows, columns)
        with b.loop(zero, b.dim("K"), b.const(step), [start], names=("k", "acc")) as k:
            left = _load(b, a, m.index, k.index, (rows, step), turned=turned[0])
            right = _load(b, w, k.index, n.index, (step, columns), turned=turned[1])
            k.yields = (b.dot(left, right, k.carried[0], compute=compute),)
        total = k.results[0] if result == f32 else b.cast(k.results[0], result)
        b.store(c, total, [m.index, n.index], [rows, columns])
    return replace(b.program(), options=options)


def _load(b: Builder, memory: Value, row: Value, column: Value, shape: tuple[int, int], *, turned: bool) -> Value:
    if not turned:
        return b.load(memory, [row, column], list(shape))
    return b.transpose(b.load(memory, [column, row], [shape[1], shape[0]]), 1, 0)
