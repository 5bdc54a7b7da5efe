"""Kernels and arguments as people bring them to the views: every type, shape, layout of memory and kind of launch."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownLambdaType=false
# What a lambda of unknown arity takes has no type.
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np

import tessera
from tessera.kernels.kernel import Configured, Kernel

Array = np.ndarray[Any, np.dtype[Any]]  # of any shape and type
_RANDOM = np.random.default_rng(0)


@dataclass(frozen=True)
class ByDlpack:
    """An array that has DLPack and nothing else."""

    array: Array

    def __dlpack__(self, **options: object) -> object:
        """Return the capsule."""
        return self.array.__dlpack__(**options)  # pyright: ignore[reportCallIssue, reportArgumentType]

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return where it lies."""
        return self.array.__dlpack_device__()


class ByInterface:
    """An array that has `__array_interface__` and nothing else."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.__array_interface__ = array.__array_interface__


@dataclass(frozen=True)
class Case:
    """A kernel's text, how its arguments are made, and what it leaves in the arrays that it writes.

    made: new arguments, the same every time; expected: of these arguments, by parameter
    grid: (groups, lanes) where the launch is given one; tolerance: of the result, absolute
    """

    text: str
    made: Callable[[], tuple[object, ...]]
    expected: Callable[..., Mapping[str, Array]]
    grid: tuple[object, object] | None = None
    tolerance: float = 0.0

    def kernel(self) -> Kernel:
        """Return the kernel, defined anew."""
        module = tessera.compile_source(self.text)
        return next(value for value in vars(module).values() if isinstance(value, Kernel))

    def launch(self, kernel: Kernel) -> Kernel | Configured:
        """Return the kernel with the grid of the launch, where there is one."""
        return kernel if self.grid is None else kernel[self.grid]


def host(value: object) -> Array:
    """Return an argument as an array of NumPy."""
    return np.asarray(getattr(value, "array", value))


def numbers(*shape: int, dtype: object = np.float32) -> Array:
    """Return numbers around zero."""
    return (_RANDOM.standard_normal(shape) * 4).astype(np.dtype(dtype))  # pyright: ignore[reportArgumentType, reportCallIssue]


TWICE = """
@kernel
def twice(x: T[n], y: mut T[n]):
    i = tile.linear_id()
    if i < n:
        y[i] = x[i] + x[i]
"""
ROWS = """
@kernel
def rows(x: f32[r, c], y: mut f32[r, c], a: f32):
    for t in tile.range(r, step=4):
        y[t:t+4, :] = x[t:t+4, :] * a
"""
PHASES = """
@kernel
def phases(x: f32[rows, cols], w: f32[cols], h: mut f32[rows, cols], y: mut f32[rows, cols]):
    scale = w[:] * 2.0
    for r in tile.range(rows):
        h[r, :] = x[r, :] * scale
    for r in tile.range(rows):
        y[r, :] = h[rows - 1 - r, :] - scale
"""
TOTAL = """
@kernel
def total(x: f32[n], out: mut f32[1]):
    out[0] += 1.0
    for t in tile.range(n, step=128):
        out[0] += tile.sum(x[t:t+128])
"""
GRADIENT = """
@kernel
def gradient(x: f32[rows, cols], g: f32[rows, cols], dx: mut f32[rows, cols], dw: mut f32[cols]):
    for r in tile.range(rows):
        dx[r, :] = g[r, :] * 2.0
        dw[:] += x[r, :] * g[r, :]
"""
SOFTMAX = """
@kernel
def softmax(x: f32[rows, cols], y: mut f32[rows, cols]):
    for r in tile.range(rows):
        e = tile.exp(x[r, :] - tile.max(x[r, :]))
        y[r, :] = e / tile.sum(e)
"""
PRODUCT = """
@kernel
def product(A: f16[m, p], B: f16[p, n], C: mut f32[m, n]):
    for i in tile.range(m, step=32):
        for j in tile.range(n, step=32):
            C[i:i+32, j:j+32] = tile.dot(A[i:i+32, :], B[:, j:j+32])
"""
STRETCH = """
@kernel
def stretch(x: f32[n], first: i64, past: i64, y: mut f32[n]):
    for t in tile.range(first, past, step=8):
        y[t:t+8] = x[t:t+8] * 2.0
"""
SPARSE = """
@kernel
def sparse(start: i64[m], v: f32[count], y: mut f32[rows]):
    i = launch.thread_id()
    if i < rows:
        acc = 0.0
        for p in range(start[i], start[i + 1]):
            acc += v[p]
        y[i] = acc
