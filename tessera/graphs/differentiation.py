"""Derivatives of functions on arrays: each is captured as a graph, differentiated as a graph, and runs as one."""

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Generic, ParamSpec, TypeVar, cast

import numpy as np

from tessera.core.base.dtypes import DType, f64, promote
from tessera.core.errors.call_site import level_of_user
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.graph import Graph, Tensor
from tessera.core.placement.placement import Placement
from tessera.graphs.function import GraphFunction, capture
from tessera.graphs.ready import Captured
from tessera.graphs.structure import (
    Branch,
    Leaf,
    Static,
    Structure,
    flatten,
    leaves_in,
    names_of,
    placed_leaves,
    static_objects,
    unflatten,
)
from tessera.graphs.trace import Trace, tensor_of, trace_of
from tessera.graphs.tracer import Tracer, as_tracer
from tessera.lowering.autodiff import forward as forward_mode
from tessera.lowering.autodiff import reverse

P = ParamSpec("P")
R = TypeVar("R")
_NOTHING: Final = Static.of(None)
Transform = Callable[[Graph, Sequence[int]], Graph]
"""Makes a graph of a graph and the numbers of the inputs to differentiate by."""
Returned = Callable[[Structure, Structure], Structure]
"""Says what is returned, of what the function returns and of the arguments that are differentiated by."""


class Derivative(GraphFunction[P, R], Generic[P, R]):
    """A derivative of a function, as a function: it can be called, captured, differentiated and inspected again.

    transform: of the captured graph; returned: the structure of what comes out
    argnums: the positional arguments to differentiate by
    """

    def __init__(
        self, function: Callable[P, object], transform: Transform, returned: Returned, argnums: int | tuple[int, ...],
        name: str,
    ) -> None:  # fmt: skip
        self._transform, self._returned, self._argnums = transform, returned, argnums
        # What the function is permitted holds for its derivative.
        algebra: frozenset[str] = getattr(function, "algebra", frozenset[str]())
        name = f"{name}_{getattr(function, '__name__', 'graph')}"
        super().__init__(cast("Callable[P, R]", function), name, algebra=algebra)

    @property
    def closes_over(self) -> tuple[object, ...]:
        """The function, its transform and argnums: besides arguments, these decide the graph."""
        return (*super().closes_over, self._transform, self._returned, self._argnums)

    def _flattened(
        self, arguments: Sequence[object], keywords: Mapping[str, object], leaves: list[object]
    ) -> Structure:
        """Flatten a call; floats to differentiate by are arrays without axes."""
        return super()._flattened(self._with_arrays(arguments), keywords, leaves)

    def _with_arrays(self, arguments: Sequence[object]) -> tuple[object, ...]:
        argnums = (self._argnums,) if isinstance(self._argnums, int) else self._argnums
        by = {number % len(arguments) for number in argnums if -len(arguments) <= number < len(arguments)}
        return floats_as_arrays(arguments, by)

    def _captured(self, structure: Structure, types: Sequence[Tensor]) -> Captured:
        names = self._names(structure)
        captured = capture(self.function, structure, types, names, self.name)
        wrt, by = self._by(structure)
        floats = [number for number in wrt if types[number].dtype.is_float] or wrt  # integers alone are refused below
        if len(floats) < len(wrt):
            _note_passed_over({names[number]: types[number].dtype for number in wrt if number not in floats})
        by = _differentiated(by, iter([number in floats for number in wrt]))
        return replace(
            captured, graph=self._transform(captured.graph, floats), structure=self._returned(captured.structure, by)
        )

    def _by(self, structure: Structure) -> tuple[list[int], Structure]:
        """Return the numbers of the inputs to differentiate by, and how the gradients are arranged."""
        assert isinstance(structure, Branch)
        positional = structure.children[0]
        assert isinstance(positional, Branch)
        wanted = (self._argnums,) if isinstance(self._argnums, int) else self._argnums
        count = len(positional.children)
        first, starts = 0, list[int]()
        for child in positional.children:
            starts.append(first)
            first += leaves_in(child)
        numbers: list[int] = []
        for number in wanted:
            if not -count <= number < count:
                raise OperandMismatch(f"there is no argument {number} to differentiate by: {count} were given")
            start = starts[number]
            numbers += range(start, start + leaves_in(positional.children[number]))
        if not numbers:
            raise OperandMismatch(
                f"argument {', '.join(map(str, wanted))} holds no floats to differentiate by",
                hint="pass an array of floats, or a float: 3.0 instead of 3",
            )
        chosen = tuple(positional.children[number] for number in wanted)
        return numbers, chosen[0] if isinstance(self._argnums, int) else Branch(tuple, (), chosen)

    def _wanted(self, captured: Captured, structure: Structure) -> tuple[Placement | None, ...]:
        """Return the placements of outputs on a mesh: a gradient has the placement of its argument."""
        if self._transform is forward_mode.jvp:
            return ()
        places = placed_leaves(structure)
        inputs = captured.graph.inputs
        by = [places[number] for number in self._numbers(structure) if inputs[number].type.dtype.is_float]
        others = (None,) * (len(captured.graph.outputs) - len(by))
        gradients = tuple(each and each.placement for each in by)
        return (*gradients, *others) if self._transform is reverse.grad_and_aux else (*others, *gradients)

    def _numbers(self, structure: Structure) -> Sequence[int]:
        """Return the numbers of the arrays to differentiate by."""
        return self._by(structure)[0]

    def _inline(self, leaves: Sequence[object], /, *arguments: P.args, **keywords: P.kwargs) -> R:
        """Put the derivative into the graph that is being captured."""
        del leaves
        given: list[object] = []
        structure = self._flattened(arguments, keywords, given)
        trace = trace_of()
        inputs = [as_tracer(leaf, trace) for leaf in given]
        captured = self._captured(structure, [each.value.type for each in inputs])
        operands = [*inputs, *(as_tracer(each, trace) for each in captured.captured)]
        for bound in captured.bounds:
            trace.picks(operands[bound.input].value, bound.lowest, bound.extent)
        with trace.operator(self.name):
            outputs = iter(inlined(captured.graph, operands, trace))
        return cast("R", unflatten(captured.structure, lambda: next(outputs)))


