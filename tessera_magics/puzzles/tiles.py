"""Puzzles of tiles: blocks with masked edges, reductions, and products, up to attention."""

from typing import Final

import numpy as np

from tessera_magics.puzzles.exercise import Arrays, Exercise


def _every_other_row_large(given: Arrays) -> Arrays:
    x = given["x"]
    return {"x": x + np.float32(100) * (np.arange(len(x), dtype=np.float32) % 2)[:, None]}


def _off_the_grid(given: Arrays) -> Arrays:
    return {"x": given["x"] + np.float32(0.25)}


def _softmax(given: Arrays) -> Arrays:
    x = given["x"].astype(np.float64)
    weights = np.exp(x - x.max(axis=1, keepdims=True))
    return {"out": (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)}


def _quantised(given: Arrays) -> Arrays:
    x = given["x"]
    scale = np.abs(x).max(axis=1) / np.float32(127)
    return {"q": np.floor(x / scale[:, None] + np.float32(0.5)).astype(np.int8), "scale": scale}


def _normalised(given: Arrays) -> Arrays:
    x = given["x"].astype(np.float64)
    centred = x - x.mean(axis=1, keepdims=True)
    return {"out": (centred / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)).astype(np.float32)}


def _log_sum_exp(given: Arrays) -> Arrays:
    x = given["x"].astype(np.float64)
    top = x.max(axis=1)
    return {"out": (top + np.log(np.exp(x - top[:, None]).sum(axis=1))).astype(np.float32)}


def _attention(given: Arrays) -> Arrays:
    scores = given["q"].astype(np.float64) @ given["k"].T
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return {"out": (weights @ given["v"] / weights.sum(axis=1, keepdims=True)).astype(np.float32)}


BLOCKS: Final = Exercise(
    title="Blocks",
    text="Replace negative numbers by 0, a block at a time. A slice `x[t:t+B]` is a **tile**: the group computes with "
    "all of it at once, and no lane is mentioned. The last block may extend past the end: what lies outside is "
    "masked, so it needs no guard.",
    hint="`for t in tile.range(n, step=B):` gives the starts of the blocks; `tile.maximum` works on whole tiles.",
    solution="""
B = 16

@kernel
def clamp(x: f32[n], out: mut f32[n]):
    for t in tile.range(n, step=B):
        out[t:t+B] = tile.maximum(x[t:t+B], 0.0)
""",
    extents=("n",),
    sizes=((16,), (64,), (50,), (3,)),
    small=(7,),
    shapes={"x": ("n",)},
    expected=lambda given: {"out": np.maximum(given["x"], 0)},
    focus=(5,),
    constants={"B": 4},
)

REVERSED_ROWS: Final = Exercise(
    title="Rows in reverse",
    text="Write the rows of a matrix in reverse order: the first becomes the last. Move whole rows: `x[r, :]` is one.",
    hint="The row that becomes row `r` is `rows - 1 - r`.",
    solution="""
@kernel
def reverse_rows(x: f32[rows, cols], out: mut f32[rows, cols]):
    for r in tile.range(rows):
        out[r, :] = x[rows - 1 - r, :]
""",
    extents=("rows", "cols"),
    sizes=((4, 4), (2, 8), (7, 5), (1, 3)),
    small=(4, 3),
    shapes={"x": ("rows", "cols")},
    expected=lambda given: {"out": given["x"][::-1].copy()},
    focus=(1, 1),
)

DOT: Final = Exercise(
    title="Dot product",
    text="Multiply two vectors element by element and add everything up, into `out[0]`. `tile.sum` adds the elements "
    "of a tile; those outside of an array take part in nothing. `out` does not begin at 0.",
    hint="Keep the total in a variable: `total = 0.0` before the loop, `total += tile.sum(...)` in it, `out[0] = "
    "total` after it.",
    solution="""
B = 16

@kernel
def dot(a: f32[n], b: f32[n], out: mut f32[1]):
    total = 0.0
    for t in range(0, n, B):
        total += tile.sum(a[t:t+B] * b[t:t+B])
    out[0] = total
""",
    extents=("n",),
    sizes=((16,), (64,), (50,), (1,)),
    small=(7,),
    shapes={"a": ("n",), "b": ("n",)},
    expected=lambda given: {"out": np.array([given["a"] @ given["b"]], np.float32)},
    focus=(0,),
    constants={"B": 4},
)

