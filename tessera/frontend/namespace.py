"""The names a kernel may use: `tile.*`, `tshared`, `tbarrier`, `launch`, ... and what they stand for.

A name is an `Intrinsic`: a value that the builder recognises by identity, wherever the user imported it from.  Called
outside a kernel it explains itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from tessera.core import dtypes
from tessera.core.dtypes import DType
from tessera.core.mistakes import OutsideKernel


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """An operation of the language, e.g. `tile.dot`; `name` is the handler's name, `spelling` what users write."""

    name: str
    spelling: str
    summary: str

    def __call__(self, *_args: object, **_keywords: object) -> object:
        """Refuse: intrinsics mean something only inside a kernel."""
        raise OutsideKernel(
            f"{self.spelling} works only inside a kernel", hint="call it in a function decorated with @kernel"
        )

    def __getitem__(self, _key: object) -> "Intrinsic":
        return self

    def __repr__(self) -> str:
        return f"<{self.spelling}: {self.summary}>"


class Namespace:
    """A group of names, such as `tile`; attributes are intrinsics, plain functions or further namespaces."""

    def __init__(self, name: str, members: Mapping[str, object], call: Intrinsic | None = None) -> None:
        self._name = name
        self._members = dict(members)
        self._call = call

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._members[name]
        except KeyError:
            raise AttributeError(f"{self._name} has no {name!r}", name=name, obj=self) from None

    def __dir__(self) -> list[str]:
        return sorted(self._members)

    def __call__(self, *args: object, **keywords: object) -> object:
        """Call the namespace itself, where it stands for an operation."""
        if self._call is None:
            raise TypeError(f"{self._name} is a namespace: choose one of {', '.join(dir(self))}")
        return self._call(*args, **keywords)

    def __repr__(self) -> str:
        return f"<{self._name}: {', '.join(dir(self))}>"


# Every operation by its place in the language, with one line of help.
_TILE: Final = {
    "linear_id": "index of the lane within its group",
    "lane_id": "index of the lane within its warp of 32",
    "warp_id": "index of the warp within its group",
    "group_id": "index of the group along an axis",
    "range": "blocks of an extent or of an array's axis",
    "load": "read an element, a region or a whole array",
    "store": "write an element or a region",
    "cp_async": "copy asynchronously into shared memory, or give the block as a tile",
    "barrier": "wait for every lane of the group, and for its copies",
    "alloc_shared": "allocate shared memory",
    "dot": "matrix product of two tiles",
    "mma": "matrix product of two tiles, or an iterator over the blocks of one",
    "mma_sync": "multiply and accumulate the current blocks of tile.mma(...)",
    "softmax": "softmax along an axis",
    "relu": "max(x, 0)",
    "max": "maximum along an axis",
    "sum": "sum along an axis, with a fixed association",
    "min": "minimum along an axis",
    "where": "choose by a condition",
    "transpose": "permute the axes",
    "reshape": "change the shape, row-major order",
    "broadcast": "repeat to a shape",
    "arange": "0, 1, ..., n - 1",
    "full": "a tile of one value",
    "zeros": "a tile of zeros",
    "cast": "convert to another dtype",
    "maximum": "element-wise maximum",
    "minimum": "element-wise minimum",
    "fma": "a * b + c, rounded once",
    "warp_shuffle_down": "the value of the lane `offset` above in the warp",
    "warp_shuffle_up": "the value of the lane `offset` below in the warp",
    "warp_shuffle_xor": "the value of the lane whose index differs by `mask`",
    "warp_shuffle_idx": "the value of lane `index` of the warp",
    "cooperative_group": "a group of `size` neighbouring lanes",
}
MATH: Final = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf", "abs", "floor", "ceil")


def _intrinsics(prefix: str, names: Mapping[str, str]) -> dict[str, object]:
    return {name: Intrinsic(name, f"{prefix}{name}", summary) for name, summary in names.items()}


tile: Final = Namespace(
    "tile", {**_intrinsics("tile.", _TILE), **_intrinsics("tile.", dict.fromkeys(MATH, "element-wise"))}
)
tshared: Final = Namespace("tshared", {"alloc": Intrinsic("alloc_shared", "tshared.alloc", "allocate shared memory")})
tbarrier: Final = Intrinsic("barrier", "tbarrier", "wait for every lane of the group, and for its copies")
_COPY: Final = Intrinsic("copy_shared", "cp_async.shared.global", "copy asynchronously from global to shared memory")
cp_async: Final = Namespace("cp_async", {"shared": Namespace("cp_async.shared", {"global_": _COPY})})
reduce_sum: Final = Intrinsic("sum", "reduce_sum", "sum of all elements, with a fixed association")
reduce_max: Final = Intrinsic("max", "reduce_max", "largest element")
reduce_min: Final = Intrinsic("min", "reduce_min", "smallest element")
group_tile_count: Final = Intrinsic("group_lanes", "group_tile_count", "lanes in a group")
group_linear_id: Final = Intrinsic("group_linear_id", "group_linear_id", "index of the group")
grid_group_count: Final = Intrinsic("grid_groups", "grid_group_count", "groups in the grid")
mut: Final = Intrinsic("mut", "mut", "marks a parameter that the kernel writes")
tensor: Final = Intrinsic("tensor", "tensor", "an array of any rank, in an annotation")
Tensor: Final = Intrinsic("tensor", "Tensor", "an array with named axes, in an annotation")


def _grid(blocks: object, threads: object) -> Callable[[object], object]:
    """Launch with an explicit grid: `launch.grid(blocks=(4,), threads=(256,))(kernel)(args)`."""
    return lambda kernel: kernel[blocks, threads]  # type: ignore[index]  # any object with a grid subscript


launch: Final = Namespace(
    "launch",
    {"thread_id": Intrinsic("thread_id", "launch.thread_id", "index of the lane within the launch"), "grid": _grid},
)

KiB: Final = 1024
MiB: Final = 1024**2
GiB: Final = 1024**3


def ceil_div(a: int, b: int) -> int:
    """Return a / b rounded up."""
    return -(-a // b)


LANGUAGE: Final[dict[str, object]] = {
    "tile": tile, "tshared": tshared, "tbarrier": tbarrier, "cp_async": cp_async, "launch": launch,
    "reduce_sum": reduce_sum, "reduce_max": reduce_max, "reduce_min": reduce_min,
    "group_tile_count": group_tile_count, "group_linear_id": group_linear_id, "grid_group_count": grid_group_count,
    "mut": mut, "tensor": tensor, "Tensor": Tensor, "ceil_div": ceil_div, "KiB": KiB, "MiB": MiB, "GiB": GiB,
    **{name: dtype for name, dtype in dtypes.BY_NAME.items() if name not in ("float", "int", "bool")},
    **dtypes.COMPUTE_TYPES,
}  # fmt: skip
"""Every name a kernel can use without importing it; a user's own definition of a name goes first."""


def dtype_of(value: object) -> DType | None:
    """Return the dtype that `value` names (a DType, or Python's float, int, bool), else None."""
    if isinstance(value, DType):
        return value
    if isinstance(value, type):
        return {float: dtypes.f32, int: dtypes.i64, bool: dtypes.boolean}.get(value)
    return None
