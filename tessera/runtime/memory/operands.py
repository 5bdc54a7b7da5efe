"""Operands of the library's functions: arrays of any library, with their dtype, shape and place.

NumPy, PyTorch, CuPy and JAX arrays come in; what a function makes is an array of the same library on the same device.
"""

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar, cast

import numpy as np

from tessera.core.base import dtypes
from tessera.core.base.dtypes import DType, from_numpy
from tessera.core.errors.catalog import ArgumentType, NotAnArray, OperandMismatch, OverlappingArrays
from tessera.runtime.arrays.host import AnyArray, as_array
from tessera.runtime.arrays.interop import is_cupy, is_jax, is_tensor, library_of, require_writable
from tessera.runtime.arrays.protocols import SupportsReshape, SupportsView
from tessera.runtime.memory.device_arrays import device_view, is_on_device
from tessera.runtime.memory.huge_pages import LEAST, prefer_huge_pages

# PyTorch's names; the others take NumPy's dtypes, with bfloat16 from ml_dtypes.
_TORCH: Final = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16",
    "fp8_e4m3": "float8_e4m3fn", "fp8_e5m2": "float8_e5m2", "i64": "int64", "i32": "int32",
    "i16": "int16", "i8": "int8", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "bool": "bool",
}  # fmt: skip


A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)
"""The type of an array, such as `torch.Tensor`: results have that of the operands."""


@dataclass(frozen=True, slots=True)
class Operand(Generic[A_co]):
    """One array.

    value: the caller's own; view: a NumPy array with its shape and strides, whose elements are readable only where
    `on_device` is false
    """

    name: str
    value: A_co
    view: AnyArray
    dtype: DType
    on_device: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return self.view.shape

    @property
    def contiguous(self) -> bool:
        """Return whether its elements lie in C order without gaps."""
        return bool(self.view.flags.c_contiguous)

    def reshaped(self, shape: Sequence[int]) -> object:
        """Return the same elements in another shape; a copy where its strides allow no view."""
        if tuple(shape) == self.shape:
            return self.value
        return self.shapely.reshape(tuple(shape))

    def on_host(self, shape: Sequence[int]) -> AnyArray | None:
        """Return the same elements of the host's memory in another shape as a view of NumPy, None where there is none.

        A launch takes it as it is: arrays of other libraries would be viewed anew by each.
        """
        if self.on_device or not self.contiguous:
            return None
        return self.view if tuple(shape) == self.shape else self.view.reshape(tuple(shape))

    def alike(self, shape: Sequence[int], name: str) -> "Operand[object]":
        """Return the same elements in another shape under a name of their own."""
        view = self.on_host(shape)
        if view is None:
            return operand(self.reshaped(shape), name)
        return Operand(name, self.reshaped(shape), view, self.dtype, on_device=False)

    @property
    def shapely(self) -> SupportsReshape:
        """The array itself where it can be given another shape, else (memoryview) a NumPy array of the same memory."""
        return cast("SupportsReshape", self.value if hasattr(self.value, "reshape") or self.on_device else self.view)

    @property
    def sliceable(self) -> bool:
        """Return whether parts of it are views: a contiguous array, of a library that gives views."""
        return self.contiguous and library_of(self.value) in ("numpy", "torch", "cupy")

    def part(self, first: int, count: int, all_of: int) -> object:
        """Return `count` of `all_of` parts along its first two axes, from number `first` on, behind an axis of 1."""
        if count == all_of:
            return self.value
        each = self.shape[0] * self.shape[1] // all_of
        whole = self.shapely.reshape((1, self.shape[0] * self.shape[1], *self.shape[2:]))
        return whole[:, first * each : (first + count) * each]


def operand(value: A, name: str) -> Operand[A]:
    """Inspect an array.  Raises NotAnArray, ArgumentType for elements of a type that Tessera does not have."""
    on_device = is_on_device(value)
    view = device_view(value, name) if on_device else as_array(value, name)
    dtype = from_numpy(view.dtype)
    if dtype is None:
        raise ArgumentType(f"{name} holds {view.dtype}, which Tessera has no type for", hint="convert it to float32")
    return Operand(name, value, view, dtype, on_device)


def packed(array: Operand[A]) -> Operand[A]:
    """Return the array itself where it is in C order without gaps, else a copy of it that is."""
    if array.contiguous:
        return array
    value = array.value
    if is_tensor(value):
        return operand(cast("A", value.contiguous()), array.name)
    if array.on_device and is_cupy(value):
        return operand(sys.modules["cupy"].ascontiguousarray(value), array.name)
    if array.on_device:
        raise NotAnArray(f"{array.name} has gaps or another order", hint="pass a contiguous array")
    return operand(cast("A", np.ascontiguousarray(array.view)), array.name)


def optional(value: A | None, name: str) -> Operand[A] | None:
    """Inspect an array, if there is one."""
    return None if value is None else operand(value, name)


def empty(like: Operand[A], shape: Sequence[int], dtype: DType) -> Operand[A]:
    """Allocate an array of the library and on the device of `like`; its elements are undefined."""
    library = library_of(like.value)
    if like.on_device and library not in ("torch", "cupy", "jax"):
        raise NotAnArray(
            f"no output like {like.name}, a {type(like.value).__name__}, can be made", hint="pass out= with an array"
        )
    return operand(new_array(like.value, shape, dtype, on_device=like.on_device), "out")


