"""Operations of CUDA, Triton, Numba, NumPy, torch and Python in Tessera's words: remedies for names from elsewhere.

A name that means something elsewhere is never answered by a guess at its spelling: `tan` is no slip of `tanh`.
"""

import builtins
import math
from collections.abc import Sequence
from typing import Any, Final, cast

import numpy as np

from tessera.core.base.dtypes import BY_NAME, from_numpy
from tessera.frontend.language.namespace import tile

LIBRARIES: Final = {
    "np": "numpy as np", "numpy": "numpy", "math": "math", "torch": "", "cuda": "", "numba": "", "tl": "", "triton": "",
    "cp": "", "cupy": "", "jnp": "", "jax": "", "ti": "", "F": "",
}  # fmt: skip
"""What libraries are called in the kernels of others, and how to import those whose constants a kernel may use."""
RECIPES: Final = {
    "tan": "tile.sin(v) / tile.cos(v)",
    "sinh": "(tile.exp(v) - tile.exp(-v)) / 2",
    "cosh": "(tile.exp(v) + tile.exp(-v)) / 2",
    "arctanh": "tile.log((1 + v) / (1 - v)) / 2",
    "arccosh": "tile.log(v + tile.sqrt(v * v - 1))",
    "sign": "tile.where(v > 0, 1.0, tile.where(v < 0, -1.0, 0.0))",
    "isnan": "v != v",
    "isinf": "tile.abs(v) > 3.4028235e38",
    "isfinite": "tile.abs(v) <= 3.4028235e38",
    "expm1": "tile.where(v < 1, 2 * tile.tanh(v / 2) / (1 - tile.tanh(v / 2)), tile.exp(v) - 1)",
    "log1p": "tile.where(1 + v == 1, v, tile.log(1 + v) * v / ((1 + v) - 1))",
    "log10": "tile.log(v) * 0.4342944819032518",
    "round": "tile.floor(v + 0.5)",
    "trunc": "tile.where(v < 0, tile.ceil(v), tile.floor(v))",
    "square": "v * v",
    "reciprocal": "1 / v",
    "negative": "-v",
    "fabs": "tile.abs(v)",
    "radians": "v * 0.017453292519943295",
    "degrees": "v * 57.29577951308232",
    "sigmoid": "1 / (1 + tile.exp(-v))",
    "silu": "v / (1 + tile.exp(-v))",
    "gelu": "v * (1 + tile.erf(v * 0.7071067811865476)) / 2",
    "softplus": "tile.maximum(v, 0.0) + tile.log(1 + tile.exp(-tile.abs(v)))",
    "erfc": "1 - tile.erf(v)",
    "leakyrelu": "tile.where(v > 0, v, 0.01 * v)",
    "elu": "tile.where(v > 0, v, tile.exp(v) - 1)",
}
"""Functions of one number, each by the expression that computes it of `v`."""
_SAME: Final = {
    "rint": "round", "deg2rad": "radians", "rad2deg": "degrees", "fix": "trunc", "expit": "sigmoid", "swish": "silu",
    "atanh": "arctanh", "acosh": "arccosh", "signbit": "sign", "nearbyint": "round", "signum": "sign",
}  # fmt: skip
_SHUFFLES: Final = "exchange values with tile.warp_shuffle_up, _down, _xor or _idx, or through shared memory"
_SCAN: Final = (
    "multiply blocks with a triangle of ones: `tile.dot(t, tile.where(tile.arange(64)[:, None] <= "
    "tile.arange(64)[None, :], 1.0, 0.0))`, and add the last sum of the block before"
)
_ARCS: Final = "there are no inverse trigonometric functions yet: write a polynomial, or pass their values as an array"
_BITS: Final = "there are no operations on the bits of floats: pass the array viewed as integers, x.view(np.uint32)"
_POPULATION: Final = "take bit after bit in a loop: (v >> i) & 1"
_BLOCK: Final = "slice the array where a block is read or written: a[m:m+128, k:k+64]"
_JOIN: Final = "tiles are not joined: store each part to a slice of its own, of shared memory or of the output"
_SORT: Final = "there is no sort: write a bitonic network of compare and exchange steps in shared memory"
_RANDOM: Final = "compute a hash of the element's index and a seed, in u32"
_DEBUG: Final = "store the value to an array and look at it after the launch; sanitize=True finds races and bounds"
_INDICES: Final = "loop over indices: `for i in range(len(a)):`, and write a[i], b[i]"
_NUMPY_CONSTANTS: Final = {"pi": math.pi, "e": math.e, "inf": math.inf, "nan": math.nan, "euler_gamma": np.euler_gamma}
_REMEDIES: Final = {
    # CUDA and Numba
    "syncthreads": "write tbarrier()", "debugbarrier": "write tbarrier()",
    "syncwarp": "write tile.cooperative_group(size=32).sync()",
    "threadidx": "write tile.linear_id(), or tile.linear_id(axis): the last axis is CUDA's x",
    "blockidx": "write group_linear_id(), or tile.group_id(axis): the last axis is CUDA's x",
    "blockdim": "write group_tile_count()", "griddim": "write grid_group_count()",
    "grid": "write launch.thread_id(), or launch.thread_id(axis)",
    "gridsize": "write grid_group_count() * group_tile_count()",
    "warpsize": "write 32",
    "sharedarray": "write tshared.alloc[f32](128)",
    "localarray": "a lane has no arrays of its own: use names, or shared memory: tshared.alloc[f32](128)",
    "shfldown": "write tile.warp_shuffle_down(v, d)", "shfldownsync": "write tile.warp_shuffle_down(v, d)",
    "shflup": "write tile.warp_shuffle_up(v, d)", "shflupsync": "write tile.warp_shuffle_up(v, d)",
    "shflxor": "write tile.warp_shuffle_xor(v, mask)", "shflxorsync": "write tile.warp_shuffle_xor(v, mask)",
    "shflsync": "write tile.warp_shuffle_idx(v, lane)", "ballot": _SHUFFLES, "ballotsync": _SHUFFLES,
    "warpreducesum": "add tile.warp_shuffle_xor(v, o) for o in [16, 8, 4, 2, 1], or use tile.sum on a tile",
    "ldg": "read it by index: x[i]", "printf": _DEBUG, "popc": _POPULATION, "popcount": _POPULATION,
    "clz": _POPULATION, "brev": _POPULATION, "ffs": _POPULATION,
    # Triton
    "programid": "write group_linear_id(), tile.group_id(axis), or a loop over tile.range, whose trips become groups",
    "numprograms": "write grid_group_count()", "cdiv": "write ceil_div(a, b)", "associativescan": _SCAN,
    "makeblockptr": _BLOCK, "maketensordescriptor": _BLOCK, "advance": _BLOCK,
    "constexpr": "use the name of an extent, or a number defined before the kernel", "deviceprint": _DEBUG,
    "staticrange": "loop over a list: `for i in [0, 1, 2]:` is unrolled",
    "multipleof": "leave it out: the compiler finds alignment itself", "maxcontiguous": "leave it out",
    # NumPy and torch: of elements
    "clip": "write tile.minimum(tile.maximum(v, low), high)", "clamp": "write tile.minimum(tile.maximum(v, low), high)",
    "hypot": "write tile.sqrt(a * a + b * b)", "power": "write a ** b", "floatpower": "write a ** b",
    "add": "write a + b", "subtract": "write a - b", "multiply": "write a * b", "divide": "write a / b",
    "truedivide": "write a / b", "floordivide": "write a // b", "mod": "write a % b", "remainder": "write a % b",
    "fmod": "write a % b, for numbers of one sign", "logicalnot": "write ~c",
    "logicaland": "write a & b", "logicalor": "write a | b", "bitwiseand": "write a & b", "bitwiseor": "write a | b",
    "copysign": "write tile.where(b < 0, -tile.abs(a), tile.abs(a))", "fmax": "write tile.maximum(a, b)",
    "fmin": "write tile.minimum(a, b)", "lerp": "write a + t * (b - a)",
    "asin": _ARCS, "acos": _ARCS, "atan": _ARCS, "atan2": _ARCS, "arcsin": _ARCS, "arccos": _ARCS, "arctan": _ARCS,
    "arctan2": _ARCS, "asinh": "write tile.log(v + tile.sqrt(v * v + 1)) for v >= 0",
    "arcsinh": "write tile.log(v + tile.sqrt(v * v + 1)) for v >= 0",
    "bitcast": _BITS, "view": _BITS, "frombuffer": _BITS, "item": "a scalar is a number already: leave it out",
    # NumPy and torch: reductions and scans
    "mean": "divide tile.sum by the number of elements",
    "average": "divide tile.sum by the number of elements",
    "var": "sum the squares of what is left when the mean is taken away",
    "std": "take tile.sqrt of the variance: the mean of the squares of what is left without the mean",
    "norm": "write tile.sqrt(tile.sum(t * t))",
    "logsumexp": "write m + tile.log(tile.sum(tile.exp(t - m))) with m = tile.max(t)",
    "logsoftmax": "write (t - m) - tile.log(tile.sum(tile.exp(t - m))) with m = tile.max(t)",
    "any": "write tile.max(condition)", "all": "write tile.min(condition)",
    "countnonzero": "write tile.sum(t != 0)", "ptp": "write tile.max(t) - tile.min(t)",
    "prod": "multiply in a loop along the axis: `p = p * v`, which begins with 1.0",
    "cumprod": "take the scan of logarithms, or multiply in a loop along the axis: `p = p * v`",
    "sort": _SORT, "argsort": _SORT, "topk": _SORT, "median": _SORT, "unique": _SORT,
    "histogram": "compare a tile with every bin: tile.sum(t[:, None] == tile.arange(bins)[None, :], axis=0)",
    "bincount": "compare a tile with every bin: tile.sum(t[:, None] == tile.arange(bins)[None, :], axis=0)",
    # NumPy and torch: shapes
    "concat": _JOIN, "concatenate": _JOIN, "cat": _JOIN, "stack": _JOIN, "hstack": _JOIN, "vstack": _JOIN,
    "join": _JOIN, "split": "load each part as a slice of its own", "chunk": "load each part as a slice of its own",
    "flip": "store element by element: y[n - 1 - i] = x[i]", "roll": "load a shifted slice: x[t+1:t+129]",
    "pad": "edges are masked: load the slice as it is, and tile.where chooses another value",
    "tril": "write tile.where(rows[:, None] >= columns[None, :], t, 0.0) with tile.arange for both",
    "triu": "write tile.where(rows[:, None] <= columns[None, :], t, 0.0) with tile.arange for both",
    "eye": "write tile.where(tile.arange(n)[:, None] == tile.arange(n)[None, :], 1.0, 0.0)",
    "ones": "write tile.full(shape, 1.0)", "empty": "write tile.zeros(shape)",
    "zeroslike": "write tile.zeros(t.shape)", "oneslike": "write tile.full(t.shape, 1.0)",
    "emptylike": "write tile.zeros(t.shape)", "fulllike": "write tile.full(t.shape, v)",
    "linspace": "write start + step * tile.arange(n)", "outer": "write a[:, None] * b[None, :]",
    "matmul": "write tile.dot(a, b), or a @ b", "einsum": "write tile.dot(a, b) and sums: tile.sum(a * b, axis=0)",
    "mm": "write tile.dot(a, b)", "bmm": "loop over the batch, and write tile.dot(a, b)",
    "ravel": "write tile.reshape(t, (-1,))", "flatten": "write tile.reshape(t, (-1,))",
    "expanddims": "write t[:, None]", "unsqueeze": "write t[:, None]", "squeeze": "write tile.reshape(t, shape)",
    "permute": "write tile.transpose(t, axes)", "swapaxes": "write tile.transpose(t, axes)", "trans": "write t.T",
    "broadcastto": "write tile.broadcast(t, shape)", "expand": "write tile.broadcast(t, shape)",
    "repeat": "write tile.broadcast(t[:, None], (n, k)) and reshape it",
    "gather": "index an array by a tile of integers: x[ids[m:m+32], a:b]",
    "take": "index an array by a tile of integers: x[ids[m:m+32], a:b]",
    "scatter": "index an array by a tile of integers: y[ids[m:m+32], a:b] = t", "umulhi": "write tile.mulhi(a, b)",
    "rand": _RANDOM, "randn": _RANDOM, "randint": _RANDOM, "random": _RANDOM, "philox": _RANDOM, "dropout": _RANDOM,
    # Python
    "print": _DEBUG, "breakpoint": _DEBUG, "zip": _INDICES, "enumerate": _INDICES, "map": _INDICES, "filter": _INDICES,
    "reversed": "count backwards: `for j in range(n):` and a[n - 1 - j]", "sorted": _SORT,
    "append": "lists are fixed when a kernel is compiled: keep numbers in names, a tile or shared memory",
    "list": "write the items: [1, 2, 3]", "tuple": "write the items: (1, 2, 3)",
    "divmod": "write a // b and a % b", "complex": "keep the real and the imaginary part in two arrays",
}  # fmt: skip
_NO_ATOMICS: Final = (
    "there are no atomic operations, whose order changes from run to run: give each group an element of its own, and "
    "add these in a second kernel"
)
_NOT_YET: Final = "there is no such operation: docs/language.md lists what there is"
_OPERATIONS: Final = frozenset(dir(tile))


