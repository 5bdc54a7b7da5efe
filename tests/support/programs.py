"""Small kernels as Programs, written by hand: what the frontend would make of the source in each docstring."""

from support.builder import Builder
from tessera.core.base.dtypes import DType, f32, i64
from tessera.core.program.program import Attribute, Domain, Program, Value
from tessera.core.program.types import Scalar


def saxpy(dtype: DType = f32, contiguous: bool = True) -> Program:
    """i = tile.linear_id(); if i < n: y[i] = alpha * x[i] + y[i]"""
    b = Builder("saxpy")
    x = b.array("x", dtype, "n", contiguous=contiguous)
    y = b.array("y", dtype, "n", mutable=True)
    alpha = b.scalar("alpha", dtype)
    i = b.id("thread", name="i")
    with b.when(b.compare("lt", i, b.dim("n"))):
        product = b.value("mul", alpha, b.read(x, i))
        b.write(y, b.value("add", product, b.read(y, i)), i)
    return b.program(domain=Domain("lanes", ("n",)))


def group_sum(lanes: int = 128) -> Program:
    """One partial sum a group through shared memory (the guide's `group_sum`)."""
    b = Builder("group_sum")
    x = b.array("x", f32, "n")
    out = b.array("out", f32, "grid_groups", mutable=True)
    smem = b.alloc(f32, lanes, name="smem")
    i = b.id("lane", name="i")
    zero = b.const(0.0, f32, name="acc")
    with b.loop(i, b.dim("n"), b.id("group_lanes"), [zero], names=("k", "acc")) as loop:
        loop.yields = (b.value("add", loop.carried[0], b.read(x, loop.index), name="acc"),)
    b.write(smem, loop.results[0], i)
    b.barrier()
    with b.when(b.compare("eq", i, b.const(0))):
        block = b.load(smem, [b.const(0)], [lanes])
        b.write(out, b.reduce(block, "sum", name="total"), b.id("group"))
    return b.program(domain=Domain("lanes", ("n",)), group=(lanes,))


def tile_copy(step: int = 128, dtype: DType = f32) -> Program:
    """for t in tile.range(n, step=128): y[t:t+128] = x[t:t+128] * 2"""
    b = Builder("tile_copy")
    x = b.array("x", dtype, "n")
    y = b.array("y", dtype, "n", mutable=True)
    with b.loop(b.const(0), b.dim("n"), b.const(step), kind="tile", names=("t",)) as loop:
        block = b.load(x, [loop.index], [step], name="block")
        two = b.full(b.const(2, dtype), step)
        b.store(y, b.value("mul", block, two), [loop.index], [step])
    return b.program()


def matmul(bm: int = 64, bn: int = 64, bk: int = 32, dtype: DType = f32) -> Program:
    """for m, n: acc = 0; for k: acc = dot(A[m:, k:], B[k:, n:], acc); C[m:, n:] = acc"""
    b = Builder("matmul")
    a = b.array("A", dtype, "M", "K")
    w = b.array("B", dtype, "K", "N")
    c = b.array("C", f32, "M", "N", mutable=True)
    zero = b.const(0)
    with (
        b.loop(zero, b.dim("M"), b.const(bm), kind="tile", names=("m",)) as rows,
        b.loop(zero, b.dim("N"), b.const(bn), kind="tile", names=("n",)) as columns,
    ):
        start = b.full(b.const(0.0, f32), bm, bn, name="acc")
        with b.loop(zero, b.dim("K"), b.const(bk), [start], names=("k", "acc")) as steps:
            left = b.load(a, [rows.index, steps.index], [bm, bk], name="a")
            right = b.load(w, [steps.index, columns.index], [bk, bn], name="b")
            steps.yields = (b.dot(left, right, steps.carried[0], name="acc"),)
        b.store(c, steps.results[0], [rows.index, columns.index], [bm, bn])
    return b.program()


def softmax_rows(columns: int = 256, rows: int = 8) -> Program:
    """for r in tile.range(R, step=8): y[r:r+8, :] = tile.softmax(x[r:r+8, :], axis=-1)"""
    b = Builder("softmax_rows")
    x = b.array("x", f32, "R", columns)
    y = b.array("y", f32, "R", columns, mutable=True)
    zero = b.const(0)
    with b.loop(zero, b.dim("R"), b.const(rows), kind="tile", names=("r",)) as loop:
        block = b.load(x, [loop.index, zero], [rows, columns], name="block")
        b.store(y, b.softmax(block, -1, name="probs"), [loop.index, zero], [rows, columns])
    return b.program()


def warp_reduce() -> Program:
    """val = X[tid]; five shuffles down; lane 0 of each warp writes Out[warp]"""
    b = Builder("warp_reduce_sum")
    x = b.array("X", f32, "n")
    out = b.array("Out", f32, "w", mutable=True)
    tid = b.id("thread", name="tid")
    val = b.read(x, tid, name="val")
    for offset in (16, 8, 4, 2, 1):
        val = b.value("add", val, b.shuffle(val, b.const(offset)), name="val")
    with b.when(b.compare("eq", b.id("lane_in_warp"), b.const(0))):
        b.write(out, val, b.value("floordiv", tid, b.const(32)))
    return b.program(domain=Domain("lanes", ("n",)), group=(128,))