def new_array(like: A, shape: Sequence[int], dtype: DType, *, on_device: bool) -> A:
    """Allocate what `empty` describes.

    JAX's arrays on the host cannot be written, so a NumPy array stands in until `as_result`.
    """
    shape = tuple(shape)
    if library_of(like) == "torch" and is_tensor(like):
        torch = sys.modules["torch"]
        made = torch.empty(shape, dtype=getattr(torch, _TORCH[dtype.name]), device=like.device)
        if not on_device and (size := math.prod(shape) * dtype.bytes) >= LEAST:
            prefer_huge_pages(made.data_ptr(), size)
        return made
    if is_cupy(like):
        with like.device:
            return sys.modules["cupy"].empty(shape, dtype.numpy)
    if on_device and is_jax(like):
        jax = sys.modules["jax"]
        return jax.block_until_ready(jax.numpy.empty(shape, dtype.numpy, device=like.device))
    return cast("A", np.empty(shape, dtype.numpy))


def typed_part(block: Operand[A], first: int, shape: Sequence[int], dtype: DType) -> object:
    """Return an array in the bytes of a block from `first` on, of the library that the block is an array of."""
    size = math.prod(shape) * dtype.numpy.itemsize
    kind: object = dtype.numpy
    if library_of(block.value) == "torch":
        kind = getattr(sys.modules["torch"], _TORCH[dtype.name])
    piece = cast("SupportsView", block.shapely[(slice(first, first + size),)])
    return piece.view(kind).reshape(tuple(shape))


def as_result(made: Operand[A], like: Operand[object]) -> A:
    """Return an output as the caller gets it: the array itself, or one of JAX where NumPy's stood in for it."""
    if type(made.value) is np.ndarray and library_of(like.value) == "jax":
        return sys.modules["jax"].numpy.asarray(made.view)
    return made.value


def output(given: A | None, like: Operand[A], shape: Sequence[int], dtype: DType, name: str = "out") -> Operand[A]:
    """Return the array to write: a new one, or `given` once it is known to have that shape.

    Raises OperandMismatch for another shape, and for numbers that would lose their fraction.
    """
    if given is None:
        return empty(like, shape, dtype)
    found = operand(given, name)
    require_writable(given, name)
    require(found.shape == tuple(shape), f"{name} is {extents(found.shape)}, and the result {extents(shape)}")
    if dtype.is_float and not found.dtype.is_float:
        raise OperandMismatch(f"{name} holds {found.dtype}, and the result {dtype}", hint="pass an array of floats")
    return found


def result_dtype(wanted: object, otherwise: DType) -> DType:
    """Return the dtype that a caller names, see `dtype_of`.  Raises ArgumentType."""
    if wanted is None:
        return otherwise
    dtype = dtypes.dtype_of(wanted)
    if dtype is None:
        names = ", ".join(each.name for each in dtypes.ALL)
        raise ArgumentType(f"{wanted!r} is no dtype", hint=f"the dtypes are {names}")
    return dtype


def require(condition: bool, message: str, hint: str = "") -> None:
    """Raise OperandMismatch unless `condition`."""
    if not condition:
        raise OperandMismatch(message, hint=hint)


def require_rank(array: Operand[object], rank: int, meaning: str) -> None:
    """Raise OperandMismatch unless `array` has `rank` axes."""
    require(len(array.shape) == rank, f"{array.name} has {len(array.shape)} axes, not {rank}", f"give {meaning}")


def require_floats(arrays: Iterable[Operand[object] | None]) -> None:
    """Raise OperandMismatch for anything but f32, f16, bf16 and narrower floats."""
    for array in arrays:
        if array is not None and not (array.dtype.is_float and array.dtype.bits <= dtypes.f32.bits):
            raise OperandMismatch(f"{array.name} holds {array.dtype}", hint="give f32, f16 or bf16")


def require_disjoint(result: Operand[object], *inputs: Operand[object] | None) -> None:
    """Raise OverlappingArrays where a result lies in the memory of what is read again after parts of it are written."""
    for array in inputs:
        if array is not None and array.on_device == result.on_device and np.may_share_memory(array.view, result.view):
            raise OverlappingArrays(
                f"{result.name} lies in the memory of {array.name}, of which several groups read each element",
                hint=f"pass another array for {result.name}",
            )


def require_same_dtype(first: Operand[object], *others: Operand[object]) -> None:
    """Raise OperandMismatch unless all hold the same type."""
    for other in others:
        require(
            other.dtype == first.dtype,
            f"{first.name} holds {first.dtype} and {other.name} {other.dtype}",
            "convert one of them",
        )


def rows_and_columns(array: Operand[object]) -> tuple[int, int]:
    """Return the number of rows along the last axis, and their length.  Raises OperandMismatch for an empty one."""
    require(bool(array.shape) and array.view.size > 0, f"{array.name} is empty", "give it elements")
    return math.prod(array.shape[:-1]), array.shape[-1]


def require_flat(out: Operand[object], shape: Sequence[int]) -> None:
    """Raise OperandMismatch where only a copy of `out` could have another shape."""
    if out.shape != tuple(shape):
        require(out.contiguous, f"{out.name} has gaps or another order", "pass a contiguous array")


def flat_output(out: Operand[object], shape: Sequence[int]) -> object:
    """Return a view of `out` with another shape.  Raises OperandMismatch where only a copy could have it."""
    require_flat(out, shape)
    return out.reshaped(shape)


def extents(shape: Sequence[int]) -> str:
    """Return "4 x 8", for messages."""
    return " x ".join(map(str, shape)) or "a single number"
