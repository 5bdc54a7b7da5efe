"""Derivatives: `grad`, `value_and_grad`, `vjp`, `jvp`, `hvp` and `@autodiff`.

    gW = tessera.grad(loss_fn)(W)

Each takes a function on arrays that is made of operators (`tessera.op`), captures it as a graph, and returns a function
whose graph is the derivative: fused, scheduled and inspected like any other.
"""

from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar, cast

from tessera.core.errors.catalog import OperandMismatch
from tessera.graphs.differentiation import Derivative, Paired
from tessera.graphs.function import GraphFunction
from tessera.graphs.structure import Branch, Leaf, Structure
from tessera.lowering.autodiff import reverse

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
_PAIR: Final = 2
Gradients = Any  # as the arguments are arranged: an array, or a tuple, list or dict of arrays


def grad(
    function: Callable[P, object], argnums: int | tuple[int, ...] = 0, *, has_aux: bool = False
) -> Derivative[P, Gradients]:
    """Return the gradient of a function that returns one number, by its positional argument `argnums`.

    The result is arranged as that argument is, a dict of gradients for a dict of arrays; of several numbers, a tuple.
    has_aux: the function returns (number, more), and the result is (gradient, more)
    Raises NotDifferentiable, when called, for integers, for other results, and for what has no derivative.
    """

    def returned(result: Structure, by: Structure) -> Structure:
        return Branch(tuple, (), (by, _auxiliary(result))) if has_aux else by

    transform = reverse.grad_and_aux if has_aux else reverse.grad
    return Derivative(function, transform, returned, argnums, "grad")


def value_and_grad(
    function: Callable[P, object], argnums: int | tuple[int, ...] = 0, *, has_aux: bool = False
) -> Derivative[P, Gradients]:
    """Return a function that gives the pair (what `function` returns, its gradient); see `grad`.

    has_aux: the function returns (number, more), and the result is ((number, more), gradient)
    """

    def returned(result: Structure, by: Structure) -> Structure:
        if has_aux:
            _auxiliary(result)
        return Branch(tuple, (), (result, by))

    return Derivative(function, reverse.value_and_grad, returned, argnums, "value_and_grad")


def _auxiliary(result: Structure) -> Structure:
    """Return the second part of a returned pair.  Raises OperandMismatch if the function returned anything else."""
    children = result.children if isinstance(result, Branch) and result.kind is tuple else ()
    if len(children) != _PAIR or not isinstance(children[0], Leaf):
        raise OperandMismatch("has_aux=True, and the function returns no pair (number, more)", hint="return loss, more")
    return children[1]


def vjp(function: Callable[..., object], *primals: object) -> tuple[Gradients, Callable[[object], Gradients]]:
    """Return (function(*primals), pullback): `pullback(cotangent)` is a tuple of cotangents of the primals.

    cotangent: arranged as the result is, of its types.  Raises OperandMismatch where it is not.
    """
    paired = Paired(function, forward=False)

    def pullback(cotangent: object) -> Gradients:
        return cast("tuple[object, object]", paired(primals, cotangent))[1]

    return GraphFunction(function)(*primals), pullback


def jvp(function: Callable[..., object], primals: tuple[object, ...], tangents: tuple[object, ...]) -> Gradients:
    """Return (function(*primals), the derivative of it in the direction of `tangents`), computed side by side.

    tangents: one for each primal, arranged and typed as it is.  Raises OperandMismatch where they are not.
    """
    return Paired(function, forward=True)(tuple(primals), tuple(tangents))


def hvp(function: Callable[..., object], primals: tuple[object, ...], tangents: tuple[object, ...]) -> Gradients:
    """Return the second derivative of a function that returns one number, applied to `tangents` (Pearlmutter 1994).

    That is the derivative of the gradient in the direction of `tangents`, without a matrix of second derivatives.
    """
    gradient = grad(function, tuple(range(len(primals))))
    return jvp(gradient, primals, tangents)[1]


class AutodiffDecorator:
    """`@autodiff`: a function with `.grad`, `.value_and_grad`, `.vjp` and `.jvp`.

    `@jit @autodiff` on one line, which Python reads as a product of the two, applies one after the other.
    """

    def __call__(self, function: Callable[P, R]) -> "Differentiable[P, R]":
        """Make a function differentiable: it is captured as a graph, and knows its derivatives."""
        return Differentiable(function)

    def __rmatmul__(self, outer: Callable[[Callable[P, R]], T]) -> Callable[[Callable[P, R]], T]:
        """Return the decorator `@outer @autodiff`."""
        return lambda function: outer(self(function))

    def __matmul__(
        self, inner: Callable[[Callable[P, R]], Callable[P, R]]
    ) -> "Callable[[Callable[P, R]], Differentiable[P, R]]":
        """Return the decorator `@autodiff @inner`."""

        def both(function: Callable[P, R]) -> "Differentiable[P, R]":
            return self(inner(function))

        return both


class Differentiable(GraphFunction[P, R]):
    """A captured function that gives its derivatives as functions."""

    def grad(self, *arguments: object, argnums: int | tuple[int, ...] = 0, **keywords: object) -> Gradients:
        """Return the gradient for these arguments; see `tessera.grad`."""
        return grad(cast("Callable[..., object]", self.function), argnums)(*arguments, **keywords)

    def value_and_grad(self, *arguments: object, argnums: int | tuple[int, ...] = 0, **keywords: object) -> Gradients:
        """Return the pair (value, gradient) for these arguments; see `tessera.value_and_grad`."""
        return value_and_grad(cast("Callable[..., object]", self.function), argnums)(*arguments, **keywords)

    def vjp(self, *primals: object) -> tuple[Gradients, Callable[[object], Gradients]]:
        """Return (value, pullback) for these arguments; see `tessera.vjp`."""
        return vjp(cast("Callable[..., object]", self.function), *primals)

    def jvp(self, primals: tuple[object, ...], tangents: tuple[object, ...]) -> Gradients:
        """Return (value, derivative in the direction of `tangents`); see `tessera.jvp`."""
        return jvp(cast("Callable[..., object]", self.function), primals, tangents)


autodiff = AutodiffDecorator()
"""The decorator."""
