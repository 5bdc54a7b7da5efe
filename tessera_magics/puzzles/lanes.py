"""Puzzles of lanes: one lane for each element, guards, neighbours, shared memory."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from tessera_magics.puzzles.exercise import Arrays, Exercise

GROUP: Final = 32


def _shifted(x: NDArray[np.float32], by: int) -> NDArray[np.float32]:
    out = np.zeros_like(x)
    if by >= 0:
        out[: max(0, len(x) - by)] = x[by:]
    else:
        out[-by:] = x[:by]
    return out


def _convolved(given: Arrays) -> Arrays:
    x, w = given["x"], given["w"]
    return {"out": sum((w[j] * _shifted(x, j) for j in range(len(w))), np.zeros_like(x))}


def _running_sums(given: Arrays) -> Arrays:
    x = given["x"]
    blocks = [np.cumsum(x[start : start + GROUP]) for start in range(0, len(x), GROUP)]
    return {"out": np.concatenate(blocks).astype(np.float32)}


MAP: Final = Exercise(
    title="Map",
    text="Add 10 to every element of `x`. A kernel is what one **lane** does: `tile.linear_id()` is its number, and "
    "each lane writes one element of `out`. The launch has as many lanes as `out` has elements.",
    hint="`i = tile.linear_id()` names the lane; it reads `x[i]` and writes `out[i]`.",
    solution="""
@kernel
def add_ten(x: f32[n], out: mut f32[n]):
    i = tile.linear_id()
    out[i] = x[i] + 10.0
""",
    extents=("n",),
    sizes=((4,), (32,), (100,)),
    small=(6,),
    shapes={"x": ("n",)},
    expected=lambda given: {"out": given["x"] + 10},
    focus=(3,),
)

ZIP: Final = Exercise(
    title="Zip",
    text="Multiply two arrays element by element. Each lane now reads one element of either.",
    hint="The same index is used three times.",
    solution="""
@kernel
def multiply(a: f32[n], b: f32[n], out: mut f32[n]):
    i = tile.linear_id()
    out[i] = a[i] * b[i]
""",
    extents=("n",),
    sizes=((4,), (32,), (77,)),
    small=(6,),
    shapes={"a": ("n",), "b": ("n",)},
    expected=lambda given: {"out": given["a"] * given["b"]},
    focus=(2,),
)

GUARD: Final = Exercise(
    title="Guard",
    text="Square every element, in **groups** of 32 lanes. Groups are whole: where `n` is no multiple of 32, the last "
    "group has lanes without an element, and these must do nothing. `launch.thread_id()` counts lanes across all "
    "groups.",
    hint="The extent `n` is a name that the kernel knows: `if i < n:`.",
    solution="""
@kernel tile[(32,)]
def square(x: f32[n], out: mut f32[n]):
    i = launch.thread_id()
    if i < n:
        out[i] = x[i] * x[i]
""",
    extents=("n",),
    sizes=((32,), (64,), (40,), (1,)),
    small=(6,),
    shapes={"x": ("n",)},
    expected=lambda given: {"out": given["x"] ** 2},
    focus=(5,),
)

MAP_2D: Final = Exercise(
    title="Map in two dimensions",
    text="Halve every element of a matrix. Lanes can lie along two axes: `launch.thread_id(0)` counts rows and "
    "`launch.thread_id(1)` columns. Groups are 4 by 8 lanes, so guard both axes.",
    hint="`if i < h and j < w:` guards both.",
    solution="""
@kernel tile[(4, 8)]
def halve(x: f32[h, w], out: mut f32[h, w]):
    i, j = launch.thread_id(0), launch.thread_id(1)
    if i < h and j < w:
        out[i, j] = x[i, j] / 2.0
""",
    extents=("h", "w"),
    sizes=((4, 8), (8, 16), (5, 11), (13, 3)),
    small=(3, 4),
    shapes={"x": ("h", "w")},
    expected=lambda given: {"out": given["x"] / 2},
    focus=(1, 2),
)

BROADCAST: Final = Exercise(
    title="Broadcast",
    text="Make the table of all sums: `out[i, j] = a[i] + b[j]`. Each lane writes one element of the table; an element "
    "of `a` is read by a whole row of lanes, one of `b` by a whole column.",
    hint="The lanes lie along two axes, as in the puzzle before; the arrays have one each.",
    solution="""
@kernel
def table(a: f32[h], b: f32[w], out: mut f32[h, w]):
    i, j = launch.thread_id(0), launch.thread_id(1)
    if i < h and j < w:
        out[i, j] = a[i] + b[j]