ROW_SUMS: Final = Exercise(
    title="Sums of rows",
    text="Add up each row of a matrix. Rows are independent, so the trips of `tile.range(rows)` may run at the same "
    "time; within a row, `tile.sum` does the work.",
    hint="`tile.sum(x[r, :])` is a number.",
    solution="""
@kernel
def row_sums(x: f32[rows, cols], out: mut f32[rows]):
    for r in tile.range(rows):
        out[r] = tile.sum(x[r, :])
""",
    extents=("rows", "cols"),
    sizes=((2, 4), (8, 32), (5, 33), (3, 1)),
    small=(3, 5),
    shapes={"x": ("rows", "cols")},
    expected=lambda given: {"out": given["x"].sum(axis=1)},
    focus=(1,),
)

SOFTMAX: Final = Exercise(
    title="Softmax",
    text="Turn each row into weights: the exponentials of its elements, divided by their sum. Subtract the row's "
    "maximum first, as `exp(100)` is more than a float can hold. Some rows have such elements.",
    hint="`row - tile.max(row)` has no element above 0; `tile.exp` works on tiles.",
    solution="""
@kernel
def softmax(x: f32[rows, cols], out: mut f32[rows, cols]):
    for r in tile.range(rows):
        row = x[r, :]
        weights = tile.exp(row - tile.max(row))
        out[r, :] = weights / tile.sum(weights)
""",
    extents=("rows", "cols"),
    sizes=((2, 4), (4, 32), (5, 21)),
    small=(3, 4),
    shapes={"x": ("rows", "cols")},
    adjust=_every_other_row_large,
    expected=_softmax,
    focus=(1, 2),
)

MATMUL_TILES: Final = Exercise(
    title="Matrix product by tiles",
    text="Multiply two matrices again, now a tile of `B` by `B` results at a time: `tile.dot` multiplies two tiles, on "
    "tensor cores where a GPU has them. Every element read is then used `B` times. The extents need be no "
    "multiples of `B`.",
    hint="Two loops over tiles of `out`, and in them `total = tile.zeros((B, B))` and a loop over `range(0, K, B)` "
    "that adds `tile.dot(a[i:i+B, k:k+B], b[k:k+B, j:j+B])`.",
    solution="""
B = 8

@kernel
def tiled_matmul(a: f32[M, K], b: f32[K, N], out: mut f32[M, N]):
    for i in tile.range(M, step=B):
        for j in tile.range(N, step=B):
            total = tile.zeros((B, B))
            for k in range(0, K, B):
                total += tile.dot(a[i:i+B, k:k+B], b[k:k+B, j:j+B])
            out[i:i+B, j:j+B] = total
""",
    extents=("M", "N", "K"),
    sizes=((8, 8, 8), (16, 8, 24), (13, 21, 10)),
    small=(4, 4, 4),
    shapes={"a": ("M", "K"), "b": ("K", "N")},
    expected=lambda given: {"out": given["a"] @ given["b"]},
    focus=(1, 2),
    constants={"B": 2},
    uses=("dot",),
)

TRANSPOSE: Final = Exercise(
    title="Transpose",
    text="Swap rows and columns, a tile of `B` by `B` at a time: each tile is read from its place, transposed, and "
    "stored at the mirrored place.",
    hint="`t.T` is the transposed tile; the tile of rows `i` and columns `j` goes to rows `j` and columns `i`.",
    solution="""
B = 8

@kernel
def transpose(x: f32[h, w], out: mut f32[w, h]):
    for i in tile.range(h, step=B):
        for j in tile.range(w, step=B):
            out[j:j+B, i:i+B] = x[i:i+B, j:j+B].T
""",
    extents=("h", "w"),
    sizes=((8, 8), (16, 8), (11, 19)),
    small=(3, 4),
    shapes={"x": ("h", "w")},
    expected=lambda given: {"out": given["x"].T.copy()},
    focus=(1, 2),
    constants={"B": 2},
)

QUANTISE: Final = Exercise(
    title="Quantise",
    text="Store each row in 8-bit integers with a scale of its own: `scale[r]` is the row's largest magnitude divided "
    "by 127, and `q[r, c]` is `x[r, c] / scale[r]`, rounded to nearest: `floor(v + 0.5)`. The kernel has two "
    "results.",
    hint="`tile.max(tile.abs(row))` is the largest magnitude; `tile.cast(t, i8)` converts a whole tile.",
    solution="""
@kernel
def quantise(x: f32[rows, cols], q: mut i8[rows, cols], scale: mut f32[rows]):
    for r in tile.range(rows):
        row = x[r, :]
        largest = tile.max(tile.abs(row)) / 127.0
        q[r, :] = tile.cast(tile.floor(row / largest + 0.5), i8)
        scale[r] = largest
""",
    extents=("rows", "cols"),
    sizes=((2, 4), (4, 32), (5, 13)),
    small=(3, 4),
    shapes={"x": ("rows", "cols")},
    adjust=_off_the_grid,
    expected=_quantised,
    focus=(1, 2),
)