def _differentiated(structure: Structure, is_float: Iterator[bool]) -> Structure:
    """Return the structure of gradients, None in place of what has none: arrays of integers, numbers, strings."""
    if isinstance(structure, Branch):
        return replace(structure, children=tuple([_differentiated(child, is_float) for child in structure.children]))
    return structure if isinstance(structure, Leaf) and next(is_float) else _NOTHING


def _note_passed_over(dtypes: Mapping[str, DType]) -> None:
    """Warn of arrays among those to differentiate by which have no derivative; once per capture."""
    arrays = ", ".join(f"{name} ({dtype})" for name, dtype in dtypes.items())
    text = f"only floats have derivatives: the gradient is None for {arrays}"
    warnings.warn(text, RuntimeWarning, stacklevel=level_of_user())


def inlined(graph: Graph, inputs: Sequence[Tracer], trace: Trace) -> list[Tracer]:
    """Append the nodes of a graph to the one that is being captured; return its outputs there."""
    return [Tracer(trace, value) for value in trace.builder.inline(graph, [each.value for each in inputs])]


class Paired(Derivative[..., object]):
    """`jvp` and `vjp` as functions of the primals and of what goes with them: `f(primals, others)`.

    The others are tangents of the primals (forward), or cotangents of what the function returns.
    """

    def __init__(self, function: Callable[..., object], *, forward: bool) -> None:
        def returned(result: Structure, by: Structure) -> Structure:
            return Branch(tuple, (), (result, result if forward else by))

        super().__init__(
            function, forward_mode.jvp if forward else reverse.vjp, returned, 0, "jvp" if forward else "vjp"
        )

    def _with_arrays(self, arguments: Sequence[object]) -> tuple[object, ...]:
        return floats_as_arrays(arguments, range(len(arguments)))

    def _names(self, structure: Structure) -> list[str]:
        assert isinstance(structure, Branch)
        primals, others = cast("Branch", structure.children[0]).children
        return [*names_of(primals, "x"), *names_of(others, "t")]

    def _numbers(self, structure: Structure) -> Sequence[int]:
        assert isinstance(structure, Branch)
        return range(leaves_in(cast("Branch", structure.children[0]).children[0]))

    def _captured(self, structure: Structure, types: Sequence[Tensor]) -> Captured:
        assert isinstance(structure, Branch)
        positional, keywords = structure.children
        assert isinstance(positional, Branch)
        primals, others = positional.children
        count, names = leaves_in(primals), self._names(structure)
        inner = Branch(structure.kind, structure.names, (primals, keywords))
        captured = capture(self.function, inner, types[:count], names[:count], self.name)
        made = self._transform(captured.graph, range(count))
        first = len(captured.graph.inputs)
        extra = made.inputs[first:]
        if [value.type for value in extra] != list(types[count:]):
            raise OperandMismatch(
                f"{', '.join(str(kind) for kind in types[count:]) or 'nothing'} given",
                hint=f"give {', '.join(str(value.type) for value in extra)}, arranged as what they belong to",
            )
        inputs = (*made.inputs[:count], *extra, *made.inputs[count:first])
        del others
        return replace(
            captured, graph=replace(made, inputs=inputs), structure=self._returned(captured.structure, primals)
        )