"""
VOLUME = """
@kernel tile[(2, 4, 8)]
def volume(x: f32[a, b, c], y: mut f32[a, b, c]):
    i, j, l = launch.thread_id(0), launch.thread_id(1), launch.thread_id(2)
    if i < a and j < b and l < c:
        y[i, j, l] = x[i, j, l] + 1.0
"""
MIRROR = """
@kernel tile[(64,)]
def mirror(x: f32[n], y: mut f32[n]):
    s = tshared.alloc[f32](64)
    i = tile.linear_id()
    g = group_linear_id() * 64
    s[i] = x[g + i] if g + i < n else 0.0
    tbarrier()
    if g + i < n:
        y[g + i] = s[63 - i]
"""
IN_PLACE = """
@kernel
def in_place(x: mut f32[n]):
    for t in tile.range(n, step=16):
        x[t:t+16] = x[t:t+16] * 2.0
"""
FLIP = """
@kernel
def flip(x: bool[n], wanted: bool, many: u32, y: mut bool[n]):
    i = tile.linear_id()
    if i < n:
        y[i] = not x[i] if wanted else x[i]
"""
HOSTILE = """
@kernel
def größer(maß: f32[n], Ω: mut f32[n]):
    # </script><script>alert(1)</script> <!-- <b>bold</b> & "quotes" 'x' \\u2028 \u2028 \N{SNOWMAN} \N{ROCKET} ]]>
    ünïcødé = tile.linear_id()  # </style></textarea>{{7*7}}${7*7}
    if ünïcødé < n:
        Ω[ünïcødé] = maß[ünïcødé] * 2.0  # \u65e5\u672c\u8a9e
