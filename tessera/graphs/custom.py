"""Operators of one's own: functions of the host, kernels, or operators, with an adjoint that a person writes.

    def pulled(inputs, outputs, cotangents):
        return cotangents[0] * op.cos(inputs[0])

    @op.custom(adjoint=pulled, shape=lambda x: x.shape)
    def sine(x):
        y = np.empty_like(x)
        sine_kernel(x, y)
        return y

In a graph each is one `call`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, ParamSpec, TypeAlias, TypeVar, cast, overload

from tessera.core.base.dtypes import BY_NAME, DType, DTypeLike, dtype_of
from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import CannotTrace, OperandMismatch, WrongAdjoint
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Node, NodeAdjoint, Routine, Tensor, Value
from tessera.core.program.program import Attribute
from tessera.graphs.function import GraphFunction, capture
from tessera.graphs.ready import Captured
from tessera.graphs.structure import Branch, Leaf, Structure, flatten, names_of, unflatten
from tessera.graphs.trace import trace_of, tracing
from tessera.graphs.tracer import Tracer, as_tracer

P = ParamSpec("P")
R = TypeVar("R")
Adjoint: TypeAlias = Callable[..., object]
"""Takes (inputs, outputs, cotangents), tuples of arrays; returns a cotangent for each input, None for zero."""
Shape: TypeAlias = Callable[..., Sequence[int] | Sequence[Sequence[int]]]
"""Takes what the operator takes, of which only shapes and dtypes are known; returns a shape, or one a result."""
DTypes: TypeAlias = DTypeLike | Sequence[DTypeLike] | None


@overload
def custom(
    function: Callable[P, R], *, adjoint: Adjoint | None = None, shape: Shape | None = None, dtype: DTypes = None,
    name: str = "",
) -> "CustomOperator[P, R]": ...  # fmt: skip
@overload
def custom(
    function: None = None, *, adjoint: Adjoint | None = None, shape: Shape | None = None, dtype: DTypes = None,
    name: str = "",
) -> "Callable[[Callable[P, R]], CustomOperator[P, R]]": ...  # fmt: skip
def custom(
    function: Callable[P, R] | None = None, *, adjoint: Adjoint | None = None, shape: Shape | None = None,
    dtype: DTypes = None, name: str = "",
) -> "Callable[[Callable[P, R]], CustomOperator[P, R]] | CustomOperator[P, R]":  # fmt: skip
    """Make an operator of a function on arrays, with an adjoint of its own: `@op.custom(adjoint=f)`.

    adjoint: `f(inputs, outputs, cotangents)` is made of operators; it takes three tuples of arrays and returns a
      cotangent for each input (one array where there is one input), None where it is zero.  The cotangents are those of
      the outputs that are floats.  Keywords that are no arrays are handed on to it.  `tessera.check_adjoint` compares
      it with finite differences.
    shape: for a function that is not made of operators, but launches kernels or computes with NumPy: takes the
      operator's arguments, of which only shapes and dtypes are known, and returns the shape of the result, or a tuple
      of shapes for a tuple of results.  Such a function runs on the arrays themselves when the graph runs.
    dtype: of the results then, or one for each; without it, that of the first array

    Differentiating one without an adjoint raises NotDifferentiable, where it is not made of operators; one that returns
    other arrays than it declares raises WrongResult.
    """

    def make(decorated: Callable[P, R]) -> CustomOperator[P, R]:
        return CustomOperator(decorated, adjoint, shape, dtype, name)

    return make if function is None else make(function)


class CustomOperator(GraphFunction[P, R], Generic[P, R]):
    """A function as one `call` of a graph; see `custom`."""

    def __init__(
        self, function: Callable[P, R], adjoint: Adjoint | None, shape: Shape | None, dtype: DTypes, name: str
    ) -> None:
        super().__init__(function, name)
        self._adjoint, self._shape, self._dtype = adjoint, shape, dtype

    @property
    def closes_over(self) -> tuple[object, ...]:
        """The function, its adjoint and its shape: what decides the graph besides arguments."""
        return (*super().closes_over, self._adjoint, self._shape, self._dtype, self.name)

    def _captured(self, structure: Structure, types: Sequence[Tensor]) -> Captured:
        return capture(self._called, structure, types, self._names(structure), self.name)

    def _inline(self, leaves: Sequence[object], /, *arguments: P.args, **keywords: P.kwargs) -> R:
        del leaves
        with trace_of().operator(self.name):
            return cast("R", self._called(*arguments, **keywords))

    def _called(self, *arguments: object, **keywords: object) -> object:
        """Append the call to the graph that is being captured."""
        if self._shape is None and self._adjoint is None:  # nothing but operators
            return cast("Callable[..., object]", self.function)(*arguments, **keywords)
        leaves: list[object] = []
        structure = flatten((arguments, keywords), leaves)
        trace = trace_of()
        operands = [as_tracer(leaf, trace) for leaf in leaves]
        types = [each.value.type for each in operands]
        count = len(operands)
        adjoint = None if self._adjoint is None else self._pullback(self._adjoint, structure, count)
        if self._shape is not None:
            routine, returned = self._opaque(self._shape, structure, types, adjoint)
        else:
            captured = capture(self.function, structure, types, self._names(structure), self.name)
            if any(isinstance(each, Tracer) for each in captured.captured):
                raise CannotTrace(
                    f"{self.name} uses a value of the graph that it does not take, which its adjoint cannot reach",
                    hint="pass it as an argument",
                )
            operands += [as_tracer(each, trace) for each in captured.captured]
            routine = Routine(self.name, definition=captured.graph, adjoint=adjoint)
            returned = captured.structure
        made = iter(trace.builder.call(routine, [each.value for each in operands]))
        return unflatten(returned, lambda: Tracer(trace, next(made)))

    def _opaque(
        self, shape: Shape, structure: Structure, types: Sequence[Tensor], adjoint: NodeAdjoint | None
    ) -> tuple[Routine, Structure]:
        """Return a function of the host as a routine, and how its results are arranged."""

        def declared(given: Sequence[Tensor], _: Mapping[str, Attribute]) -> tuple[Tensor, ...]:
            return self._results(shape, structure, given)[0]

        def run(arrays: Sequence[object], _: Mapping[str, Attribute]) -> Sequence[object]:
            positional, keywords = _arguments(structure, iter(arrays))
            returned: list[object] = []
            flatten(cast("Callable[..., object]", self.function)(*positional, **keywords), returned)
            return returned

        several = self._results(shape, structure, types)[1]
        count = len(declared(types, {}))
        returned = Branch(tuple, (), (Leaf(),) * count) if several else Leaf()
        routine = Routine(self.name, "a function of the host", declared, run, native=True, adjoint=adjoint)
        return routine, returned

    def _results(self, shape: Shape, structure: Structure, types: Sequence[Tensor]) -> tuple[tuple[Tensor, ...], bool]:
        """Return what the function says that it returns, and whether that is a tuple.  Raises OperandMismatch."""
        positional, keywords = _arguments(structure, iter(types))
        told = shape(*positional, **keywords)
        several = bool(told) and not isinstance(told[0], int)
        shapes = [tuple(cast("Sequence[int]", each)) for each in told] if several else [tuple(told)]
        if not all(isinstance(extent, int) and extent >= 0 for each in shapes for extent in each):
            raise OperandMismatch(
                f"shape= of {self.name} returns {told!r}", hint="return a tuple of extents, or a tuple of such tuples"
            )
        return tuple(map(Tensor, self._dtypes(types, len(shapes)), cast("list[tuple[int, ...]]", shapes))), several

    def _dtypes(self, types: Sequence[Tensor], count: int) -> list[DType]:
        if self._dtype is None:
            if not types:
                raise OperandMismatch(
                    f"{self.name} takes no array that its results have the dtype of", hint="say dtype="
                )
            return [types[0].dtype] * count
        named = list(self._dtype) if isinstance(self._dtype, list | tuple) else [self._dtype]
        read = [dtype_of(dtype) for dtype in named]
        dtypes = [dtype for dtype in read if dtype is not None]
        if len(dtypes) < len(named) or len(dtypes) not in (1, count):
            hint = f"choose from {', '.join(sorted(BY_NAME))}: one, or one for each of {count}"
            raise OperandMismatch(f"dtype= of {self.name} is {self._dtype!r}", hint=hint)
        return dtypes * count if len(dtypes) == 1 else dtypes

    def _pullback(self, adjoint: Adjoint, structure: Structure, count: int) -> NodeAdjoint:
        """Return the adjoint as a function of a node."""
        assert isinstance(structure, Branch)
        keywords = cast("Branch", structure.children[1])
        arrays = zip(keywords.names, keywords.children, strict=True)
        options = {str(name): unflatten(child, _nothing) for name, child in arrays if not names_of(child, "x")}

        def pulled(inputs: Sequence[Tracer], outputs: Sequence[Tracer], cotangents: Sequence[Tracer]) -> object:
            return adjoint(tuple(inputs[:count]), tuple(outputs), tuple(cotangents), **options)

        return traced_adjoint(pulled, count)


def _nothing() -> object:
    raise AssertionError("no arrays here")


def _arguments(structure: Structure, leaves: Iterator[object]) -> tuple[Sequence[object], Mapping[str, object]]:
    return cast("tuple[Sequence[object], Mapping[str, object]]", unflatten(structure, lambda: next(leaves)))


def traced_adjoint(
    adjoint: Callable[[Sequence[Tracer], Sequence[Tracer], Sequence[Tracer]], object], count: int | None = None
) -> NodeAdjoint:
    """Return an adjoint that is made of operators as one of a `call`.

    count: how many operands it returns cotangents for, the first ones; the others are constants
    """

    def appended(builder: GraphBuilder, node: Node, cotangents: Sequence[Value]) -> list[Value | None]:
        expected = len(node.operands) if count is None else count
        with tracing(builder) as trace:
            given = [[Tracer(trace, v) for v in each] for each in (node.operands, node.results, cotangents)]
            returned = adjoint(given[0], given[1], given[2])
            many = isinstance(returned, tuple | list)
            parts = list(cast("Sequence[object]", returned)) if many else [returned]
            if len(parts) != expected:
                raise _miscounted(node, len(parts), expected)
            made = [None if part is None else as_tracer(part, trace).value for part in parts]
            if trace.captured:
                raise at_call(CannotTrace(
                    f"the adjoint of {node.routine.name} uses an array that is neither input, output nor cotangent",
                    hint="pass it to the operator as an argument",
                ))  # fmt: skip
        return [*made, *[None] * (len(node.operands) - expected)]

    return appended


def _miscounted(node: Node, found: int, expected: int) -> WrongAdjoint:
    return at_call(WrongAdjoint(
        f"the adjoint of {node.routine.name} returns {found} cotangents for {expected} inputs",
        node.span, "return one for each input, in order, or None",
    ))  # fmt: skip