def floats_as_arrays(arguments: Sequence[object], by: Collection[int]) -> tuple[object, ...]:
    """Return `arguments`, with arrays instead of the floats in those whose numbers are in `by`.

    They have the dtype in which the floats of all arrays meet, as a Python number beside them does; f64 without any.
    """
    flat = [(number, leaves := list[object](), flatten(arguments[number], leaves)) for number in by]
    if not any(_has_floats(structure) for _, _, structure in flat):
        return tuple(arguments)
    arrays: list[object] = []
    scalars = static_objects(flatten(tuple(arguments), arrays))  # NumPy's numbers say what their dtype is
    dtype = _met([*arrays, *(np.asarray(each) for each in scalars if issubclass(type(each), np.floating))])
    converted = list(arguments)
    for number, leaves, structure in flat:
        converted[number] = unflatten(_opened(structure), _with_numbers(structure, iter(leaves), dtype).__next__)
    return tuple(converted)


def _is_float(structure: Structure) -> bool:
    return isinstance(structure, Static) and (structure.type is float or issubclass(structure.type, np.floating))


def _has_floats(structure: Structure) -> bool:
    return any(map(_has_floats, structure.children)) if isinstance(structure, Branch) else _is_float(structure)


def _met(arrays: Sequence[object]) -> DType:
    dtype: DType | None = None
    for array in arrays:
        own = tensor_of(array, "an argument").dtype
        if own.is_float:
            dtype = own if dtype is None else promote(dtype, own)
    return dtype or f64


def _opened(structure: Structure) -> Structure:
    """Return the structure with places for arrays where the floats are."""
    if isinstance(structure, Branch):
        return Branch(structure.kind, structure.names, tuple(map(_opened, structure.children)))
    return Leaf() if _is_float(structure) else structure


def _with_numbers(structure: Structure, leaves: Iterator[object], dtype: DType) -> Iterator[object]:
    """Give what stands in the places of arrays, in order."""
    if isinstance(structure, Branch):
        for child in structure.children:
            yield from _with_numbers(child, leaves, dtype)
    elif isinstance(structure, Leaf):
        yield next(leaves)
    elif _is_float(structure):
        scalar_type = cast("type[object]", structure.type)
        own = issubclass(scalar_type, np.floating) and scalar_type is not np.float64
        yield np.asarray(cast("float", structure.value), None if own else dtype.numpy)