"""
LONG = (
    "\n@kernel\ndef long(x: f32[n], y: mut f32[n]):\n    i = tile.linear_id()\n    if i < n:\n        v = x[i]\n"
    + "".join(f"        v = v * 0.5 + {number}.0  # step {number}\n" for number in range(60))
    + "        y[i] = v\n"
)


def _of(dtype: object, name: str) -> Case:
    return Case(
        TWICE.replace("T[", f"{name}["),
        lambda: (numbers(100, dtype=dtype), np.zeros(100, np.dtype(dtype))),  # pyright: ignore[reportArgumentType, reportCallIssue]
        lambda x, _y: {"y": (x + x).astype(x.dtype)},
    )


def _rows(made: Callable[[], tuple[object, object]]) -> Case:
    return Case(ROWS, lambda: (*made(), 2.0), lambda x, _y, a: {"y": x * np.float32(a)})


def _phases(rows: int) -> Case:
    def made() -> tuple[object, ...]:
        x = numbers(rows, 5)
        return x, numbers(5), np.zeros_like(x), np.zeros_like(x)

    return Case(PHASES, made, lambda x, w, _h, _y: {"h": x * (w * 2), "y": (x * (w * 2))[::-1] - w * 2})


def _twice(made: Callable[[], tuple[object, object]]) -> Case:
    return Case(TWICE.replace("T[", "f32["), made, lambda x, _y: {"y": host(x) * 2})


def _total(count: int) -> Case:
    made = lambda: (np.ones(count, np.float32), np.zeros(1, np.float32))  # noqa: E731 - what makes arguments
    return Case(TOTAL, made, lambda x, _: {"out": np.array([x.sum() + 1], np.float32)})


def _softmax(x: Array, _y: Array) -> Mapping[str, Array]:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return {"y": e / e.sum(axis=1, keepdims=True)}


def _settled(x: Array, _y: Array) -> Mapping[str, Array]:
    for number in range(60):
        x = x * np.float32(0.5) + np.float32(number)
    return {"y": x}


def _mirrored(x: Array, _y: Array) -> Mapping[str, Array]:
    padded = np.zeros(-(-len(x) // 64) * 64, np.float32)
    padded[: len(x)] = x
    return {"y": padded.reshape(-1, 64)[:, ::-1].reshape(-1)[: len(x)]}


def _stretched(x: Array, first: int, past: int, y: Array) -> Mapping[str, Array]:
    y = y.copy()
    stop = min(len(x), first + -(-max(0, past - first) // 8) * 8)
    y[first:stop] = 2 * x[first:stop]
    return {"y": y}


def _zeros(*shape: int) -> Array:
    return np.zeros(shape, np.float32)


CASES: Mapping[str, Case] = {
    "lanes": _twice(lambda: (numbers(1000), _zeros(1000))),
    "one element": _twice(lambda: (numbers(1), _zeros(1))),
    "no element": _twice(lambda: (numbers(0), _zeros(0))),
    "not a number": _twice(lambda: (np.full(40, np.nan, np.float32), _zeros(40))),
    "dlpack": _twice(lambda: (ByDlpack(numbers(40)), ByDlpack(_zeros(40)))),
    "array interface": _twice(lambda: (ByInterface(numbers(40)), ByInterface(_zeros(40)))),
    "memoryview": _twice(lambda: (numbers(40).data, _zeros(40).data)),
    "rows": _rows(lambda: (numbers(10, 7), _zeros(10, 7))),
    "no rows": _rows(lambda: (numbers(0, 7), _zeros(0, 7))),
    "no columns": _rows(lambda: (numbers(7, 0), _zeros(7, 0))),
    "infinite": _rows(lambda: (np.full((9, 6), np.inf, np.float32), np.full((9, 6), -np.inf, np.float32))),
    "transposed": _rows(lambda: (numbers(7, 10).T, _zeros(7, 10).T)),
    "strided": _rows(lambda: (numbers(20, 14)[::2, ::2], _zeros(20, 14)[::2, ::2])),
    "backwards": _rows(lambda: (numbers(10, 7)[::-1, ::-1], _zeros(10, 7)[::-1])),
    "broadcast": _rows(lambda: (np.broadcast_to(numbers(7), (10, 7)), _zeros(10, 7))),
    "phases": _phases(9),
    "phases without rows": _phases(0),
    "total": _total(1000),
    "total of nothing": _total(0),
    "gradient": Case(
        GRADIENT, lambda: (numbers(30, 5), numbers(30, 5), _zeros(30, 5), _zeros(5)),
        lambda x, g, _dx, _dw: {"dx": g * 2, "dw": (x * g).sum(axis=0)}, tolerance=1e-3,
    ),
    "softmax": Case(SOFTMAX, lambda: (numbers(5, 70), _zeros(5, 70)), _softmax, tolerance=1e-6),
    "wide softmax": Case(SOFTMAX, lambda: (numbers(2, 5000), _zeros(2, 5000)), _softmax, tolerance=1e-6),
    "product": Case(
        PRODUCT, lambda: (numbers(70, 40, dtype=np.float16), numbers(40, 50, dtype=np.float16), _zeros(70, 50)),
        lambda a, b, _: {"C": a.astype(np.float32) @ b.astype(np.float32)}, tolerance=1e-2,
    ),
    "stretch": Case(STRETCH, lambda: (numbers(100), 3, 61, _zeros(100)), _stretched),
    "no stretch": Case(STRETCH, lambda: (numbers(100), 61, 3, _zeros(100)), _stretched),
    "sparse": Case(
        SPARSE, lambda: (np.array([0, 2, 2, 7, 10]), np.arange(10, dtype=np.float32), _zeros(4)),
        lambda s, v, _: {"y": np.array([v[a:b].sum() for a, b in pairwise(s)])},
    ),
    "volume": Case(VOLUME, lambda: (numbers(3, 5, 9), _zeros(3, 5, 9)), lambda x, _: {"y": x + 1}),
    "grid": Case(
        VOLUME, lambda: (numbers(3, 5, 9), _zeros(3, 5, 9)), lambda x, _: {"y": x + 1}, ((2, 2, 2), (2, 4, 8)),
    ),
    "shared memory": Case(MIRROR, lambda: (numbers(150), _zeros(150)), _mirrored),
    "in place": Case(IN_PLACE, lambda: (numbers(50),), lambda x: {"x": x * 2}),
    "hostile text": Case(HOSTILE, lambda: (numbers(60), _zeros(60)), lambda x, _: {"Ω": x * 2}),
    "long text": Case(LONG, lambda: (numbers(60), _zeros(60)), _settled, tolerance=1e-3),
    "bool": Case(
        FLIP, lambda: (numbers(50) > 0, True, 7, np.zeros(50, bool)), lambda x, _wanted, _many, _y: {"y": ~x},
    ),
    "f16": _of(np.float16, "f16"), "bf16": _of(ml_dtypes.bfloat16, "bf16"), "f64": _of(np.float64, "f64"),
    "i8": _of(np.int8, "i8"), "i64": _of(np.int64, "i64"), "u32": _of(np.uint32, "u32"),
}  # fmt: skip
