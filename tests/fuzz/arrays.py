"""Arguments of a random kernel: values where implementations differ, and views of every kind."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.lib.stride_tricks import as_strided

DTYPES: dict[str, Any] = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "i64": np.int64, "i32": np.int32, "i16": np.int16, "i8": np.int8,
    "u64": np.uint64, "u32": np.uint32, "u16": np.uint16, "u8": np.uint8,
}  # fmt: skip
FLOATS = ("f32", "f64", "f16", "bf16")
INTEGERS = tuple(name for name in DTYPES if name not in FLOATS)
VALUES = ("ordinary", "special", "zeros", "small")
READ_VIEWS = ("plain", "offset", "step", "reversed", "fortran", "column", "repeated", "overlapping")
WRITTEN_VIEWS = ("plain", "offset", "step", "reversed", "fortran", "column")


MARGIN = 64
"""Elements around an array; as many as leave its alignment as it is."""


@dataclass(frozen=True)
class Array:
    """One argument; `shape` in symbols of the case, `view` one of READ_VIEWS, `values` one of VALUES."""

    name: str
    dtype: str
    shape: tuple[str, ...]
    view: str = "plain"
    values: str = "ordinary"
    mutable: bool = False

    def annotation(self) -> str:
        return f"{self.name}: {'mut ' if self.mutable else ''}{self.dtype}[{', '.join(self.shape)}]"

    def make(self, extents: dict[str, int], seed: int) -> np.ndarray:
        """A fresh array, the same each time."""
        shape = tuple(extents[e] for e in self.shape)
        random = np.random.default_rng([seed, *self.name.encode()])
        return viewed(self.view, shape, lambda wanted: _in_a_margin(numbers(self.dtype, self.values, wanted, random)))


def numbers(dtype: str, values: str, shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    """A contiguous array of such values."""
    kind = DTYPES[dtype]
    if dtype in INTEGERS:
        info = np.iinfo(kind)
        plain = random.integers(0 if info.min == 0 else -9, 100, shape).astype(kind)
        if values in ("ordinary", "small"):
            return plain
        edges = np.array([info.min, info.max, info.max - 1, 0, 1, info.min + 1, info.bits, info.bits - 1], kind)
        return np.where(random.random(shape) < 0.4, random.choice(edges, shape), plain).astype(kind)
    if values == "zeros":
        return np.where(random.random(shape) < 0.5, -0.0, 0.0).astype(kind)
    if values == "small":
        return random.integers(-8, 9, shape).astype(kind)
    plain = (random.normal(size=shape) * 8).astype(kind)
    if values == "ordinary":
        return plain
    width = np.dtype(kind).itemsize * 8
    bits = plain.view(f"u{width // 8}")
    infinity = int(np.array(np.inf, kind).view(f"u{width // 8}"))
    top = 1 << (width - 1)
    # Zeros, infinities, quiet and signalling NaN with payloads, denormals, the largest and the smallest.
    edges = [0, top, infinity, top | infinity, infinity + 1, top + infinity + 3, infinity | (infinity >> 1) | 5]
    edges += [1, top | 1, infinity - 1, top | (infinity - 1), 3, int(np.array(1, kind).view(f"u{width // 8}"))]
    some = random.choice(np.array(edges, bits.dtype), shape)
    return np.where(random.random(shape) < 0.35, some, bits).astype(bits.dtype).view(kind)


def _in_a_margin(array: np.ndarray) -> np.ndarray:
    """A copy with elements before and after it that are not its own, which shows who writes them."""
    around = np.full(array.size + 2 * MARGIN, 85).astype(array.dtype)
    inside = around[MARGIN : MARGIN + array.size].reshape(array.shape)
    inside[...] = array
    return inside


def viewed(view: str, shape: tuple[int, ...], make: Callable[[tuple[int, ...]], np.ndarray]) -> np.ndarray:
    """An array of `shape` that lies in memory as `view` says."""
    if view == "offset":
        return make((*shape[:-1], shape[-1] + 3))[..., 3:]
    if view == "step":
        return make((*shape[:-1], 2 * shape[-1]))[..., ::2]
    if view == "reversed":
        return make(shape)[..., ::-1]
    if view == "fortran" and len(shape) > 1:
        return make(shape[::-1]).T
    if view == "column" and len(shape) > 1:
        return make((shape[0], shape[1] + 5, *shape[2:]))[:, 2 : 2 + shape[1]]
    if view == "repeated":
        return np.broadcast_to(make((1,) * len(shape)), shape)
    if view == "overlapping" and len(shape) > 1:
        base = make((sum(shape),))
        return as_strided(base, shape, (base.itemsize,) * len(shape), writeable=False)
    return make(shape)
