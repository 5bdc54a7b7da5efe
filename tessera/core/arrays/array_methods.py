"""Methods of values under the names of NumPy's arrays and PyTorch's tensors: `x.squeeze()` is `op.squeeze(x)`.

Operators are functions on values, in a package above this one, which imports them nowhere: `tessera.ops.op` enters
them in `OPERATORS`.  A function of methods alone may run before anything has loaded that module; then the first method
loads it by name, as late as `tessera.op` itself does.  Names whose meaning differs between NumPy and PyTorch are left
out: `repeat`, `split`, `view`.
"""

import importlib
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import wraps
from inspect import signature
from math import prod
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeAlias, TypeVar

from tessera.core.arrays.keywords import require_parameters
from tessera.core.arrays.numpy_operand import NumpyOperand

Array: TypeAlias = Any  # an array of NumPy, PyTorch, CuPy or JAX, one on a mesh, or a value of a graph
"""An operand or a result of an operator."""
OPERATORS: Final[dict[str, Callable[..., Array]]] = {}
"""The operators of `tessera.op` by their names."""
Axes: TypeAlias = int | Sequence[int] | None
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def operator_of(name: str) -> Callable[..., Array]:
    """Return an operator of `tessera.op`, which is loaded where nothing has loaded it."""
    if not OPERATORS:
        importlib.import_module("tessera.ops.op")
    return OPERATORS[name]


