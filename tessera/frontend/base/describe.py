"""Name what a binding is, in the user's terms, for messages."""

from types import ModuleType
from typing import Final

import numpy as np

from tessera.core.base.dtypes import ComputeType, DType
from tessera.core.program.program import Value
from tessera.core.program.types import Array, Scalar, Tile
from tessera.frontend.base.bindings import BlockIndex, CooperativeGroup, Method, Region, SharedHole
from tessera.frontend.language.namespace import Intrinsic, Namespace
from tessera.frontend.syntax.kernel_source import KernelSource

_NAMED: Final[dict[type, str]] = {Namespace: "the namespace", DType: "the type", ComputeType: "the type"}
"""What is said before values whose text is their name."""


def describe(binding: object) -> str:
    """A short noun phrase: "a (128,) tile of f32", "the operation tile.dot", "a list"."""
    if isinstance(binding, Value):
        return _describe_type(binding)
    if isinstance(binding, Region):
        return f"a {binding.shape} region of {binding.memory.name or 'an array'}"
    if isinstance(binding, BlockIndex):
        return f"a block of {binding.extent} indices"
    if isinstance(binding, CooperativeGroup):
        return f"a cooperative group of {binding.size} lanes"
    if isinstance(binding, SharedHole):
        return "a shared buffer"
    if isinstance(binding, Intrinsic):
        return f"the operation {binding.spelling}"
    if type(binding) in _NAMED:
        return f"{_NAMED[type(binding)]} {binding!r}"
    if isinstance(binding, Method):
        return f"the method {binding.name}"
    if isinstance(binding, bool | int | float | str):
        return f"the constant {binding!r}"
    return _describe_host(binding)


def is_kernel(binding: object) -> bool:
    """Return whether `binding` is a kernel, which the layers above make."""
    return isinstance(getattr(binding, "source", None), KernelSource)


def is_outside_array(binding: object) -> bool:
    """Return whether `binding` is an array that the kernel's surroundings hold: NumPy's, torch's ..."""
    return hasattr(binding, "shape") and hasattr(binding, "dtype") and not isinstance(binding, Value | Region)


def _describe_host(binding: object) -> str:
    if is_kernel(binding):
        return f"the kernel {getattr(binding, '__name__', '')}"
    if isinstance(binding, ModuleType):
        return f"the module {binding.__name__}"
    name = getattr(binding, "__name__", "") if callable(binding) else ""
    if name:
        numpys = isinstance(binding, np.ufunc) or str(getattr(binding, "__module__", "")).startswith("numpy")
        return f"{'NumPy' if numpys else 'Python'}'s {name}"
    kind = type(binding).__name__
    return f"the {kind} outside the kernel" if is_outside_array(binding) else f"a Python {kind}"


def _describe_type(value: Value) -> str:
    kind = value.type
    if isinstance(kind, Scalar):
        return f"a scalar of {kind.dtype}"
    if isinstance(kind, Tile):
        return f"a {kind.shape} tile of {kind.dtype}"
    if isinstance(kind, Array):
        return f"the array {value.name}"
    return f"a shared buffer of {kind.dtype}"