def fused_mlp(rows: int = 256, inner: int = 64, hidden: int = 128, columns: int = 64) -> Program:
    """H = relu(tile.dot(X, W1) + b1); Out[:] = tile.dot(H, W2) + b2 - whole arrays, one statement"""
    b = Builder("fused_mlp")
    x = b.array("X", f32, rows, inner)
    w1, b1 = b.array("W1", f32, inner, hidden), b.array("b1", f32, hidden)
    w2, b2 = b.array("W2", f32, hidden, columns), b.array("b2", f32, columns)
    out = b.array("Out", f32, rows, columns, mutable=True)
    zero = b.const(0)

    def whole(array: Value, *shape: int, name: str) -> Value:
        return b.load(array, [zero] * len(shape), shape, name=name)

    def bias(array: Value, extent: int, name: str) -> Value:
        row = b.reshape(whole(array, extent, name=name), 1, extent)
        return b.broadcast(row, rows, extent)

    h = b.dot(whole(x, rows, inner, name="X"), whole(w1, inner, hidden, name="W1"), name="H")
    h = b.value("add", h, bias(b1, hidden, "b1"), name="H")
    h = b.value("max", h, b.full(b.const(0.0, f32), rows, hidden), name="H")
    y = b.dot(h, whole(w2, hidden, columns, name="W2"))
    y = b.value("add", y, bias(b2, columns, "b2"))
    b.store(out, y, [zero, zero], [rows, columns])
    return b.program()


def pipeline(rows: int = 128, step: int = 128, columns: int = 64) -> Program:
    """Two shared buffers in turn; C += tile.dot(buf, B[k:k+128, :]) (the guide's double-buffered pipeline)."""
    b = Builder("pipeline")
    a = b.array("A", f32, rows, "K")
    w = b.array("B", f32, "K", columns)
    c = b.array("C", f32, rows, columns, mutable=True)
    buffers = [b.alloc(f32, rows, step, name=f"buf{n}") for n in range(2)]
    zero = b.const(0)
    toggle = b.const(0, name="toggle")
    with b.loop(zero, b.dim("K"), b.const(step), [toggle], names=("k", "toggle")) as loop:
        buf = b.op("select", (b.compare("eq", loop.carried[0], zero), *buffers), buffers[0].type, "buf")
        b.copy(buf, a, [zero, loop.index], [rows, step])
        b.barrier()
        left = b.load(buf, [zero, zero], [rows, step])
        right = b.load(w, [loop.index, zero], [step, columns])
        old = b.load(c, [zero, zero], [rows, columns])
        b.store(c, b.value("add", old, b.dot(left, right)), [zero, zero], [rows, columns])
        loop.yields = (b.value("xor", loop.carried[0], b.const(1), name="toggle"),)
    return b.program()


def accumulate(rows: int = 256, step: int = 128, columns: int = 64) -> Program:
    """for k in range(0, K, 128): C += tile.dot(A[:, k:k+128], B[k:k+128, :])"""
    b = Builder("accumulate")
    a = b.array("A", f32, rows, "K")
    w = b.array("B", f32, "K", columns)
    c = b.array("C", f32, rows, columns, mutable=True)
    zero = b.const(0)
    with b.loop(zero, b.dim("K"), b.const(step), names=("k",)) as loop:
        left = b.load(a, [zero, loop.index], [rows, step])
        right = b.load(w, [loop.index, zero], [step, columns])
        old = b.load(c, [zero, zero], [rows, columns])
        b.store(c, b.value("add", old, b.dot(left, right)), [zero, zero], [rows, columns])
    return b.program()


def elementwise(
    opcode: str, dtype: DType, operands: int = 2, result: DType | None = None, **attributes: Attribute
) -> Program:
    """i = thread; if i < n: out[i] = opcode(a[i], b[i], ...)"""
    b = Builder(f"elementwise_{opcode}")
    arrays = [b.array("abc"[n], dtype, "n") for n in range(operands)]
    out = b.array("out", result or dtype, "n", mutable=True)
    i = b.id("thread", name="i")
    with b.when(b.compare("lt", i, b.dim("n"))):
        values = [b.read(array, i) for array in arrays]
        b.write(out, b.op(opcode, values, Scalar(result or dtype), "v", **attributes), i)
    return b.program(domain=Domain("lanes", ("n",)))


def countdown() -> Program:
    """for i in range(n - 1, -1, -1): out[n - 1 - i] = i - a loop that counts down, in one lane"""
    b = Builder("countdown")
    out = b.array("out", i64, "n", mutable=True)
    last = b.value("sub", b.dim("n"), b.const(1))
    with b.loop(last, b.const(-1), b.const(-1), names=("i",)) as loop:
        b.write(out, loop.index, b.value("sub", last, loop.index))
    return b.program()


ALL = (saxpy, group_sum, tile_copy, matmul, softmax_rows, warp_reduce, fused_mlp, pipeline, accumulate, countdown)
