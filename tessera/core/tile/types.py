"""The MLIR type of each kernel type, as text (see docs/compiler.md, section 2)."""

from typing import Final

from tessera.core.base.dtypes import DType
from tessera.core.program.types import Array, Scalar, Shared, Tile, Type

INDEX: Final = "i64"
BOOL: Final = "i1"
_FLOATS: Final = {"fp8_e4m3": "f8E4M3FN", "fp8_e5m2": "f8E5M2"}
"""MLIR's names of floats that have another one than ours."""


def element(dtype: DType) -> str:
    """The type of one value: integers are signless, a bool is one bit."""
    if dtype.kind == "bool":
        return BOOL
    return f"i{dtype.bits}" if dtype.is_integer else _FLOATS.get(dtype.name, dtype.name)


def stored(dtype: DType) -> str:
    """The type of one element in memory: a bool takes a byte."""
    return "i8" if dtype.kind == "bool" else element(dtype)


def packed(dtype: DType) -> str:
    """The type of one element in memory behind `tile-pack-floats`: a float of 8 bits is a byte, too."""
    return "i8" if dtype.is_storage else stored(dtype)


def mlir_type(kind: Type) -> str:
    """The text of the MLIR type of `kind`."""
    match kind:
        case Scalar(dtype):
            return element(dtype)
        case Tile(dtype, shape):
            return f"tensor<{_extents(shape)}{element(dtype)}>"
        case Shared(dtype, shape, swizzle):
            space = f"shared.{swizzle}" if swizzle else "shared"
            return f'memref<{_extents(shape)}{stored(dtype)}, "{space}">'
        case Array(dtype, shape, contiguous):
            strides = f", strided<[{', '.join('?' for _ in shape)}]>" if not contiguous and shape else ""
            return f"memref<{_extents(shape)}{stored(dtype)}{strides}>"


def like(kind: Type, element_type: str) -> str:
    """The type with the shape of the scalar or tile `kind` and another element type."""
    return f"tensor<{_extents(kind.shape)}{element_type}>" if isinstance(kind, Tile) else element_type


def _extents(shape: tuple[int | str, ...]) -> str:
    return "".join(f"{'?' if isinstance(extent, str) else extent}x" for extent in shape)
