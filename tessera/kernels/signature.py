"""A kernel's signature, and the types of a call's arguments as the frontend and the specialization cache see them."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from tessera.core.base.dtypes import boolean, f32, f64, from_numpy, i64
from tessera.core.base.source import Span
from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import ArgumentCount, ArgumentType, NotAnArray
from tessera.core.placement.mesh_array import MeshArray
from tessera.core.program.arguments import Argument, ArrayArgument, ScalarArgument
from tessera.frontend.syntax.kernel_source import KernelSource
from tessera.kernels.example_arguments import span_of
from tessera.runtime.arrays.host import AnyArray, as_array, is_array, rows_aligned
from tessera.runtime.binding.device_placement import require_together
from tessera.runtime.memory.device_arrays import device_view, is_on_device


class Signature:
    """A kernel's parameters: they bind a call's arguments and describe them, and mistakes point at them.

    names, spans: one a parameter, in order
    """

    def __init__(self, function: Callable[..., object], source: KernelSource) -> None:
        self._source = source
        self._signature = inspect.signature(function)
        self.names = tuple(self._signature.parameters)
        args = source.function.args
        self.spans = tuple(span_of(source, node) for node in (*args.posonlyargs, *args.args, *args.kwonlyargs))

    def ordered(self, arguments: tuple[object, ...], keywords: Mapping[str, object]) -> tuple[object, ...]:
        """Return every parameter's argument, in order, defaults filled in.  Raises ArgumentCount."""
        try:
            bound = self._signature.bind(*arguments, **keywords)
        except TypeError as error:
            kernel = self._source
            hint = f"call {kernel.name}({', '.join(self.names)})"
            raise ArgumentCount(f"{kernel.name}: {error}", self._head(), hint).with_source(kernel.source) from None
        bound.apply_defaults()
        return tuple(plain(bound.arguments[name]) for name in self.names)

    def described(self, values: tuple[object, ...], *, aligned: bool) -> "Described":
        """Return the types and shapes of `values`, one a parameter; see `describe_arguments`."""
        try:
            return describe_arguments(values, self.names, self.spans, aligned=aligned)
        except TesseraError as error:
            raise error.with_source(self._source.source) from None

    def require_together(self, values: Sequence[object]) -> None:
        """Raise WrongDevice for arrays that lie apart."""
        try:
            require_together(values, self.names, self.spans)
        except TesseraError as error:
            raise error.with_source(self._source.source) from None

    def _head(self) -> Span:
        """Return the place of the kernel's name, with the word before it."""
        node = self._source.function
        column = node.col_offset + 1
        end = column + len("def ") + len(node.name)
        return Span(self._source.source.name, node.lineno, column, node.lineno, end)


@dataclass(frozen=True, slots=True)
class Described:
    """A call's arguments.

    key: all of their types but no extents: two calls of one key differ in extents and values alone
    types: the Python type of each scalar, `object` for arrays
    """

    arguments: tuple[Argument, ...]
    key: tuple[object, ...]
    types: tuple[type, ...]

    @property
    def shape_class(self) -> tuple[object, ...]:
        """Extents rounded up to powers of two: calls of one class share a tuned configuration."""
        return tuple(_class(a.shape) for a in self.arguments if isinstance(a, ArrayArgument))

    @property
    def bytes(self) -> int:
        """Bytes of all arrays."""
        arrays = [argument for argument in self.arguments if isinstance(argument, ArrayArgument)]
        return sum(math.prod(array.shape) * array.dtype.bytes for array in arrays)


def shape_class(values: tuple[object, ...]) -> tuple[object, ...]:
    """Return `Described.shape_class` for NumPy arrays and numbers, fast."""
    return tuple(_class(cast("AnyArray", v).shape) for v in values if isinstance(v, np.ndarray))


def _class(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(1 << max(0, extent - 1).bit_length() for extent in shape)


def describe_arguments(
    values: tuple[object, ...], names: tuple[str, ...], spans: tuple[Span, ...], *, aligned: bool = False
) -> Described:
    """Describe `values`, the arguments for the parameters `names` that stand at `spans`.

    With `aligned`, arrays are told apart by it (see `Array`).
    Arrays may lie on any device: whether the kernel's own is one of them, its launcher says.
    Raises NotAnArray, ArgumentType for what no kernel can take.
    """
    arguments: list[Argument] = []
    key: list[object] = []
    types: list[type] = []
    for value, name, span in zip(values, names, spans, strict=True):
        if isinstance(value, MeshArray):
            raise _on_a_mesh(value, name, span)
        argument = _array(value, name, span, aligned=aligned) if is_array(value) else _scalar(value, name, span)
        arguments.append(argument)
        if isinstance(argument, ArrayArgument):
            key.append((argument.dtype.name, len(argument.shape), argument.contiguous, argument.aligned))
            types.append(object)
        else:
            key.append(type(value))
            types.append(type(value))
    return Described(_with_wide_floats(arguments, types), tuple(key), tuple(types))


def _with_wide_floats(arguments: Sequence[Argument], types: Sequence[type]) -> tuple[Argument, ...]:
    """Return `arguments` with Python's floats in 64 bits where an array has them: f32 would lose their digits."""
    if not any(isinstance(each, ArrayArgument) and each.dtype is f64 for each in arguments):
        return tuple(arguments)
    return tuple([ScalarArgument(f64) if kind is float else each for each, kind in zip(arguments, types, strict=True)])


def _on_a_mesh(value: MeshArray, name: str, span: Span) -> NotAnArray:
    axis = next(iter(value.type.placement.axes), value.mesh.axes[0])
    return NotAnArray(
        f"{name} is {value.type}, which lies on a mesh, and a kernel that is called runs on one device", span,
        hint=f'launch it on the shards: tessera.index_launch(axis="{axis}")(kernel)(...)',
    )  # fmt: skip


def plain(value: object) -> object:
    """Return a 0-d array as its scalar, NumPy's bool as Python's, which packs as a number; all else as it is."""
    if isinstance(value, np.ndarray) and cast("AnyArray", value).ndim == 0:
        value = cast("object", cast("AnyArray", value)[()])
    return bool(cast("object", value)) if isinstance(value, np.bool_) else cast("object", value)


def _array(value: object, name: str, span: Span, *, aligned: bool) -> ArrayArgument:
    array = device_view(value, name, span) if is_on_device(value) else as_array(value, name, span=span)
    dtype = from_numpy(array.dtype)
    if dtype is None:
        raise ArgumentType(f"{name} holds {array.dtype}, which Tessera has no type for", span,
                           "convert it, e.g. to float32")  # fmt: skip
    return ArrayArgument(dtype, array.shape, bool(array.flags.c_contiguous), aligned and rows_aligned(array))


def _scalar(value: object, name: str, span: Span) -> ScalarArgument:
    if isinstance(value, np.generic):
        dtype = from_numpy(cast("np.generic", value).dtype)
        if dtype is not None:
            return ScalarArgument(dtype)
    elif isinstance(value, bool):
        return ScalarArgument(boolean)
    elif isinstance(value, int):
        return ScalarArgument(i64)
    elif isinstance(value, float):
        return ScalarArgument(f32)
    kind = type(cast("object", value)).__name__
    shown = repr(value) if value is None or isinstance(value, str | complex) else f"a {kind}"
    hint = f"pass np.asarray({name})" if isinstance(value, list | tuple | range) else "pass a NumPy array, or a number"
    raise NotAnArray(f"{name} is {shown}; a kernel takes arrays and numbers", span, hint)