""",
    extents=("h", "w"),
    sizes=((2, 3), (8, 8), (5, 19), (17, 4)),
    small=(3, 4),
    shapes={"a": ("h",), "b": ("w",)},
    expected=lambda given: {"out": given["a"][:, None] + given["b"]},
    focus=(1, 2),
)

STENCIL: Final = Exercise(
    title="Stencil",
    text="Add every element to its two neighbours. Where there is no neighbour, at both ends, it counts as 0. A "
    "computed index never counts from the end as in Python: `x[i - 1]` of lane 0 lies outside the array.",
    hint="`left = x[i - 1] if i > 0 else 0.0` reads only where there is a neighbour.",
    solution="""
@kernel
def add_neighbours(x: f32[n], out: mut f32[n]):
    i = tile.linear_id()
    if i < n:
        left = x[i - 1] if i > 0 else 0.0
        right = x[i + 1] if i + 1 < n else 0.0
        out[i] = left + x[i] + right
""",
    extents=("n",),
    sizes=((4,), (64,), (50,), (1,)),
    small=(7,),
    shapes={"x": ("n",)},
    expected=lambda given: {"out": _shifted(given["x"], -1) + given["x"] + _shifted(given["x"], 1)},
    focus=(3,),
)

CONVOLUTION: Final = Exercise(
    title="Convolution",
    text="Slide a window of `k` weights over `x`: `out[i]` is the sum of `w[j] * x[i + j]` over all `j`. Beyond the "
    "end, `x` counts as 0. Each lane loops over the window.",
    hint="Begin with `total = 0.0`, and add in `for j in range(k):`; `x[i + j] if i + j < n else 0.0` is the element.",
    solution="""
@kernel
def convolve(x: f32[n], w: f32[k], out: mut f32[n]):
    i = tile.linear_id()
    if i < n:
        total = 0.0
        for j in range(k):
            total += w[j] * (x[i + j] if i + j < n else 0.0)
        out[i] = total
""",
    extents=("n", "k"),
    sizes=((6, 2), (64, 4), (45, 7)),
    small=(7, 3),
    shapes={"x": ("n",), "w": ("k",)},
    expected=_convolved,
    focus=(2,),
)

RUNNING_SUMS: Final = Exercise(
    title="Running sums",
    text="Each block of 32 elements is summed up on its own: `out[i]` is the sum of the block's elements up to and "
    "with `x[i]`. The lanes of a group work together in shared memory, `tshared.alloc[f32](32)`: in each of five "
    "rounds a lane adds what the lane 1, 2, 4, 8 and 16 places before it holds. `tbarrier()` keeps the lanes "
    "together.",
    hint="A round has two steps with a barrier after each: every lane reads its partner's value into a variable, then "
    "every lane adds that variable to its own place. `for d in [1, 2, 4, 8, 16]:` makes the rounds. All lanes "
    "must reach the barriers, so guard only reads and the last write.",
    solution="""
@kernel tile[(32,)]
def running_sums(x: f32[n], out: mut f32[n]):
    buffer = tshared.alloc[f32](32)
    i, lane = launch.thread_id(), tile.linear_id()
    buffer[lane] = x[i] if i < n else 0.0
    tbarrier()
    for d in [1, 2, 4, 8, 16]:
        before = buffer[lane - d] if lane >= d else 0.0
        tbarrier()
        buffer[lane] += before
        tbarrier()
    if i < n:
        out[i] = buffer[lane]
""",
    extents=("n",),
    sizes=((32,), (96,), (70,)),
    small=(7,),
    shapes={"x": ("n",)},
    expected=_running_sums,
    focus=(4,),
)

MATMUL: Final = Exercise(
    title="Matrix product, one lane an element",
    text="Multiply two matrices. The lane at row `i` and column `j` walks along row `i` of `a` and down column `j` of "
    "`b`, and adds up the products.",
    hint="`for k in range(K):` walks; the shapes give the names `M`, `N` and `K`.",
    solution="""
@kernel
def matmul(a: f32[M, K], b: f32[K, N], out: mut f32[M, N]):
    i, j = launch.thread_id(0), launch.thread_id(1)
    if i < M and j < N:
        total = 0.0
        for k in range(K):
            total += a[i, k] * b[k, j]
        out[i, j] = total
""",
    extents=("M", "N", "K"),
    sizes=((2, 2, 2), (8, 8, 8), (7, 13, 5)),
    small=(3, 4, 3),
    shapes={"a": ("M", "K"), "b": ("K", "N")},
    expected=lambda given: {"out": given["a"] @ given["b"]},
    focus=(1, 2),
)
