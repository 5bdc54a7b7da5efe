"""The names a kernel may use: `tile.*`, `tshared`, `tbarrier`, `launch`, ... and what they stand for.

A name is an `Intrinsic`: a value that the builder recognises by identity, wherever the user imported it from.  Called
outside a kernel it explains itself.
"""

from collections.abc import Callable, Mapping
from keyword import iskeyword
from typing import Final, cast

from tessera.core.base import dtypes
from tessera.core.base.dtypes import DType
from tessera.core.errors.catalog import OutsideKernel
from tessera.core.graph.numerics import TensorOf, declared_numerics
from tessera.frontend.language.reference import REFERENCE


class Intrinsic:
    """An operation of the language, e.g. `tile.dot`; `name` is the handler's name, `spelling` what users write.

    It has a signature and a text of its own, from `tessera.frontend.language.reference`.
    """

    def __init__(self, name: str, spelling: str) -> None:
        self.name, self.spelling = name, spelling
        self.operation = REFERENCE[spelling]
        self.__doc__ = self.operation.text
        self.__name__ = self.__qualname__ = spelling

    def __getattr__(self, name: str) -> object:
        if name != "__signature__":
            raise AttributeError(f"{self.spelling} has no {name!r}", name=name, obj=self)
        return self.operation.signature  # made only when a tool asks

    def __call__(self, *_args: object, **_keywords: object) -> object:
        """Refuse: intrinsics mean something only inside a kernel."""
        raise OutsideKernel(
            f"{self.spelling} works only inside a kernel", hint="call it in a function decorated with @kernel"
        )

    def __getitem__(self, _key: object) -> "Intrinsic":
        return self

    def __repr__(self) -> str:
        return f"<{self.operation.call}: {self.operation.summary}>"


class Namespace:
    """A group of names, such as `tile`; attributes are intrinsics, plain functions or further namespaces."""

    def __init__(self, name: str, members: Mapping[str, object], call: Intrinsic | None = None) -> None:
        self._name = name
        self._members = dict(members)
        self._call = call
        self.__name__ = name
        self.__doc__ = _contents(name, self._members)

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        # A member whose name is a keyword of Python has a _ behind it; tools that read cells do not write it.
        found = f"{name}_" if iskeyword(name) else name
        try:
            return self._members[found]
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


def _contents(name: str, members: Mapping[str, object]) -> str:
    """The operations of a namespace, one a line."""
    found = [member.operation for member in members.values() if isinstance(member, Intrinsic)]
    listed = "".join(f"\n{operation.call}: {operation.summary}" for operation in found)
    return f"Names of the language that begin with `{name}`.\n{listed}"


MATH: Final = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf", "abs", "floor", "ceil")

# Every operation that is written `tile.name` and has a text in `language/reference.py`; a new one gets its text there.
_TILE: Final = [spelling.removeprefix("tile.") for spelling in REFERENCE if spelling.startswith("tile.")]
tile: Final = Namespace("tile", {name: Intrinsic(name, f"tile.{name}") for name in _TILE})
tshared: Final = Namespace("tshared", {"alloc": Intrinsic("alloc_shared", "tshared.alloc")})
tbarrier: Final = Intrinsic("barrier", "tbarrier")
_COPY: Final = Intrinsic("copy_shared", "cp_async.shared.global")
cp_async: Final = Namespace("cp_async", {"shared": Namespace("cp_async.shared", {"global_": _COPY})})
reduce_sum: Final = Intrinsic("sum", "reduce_sum")
reduce_max: Final = Intrinsic("max", "reduce_max")
reduce_min: Final = Intrinsic("min", "reduce_min")
group_tile_count: Final = Intrinsic("group_lanes", "group_tile_count")
group_linear_id: Final = Intrinsic("group_linear_id", "group_linear_id")
grid_group_count: Final = Intrinsic("grid_groups", "grid_group_count")
mut: Final = Intrinsic("mut", "mut")
tensor: Final = Intrinsic("tensor", "tensor")


class _NamedAxes(Intrinsic):
    """`Tensor["B", "D", f32]`; with numerics, as in `Tensor["B", "D", fp6 @accum(fp32)]`, an annotation that acts."""

    def __getitem__(self, key: object) -> "Intrinsic | TensorOf":  # pyright: ignore[reportIncompatibleMethodOverride]
        parts = cast("tuple[object, ...]", key if isinstance(key, tuple) else (key,))
        numerics = declared_numerics(parts[-1]) if parts else None
        return self if numerics is None else TensorOf(parts[:-1], numerics)


Tensor: Final = _NamedAxes("tensor", "Tensor")


def _grid(blocks: object, threads: object) -> Callable[[object], object]:
    """Launch with an explicit grid: `launch.grid(blocks=(4,), threads=(256,))(kernel)(args)`."""
    return lambda kernel: kernel[blocks, threads]  # type: ignore[index]  # any object with a grid subscript


launch: Final = Namespace(
    "launch",
    {"thread_id": Intrinsic("thread_id", "launch.thread_id"), "grid": _grid},
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