def _hinted(method: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
    """Make a method name its own parameter where a keyword of another library is given: `axis` for `dim`."""
    name, parameters = method.__name__, list(signature(method).parameters)[1:]

    @wraps(method)
    def checked(self: T, *arguments: P.args, **keywords: P.kwargs) -> R:
        require_parameters(name, parameters, keywords)
        return method(self, *arguments, **keywords)

    return checked


class ArrayMethods(NumpyOperand):
    """An array with methods for operators."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The extents."""

    @abstractmethod
    def reduced(self, reduction: str, axis: Axes, *, keepdims: bool) -> Self:
        """Return the sum, the greatest ("max"), the least ("min") or the mean along axes."""

    @abstractmethod
    def transpose(self, *axes: int | Sequence[int]) -> Self:
        """Permute the axes; without arguments, reverse them."""

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def T(self) -> Self:  # noqa: N802 - NumPy's name
        """The array with its last two axes swapped; itself below two axes."""
        if self.ndim < 2:
            return self
        return self.transpose(*range(self.ndim - 2), self.ndim - 1, self.ndim - 2)

    @property
    def mT(self) -> Self:  # noqa: N802 - NumPy's name
        """The array with its last two axes swapped.  Raises ValueError below two axes, as NumPy."""
        if self.ndim < 2:
            raise ValueError(f"matrices have two axes or more, and {self.shape} has {self.ndim}")
        return self.T

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a number has no length")
        return self.shape[0]

    # Reductions

    @_hinted
    def sum(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Sum along axes, or of everything."""
        return self.reduced("sum", axis, keepdims=keepdims)

    @_hinted
    def max(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Return the greatest along axes, or of everything."""
        return self.reduced("max", axis, keepdims=keepdims)

    @_hinted
    def min(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Return the least along axes, or of everything."""
        return self.reduced("min", axis, keepdims=keepdims)

    @_hinted
    def mean(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Return the mean along axes, or of everything."""
        return self.reduced("mean", axis, keepdims=keepdims)

    @_hinted
    def var(self, axis: Axes = None, *, keepdims: bool = False, ddof: float = 0) -> Self:
        """Return the variance along axes, or of everything; divided by the count less `ddof`, as NumPy's."""
        return operator_of("var")(self, axis, keepdims=keepdims, ddof=ddof)

    @_hinted
    def std(self, axis: Axes = None, *, keepdims: bool = False, ddof: float = 0) -> Self:
        """Return the standard deviation along axes, or of everything; `ddof` as in `var`."""
        return operator_of("std")(self, axis, keepdims=keepdims, ddof=ddof)

    @_hinted
    def prod(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Return the product along axes, or of everything."""
        return operator_of("prod")(self, axis, keepdims=keepdims)

    @_hinted
    def any(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Return whether an element along axes, or of everything, is not 0."""
        return operator_of("any")(self, axis, keepdims=keepdims)

    @_hinted
    def all(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Return whether no element along axes, or of everything, is 0."""
        return operator_of("all")(self, axis, keepdims=keepdims)

    @_hinted
    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> Self:
        """Return the index of the greatest along an axis, or of everything, as NumPy's method."""
        return operator_of("argmax")(self, axis, keepdims=keepdims)

    @_hinted
    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Self:
        """Return the index of the least along an axis, or of everything, as NumPy's method."""
        return operator_of("argmin")(self, axis, keepdims=keepdims)

    @_hinted
    def cumsum(self, axis: int | None = None) -> Self:
        """Return the running sums along an axis, or of everything in row-major order, as NumPy's method."""
        return operator_of("cumsum")(self, axis)

    @_hinted
    def cumprod(self, axis: int | None = None) -> Self:
        """Return the running products along an axis, or of everything in row-major order, as NumPy's method."""
        return operator_of("cumprod")(self, axis)

    # Elements

    @_hinted
    def clip(self, low: object = None, high: object = None) -> Self:
        """Return the elements, but `low` where one is less and `high` where one is greater."""
        return operator_of("clip")(self, low, high)

    def exp(self) -> Self:
        """Return e to the power of each element."""
        return operator_of("exp")(self)

    def log(self) -> Self:
        """Return the natural logarithms."""
        return operator_of("log")(self)

    def sqrt(self) -> Self:
        """Return the square roots."""
        return operator_of("sqrt")(self)

    def tanh(self) -> Self:
        """Return the hyperbolic tangents."""
        return operator_of("tanh")(self)

    def abs(self) -> Self:
        """Return the absolute values."""
        return operator_of("abs")(self)

    def round(self) -> Self:
        """Return the whole numbers nearest to each element, the even one of two."""
        return operator_of("round")(self)

    def __round__(self, digits: int | None = None) -> Self:
        if digits:
            raise TypeError(f"round(x, {digits}) is op.round(x * 1e{digits}) / 1e{digits}")
        return operator_of("round")(self)

    # Axes and order

    @_hinted
    def squeeze(self, axis: Axes = None) -> Self:
        """Return the array without axes of extent 1: all of them, or the named ones."""
        return operator_of("squeeze")(self, axis)

    @_hinted
    def unsqueeze(self, axis: int) -> Self:
        """Return the array with a new axis of extent 1, as PyTorch's; `op.expand_dims`."""
        return operator_of("expand_dims")(self, axis)

    @_hinted
    def flatten(self, start: int = 0, end: int = -1) -> Self:
        """Return the array with the axes from `start` to `end` as one, in row-major order."""
        return operator_of("flatten")(self, start, end)

    def ravel(self) -> Self:
        """Return all elements as one axis, in row-major order."""
        return operator_of("flatten")(self)

    @_hinted
    def take(self, index: Array, axis: int | None = None) -> Self:
        """Return the elements at integer indices along an axis, or among all in row-major order, as NumPy's method."""
        source = operator_of("flatten")(self) if axis is None else self
        return operator_of("gather")(source, index, axis or 0)

    def dot(self, other: Array) -> Self:
        """Return the product of vectors and matrices, `x @ other`, as NumPy's method; of a number `x * other`."""
        numbers = not self.ndim or not getattr(other, "ndim", 0)
        return operator_of("multiply" if numbers else "matmul")(self, other)

    @_hinted
    def swapaxes(self, axis1: int, axis2: int) -> Self:
        """Return the array with two axes exchanged."""
        return operator_of("swapaxes")(self, axis1, axis2)

    def permute(self, *axes: int | Sequence[int]) -> Self:
        """Permute the axes: all are named, as in PyTorch's method."""
        return self.transpose(*axes) if axes else self.transpose(())

    @_hinted
    def flip(self, axis: Axes = None) -> Self:
        """Return the elements along axes, or along all of them, in reverse."""
        return operator_of("flip")(self, axis)

    @_hinted
    def roll(self, shift: int | Sequence[int], axis: Axes = None) -> Self:
        """Return the array shifted along axes; what leaves at one end comes back at the other."""
        return operator_of("roll")(self, shift, axis)

    @_hinted
    def tril(self, k: int = 0) -> Self:
        """Return the array with 0 above the k-th diagonal."""
        return operator_of("tril")(self, k)

    @_hinted
    def triu(self, k: int = 0) -> Self:
        """Return the array with 0 below the k-th diagonal."""
        return operator_of("triu")(self, k)

    @_hinted
    def unfold(self, axis: int, size: int, step: int = 1) -> Self:
        """Return windows along an axis, as PyTorch's."""
        return operator_of("unfold")(self, axis, size, step)

    @_hinted
    def sort(self, axis: int | None = -1, descending: bool = False) -> Self:
        """Return the elements in order along an axis; the array stays as it is, where NumPy's method changes it."""
        return operator_of("sort")(self, axis, descending)

    @_hinted
    def argsort(self, axis: int | None = -1, descending: bool = False) -> Self:
        """Return the indices that sort the elements along an axis."""
        return operator_of("argsort")(self, axis, descending)
