"""Element types, and how two of them promote.

Widths are in bits.  Promotion follows NumPy within a kind and JAX's weak literals across kinds: a Python number
takes the type of what it meets; an integer that meets a float becomes that float.

The floats of 8 bits are storage: arrays and tiles hold them, arithmetic is done in f32 (`computed_in`).
"""

from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

import ml_dtypes
import numpy as np

_BYTE: Final = 8


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """One element type: `name` as users write it, `kind` in `float`, `int`, `uint`, `bool`, width in `bits`.

    There is one object of each, which is what tells them apart: types are compared all the time.
    """

    name: str
    kind: str
    bits: int
    numpy: np.dtype

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        # Pickled by name: what comes back is the very same object, and so is its NumPy dtype.
        return (_named, (self.name,))

    @property
    def is_float(self) -> bool:
        """True for f64, f32, f16, bf16 and the floats of 8 bits."""
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """True for signed and unsigned integers, not for bool."""
        return self.kind in ("int", "uint")

    @property
    def is_storage(self) -> bool:
        """True for fp8_e4m3 and fp8_e5m2, in which nothing is computed."""
        return self.is_float and self.bits == _BYTE

    @property
    def bytes(self) -> int:
        """Bytes one element takes in memory (a bool takes one)."""
        return max(1, self.bits // _BYTE)


f64: Final = DType("f64", "float", 64, np.dtype(np.float64))
f32: Final = DType("f32", "float", 32, np.dtype(np.float32))
f16: Final = DType("f16", "float", 16, np.dtype(np.float16))
bf16: Final = DType("bf16", "float", 16, np.dtype(ml_dtypes.bfloat16))
fp8_e4m3: Final = DType("fp8_e4m3", "float", 8, np.dtype(ml_dtypes.float8_e4m3fn))
fp8_e5m2: Final = DType("fp8_e5m2", "float", 8, np.dtype(ml_dtypes.float8_e5m2))
i64: Final = DType("i64", "int", 64, np.dtype(np.int64))
i32: Final = DType("i32", "int", 32, np.dtype(np.int32))
i16: Final = DType("i16", "int", 16, np.dtype(np.int16))
i8: Final = DType("i8", "int", 8, np.dtype(np.int8))
u64: Final = DType("u64", "uint", 64, np.dtype(np.uint64))
u32: Final = DType("u32", "uint", 32, np.dtype(np.uint32))
u16: Final = DType("u16", "uint", 16, np.dtype(np.uint16))
u8: Final = DType("u8", "uint", 8, np.dtype(np.uint8))
boolean: Final = DType("bool", "bool", 1, np.dtype(np.bool_))


@dataclass(frozen=True, slots=True)
class ComputeType:
    """A format that operands of products are rounded to and that nothing is stored in.

    operand_dtype: the type of the operands that may be rounded to it
    """

    name: str
    operand_dtype: DType

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        return (_compute_type, (self.name,))


tf32: Final = ComputeType("tf32", f32)
"""f32 with 10 bits of mantissa: rounded to nearest, ties to even; infinities and NaN stay what they are."""
COMPUTE_TYPES: Final = {kind.name: kind for kind in (tf32,)}

ALL: Final = (f64, f32, f16, bf16, fp8_e4m3, fp8_e5m2, i64, i32, i16, i8, u64, u32, u16, u8, boolean)

# What users may write for each type, beyond its own name (`shared/spec` uses every one of the float aliases).
ALIASES: Final = {
    "float": f32, "float32": f32, "fp32": f32, "float64": f64, "fp64": f64, "double": f64,
    "float16": f16, "fp16": f16, "half": f16, "bfloat16": bf16, "int": i32, "int64": i64, "int32": i32,
    "float8_e4m3fn": fp8_e4m3, "float8_e5m2": fp8_e5m2, "int16": i16, "int8": i8, "uint64": u64, "uint32": u32,
    "uint16": u16, "uint8": u8, "boolean": boolean,
}  # fmt: skip
BY_NAME: Final = {**{d.name: d for d in ALL}, **ALIASES}
_BY_NUMPY: Final = {d.numpy: d for d in ALL}
DTypeLike: TypeAlias = DType | str | np.dtype[Any] | type[Any]  # whatever they hold: `dtype_of` refuses
"""What `dtype_of` reads; PyTorch's dtypes, which need PyTorch to be named, too."""


def _named(name: str) -> DType:
    return BY_NAME[name]


def _compute_type(name: str) -> ComputeType:
    return COMPUTE_TYPES[name]


def from_numpy(dtype: np.dtype) -> DType | None:
    """Return the element type of a NumPy (or ml_dtypes) dtype, or None where Tessera has none."""
    return _BY_NUMPY.get(dtype)


def dtype_of(x: object) -> DType | None:
    """Read an element type: a DType, its name or alias, a dtype or scalar type of NumPy, PyTorch, JAX or CuPy.

    None for everything else, and for Python's `float` and `int`: NumPy and JAX read them as types of different widths.
    """
    if isinstance(x, DType):
        return x
    name = str(x)
    if isinstance(x, str) or name.startswith("torch."):  # NumPy reads no dtype of PyTorch
        return BY_NAME.get(name.removeprefix("torch."))
    if x is None or x is float or x is int:  # NumPy reads None as f64
        return None
    try:
        return from_numpy(np.dtype(cast("type", x)))
    except TypeError:
        return None


def promote(a: DType, b: DType) -> DType:
    """Return the type in which `a` and `b` meet; symmetric and associative.

    bool < integers < floats.  Two floats of 16 bits with different formats meet in f32, and so does a float of 8 bits
    with any other float but f64; an unsigned and a signed
    integer meet in the next wider signed one (u64 with a signed one in i64, where NumPy would go to f64).
    """
    if a == b:
        return a
    rank = {"bool": 0, "uint": 1, "int": 1, "float": 2}
    if rank[a.kind] != rank[b.kind]:
        return a if rank[a.kind] > rank[b.kind] else b
    if a.kind == "float":
        narrow = a.is_storage or b.is_storage or a.bits == b.bits
        return max(a, b, f32, key=lambda d: d.bits) if narrow else max(a, b, key=lambda d: d.bits)
    if a.kind == b.kind:
        return max(a, b, key=lambda d: d.bits)
    unsigned, signed = (a, b) if a.kind == "uint" else (b, a)
    bits = signed.bits if signed.bits > unsigned.bits else min(64, unsigned.bits * 2)
    return {64: i64, 32: i32, 16: i16, 8: i8}[bits]


def computed_in(dtype: DType) -> DType:
    """The type in which arithmetic on `dtype` is done: f32 for a float of 8 bits, else its own."""
    return f32 if dtype.is_storage else dtype
