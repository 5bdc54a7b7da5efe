"""A launch's arguments, as far as the frontend needs them: types and shapes, never values."""

from dataclasses import dataclass

from tessera.core.base.dtypes import DType


@dataclass(frozen=True, slots=True)
class ArrayArgument:
    """An array: element type, extents, whether it is C-contiguous, and whether it is `aligned` (see `Array`)."""

    dtype: DType
    shape: tuple[int, ...]
    contiguous: bool = True
    aligned: bool = False


@dataclass(frozen=True, slots=True)
class ScalarArgument:
    """A number.  `dtype` is its own type (a Python float is f32, an int i64, a bool bool)."""

    dtype: DType


Argument = ArrayArgument | ScalarArgument