def remedy_for(name: str) -> str:
    """Return Tessera's spelling of `name`, as CUDA, Triton, NumPy ... spell an operation; empty for unknown names."""
    plain = name.replace("_", "").lower()
    plain = _SAME.get(plain, plain)
    if plain.startswith("atomic"):
        return _NO_ATOMICS
    if plain in RECIPES:
        return f"write {RECIPES[plain]}"
    return _REMEDIES.get(plain, "")


def remedy_for_path(names: Sequence[str]) -> str:
    """Return Tessera's spelling of `library.name` or `library.part.name`, of a library that kernels do not know."""
    library, rest = names[0], names[1:]
    if not rest:
        return "use the operations of tile"
    inside = [f"write tile.{rest[-1]}(...)"] if rest[-1] in _OPERATIONS else []
    parts = ["_".join(rest), rest[0], rest[-1]]
    if rest[-1] in ("load", "store") and library in ("tl", "triton"):
        return "read and write by index or slice: x[i], x[t:t+128]; what lies outside an array is masked"
    constant = _NUMPY_CONSTANTS.get(rest[-1]) if LIBRARIES.get(library) else None
    if constant is not None:
        return f"import {LIBRARIES[library]} before the kernel" + (f", or write {constant!r}" if constant < 9 else "")
    found = [remedy_for(parts[0]), *inside, *map(remedy_for, parts[1:]), _dtype_remedy(getattr(np, rest[-1], None))]
    return next(filter(None, found), "use the operations of tile")


def remedy_for_callable(function: object) -> str:
    """Return what to write instead of a call of `function`, which no kernel can call."""
    dtype = _dtype_remedy(function)
    if dtype:
        return dtype
    name = getattr(function, "__name__", "")
    if name in _OPERATIONS:
        return f"write tile.{name}(...)"
    return remedy_for(name)


def _dtype_remedy(kind: object) -> str:
    """Return what to write instead of one of NumPy's types; an empty string for everything else."""
    if not isinstance(kind, type) or not issubclass(kind, np.generic):
        return ""
    dtype = from_numpy(np.dtype(cast("type[Any]", kind)))
    return f"write {dtype.name}(...)" if dtype is not None and dtype.name in BY_NAME else _NOT_YET


def is_known_elsewhere(name: str) -> bool:
    """Return whether `name` means something in NumPy, Python or another library, so that it is no slip of the pen."""
    return bool(remedy_for(name)) or any(hasattr(owner, name) for owner in (np, math, builtins))


def remedy_for_operation(name: str, near: str) -> str:
    """A remedy for `name`, which there is no operation of; `near` is the guess at its spelling."""
    return remedy_for(name) or ("" if is_known_elsewhere(name) else near) or _NOT_YET