LAYER_NORM: Final = Exercise(
    title="Layer norm, reading once",
    text="Shift and scale each row to mean 0 and variance 1: subtract its mean, and divide by the root of its variance "
    "plus `1e-5`. Three steps need the row, but each element may be read from memory **once** only.",
    hint="`row = x[r, :]` reads; afterwards `row` is a value. The variance is the mean of the centred row's squares, "
    "and `tile.rsqrt` is one over the root.",
    solution="""
@kernel
def layer_norm(x: f32[rows, cols], out: mut f32[rows, cols]):
    for r in tile.range(rows):
        row = x[r, :]
        centred = row - tile.sum(row) / cols
        variance = tile.sum(centred * centred) / cols
        out[r, :] = centred * tile.rsqrt(variance + 1e-5)
""",
    extents=("rows", "cols"),
    sizes=((2, 4), (4, 32), (5, 21)),
    small=(3, 4),
    shapes={"x": ("rows", "cols")},
    expected=_normalised,
    focus=(1, 2),
    reads={"x": 1},
    tolerance=1e-4,
)

ONLINE_SOFTMAX: Final = Exercise(
    title="Online softmax",
    text="Compute `log(sum(exp(x[r, :])))` of each row in blocks of `B` columns, reading each element **once**. The "
    "maximum is not known before the last block: keep the greatest element so far and the sum of exponentials "
    "relative to it, and when a greater one comes, shrink the sum to fit. Some rows have elements of about 100.",
    hint="With `new = max(top, tile.max(part))`, what was summed so far shrinks by `tile.exp(top - new)`; then add "
    "`tile.sum(tile.exp(part - new))`. Begin with `top, total = -1e30, 0.0`.",
    solution="""
B = 8

@kernel
def log_sum_exp(x: f32[rows, cols], out: mut f32[rows]):
    for r in tile.range(rows):
        top, total = -1e30, 0.0
        for c in range(0, cols, B):
            part = x[r, c:c+B]
            new = max(top, tile.max(part))
            total = total * tile.exp(top - new) + tile.sum(tile.exp(part - new))
            top = new
        out[r] = top + tile.log(total)
""",
    extents=("rows", "cols"),
    sizes=((2, 8), (4, 32), (5, 21), (2, 3)),
    small=(3, 6),
    shapes={"x": ("rows", "cols")},
    adjust=_every_other_row_large,
    expected=_log_sum_exp,
    focus=(1,),
    constants={"B": 2},
    reads={"x": 1},
)

ATTENTION: Final = Exercise(
    title="Attention",
    text="Everything together: `out = softmax(q @ k.T) @ v`, where `q` has `m` rows, `k` and `v` have `n`, and all "
    "have `d` columns. Work on `B` rows of `q` at a time and walk over blocks of `k` and `v`, with the online "
    "softmax of the puzzle before in each row: the weights never exist as a whole. Nothing is masked but the "
    "edges.",
    hint="`s = tile.dot(q[i:i+B, :], k[j:j+B, :].T)` are the scores of a block. `top` and `total` have one element a "
    "row, `tile.full((B,), -1e30)` and `tile.zeros((B,))`; `acc`, of `B` by `d`, shrinks with `total`, by "
    "`shrink[:, None]`. Divide at the end.",
    solution="""
B = 8

@kernel
def attention(q: f32[m, d], k: f32[n, d], v: f32[n, d], out: mut f32[m, d]):
    for i in tile.range(m, step=B):
        top, total = tile.full((B,), -1e30), tile.zeros((B,))
        acc = tile.zeros((B, d))
        for j in range(0, n, B):
            s = tile.dot(q[i:i+B, :], k[j:j+B, :].T)
            new = tile.maximum(top, tile.max(s, axis=1))
            p = tile.exp(s - new[:, None])
            shrink = tile.exp(top - new)
            total = total * shrink + tile.sum(p, axis=1)
            acc = tile.dot(p, v[j:j+B, :], acc * shrink[:, None])
            top = new
        out[i:i+B, :] = acc / total[:, None]
""",
    extents=("m", "n", "d"),
    sizes=((8, 8, 4), (16, 24, 8), (13, 21, 4)),
    small=(4, 4, 2),
    shapes={"q": ("m", "d"), "k": ("n", "d"), "v": ("n", "d")},
    expected=_attention,
    focus=(1, 1),
    constants={"B": 2},
    uses=("dot",),
    tolerance=1e-4,
)
