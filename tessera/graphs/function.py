"""Functions on arrays as graphs: captured once for each kind of arguments, compiled, and called like functions."""

import functools
import inspect
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, ParamSpec, TypeVar, cast

from tessera.core.errors.base import TesseraError
from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import NotCalledYet, UnknownLevel
from tessera.core.graph.graph import Graph, Tensor
from tessera.core.graph.text import to_text
from tessera.core.schedule.text import plan_text
from tessera.graphs.executable import Executable
from tessera.graphs.structure import Branch, Structure, flatten, names_of, unflatten
from tessera.graphs.trace import current_trace, tensor_of, tracing
from tessera.graphs.tracer import Tracer, as_tracer, trace_of
from tessera.kernels.options import Options
from tessera.lowering.graph.explain import Alternatives

P = ParamSpec("P")
R = TypeVar("R")
_KEPT: Final = 256
_PLACE: Final = re.compile(r" loc\(.*\)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, eq=False)
class Captured:
    """A function captured for one kind of arguments.

    graph: its inputs are the arguments' arrays, then the captured ones; structure: of what it returns
    captured: arrays that it uses without taking them as arguments
    """

    graph: Graph
    structure: Structure
    captured: tuple[object, ...]


def capture(
    function: Callable[..., object], structure: Structure, types: Sequence[Tensor], names: Sequence[str], name: str
) -> Captured:
    """Run `function` once on tracers and return its graph.  Raises CannotTrace, and the mistakes of operators."""
    with tracing() as trace:
        values = [trace.input(kind, each) for kind, each in zip(types, names, strict=True)]
        tracers = iter([Tracer(trace, value) for value in values])
        arguments, keywords = cast(
            "tuple[Sequence[object], Mapping[str, object]]", unflatten(structure, lambda: next(tracers))
        )
        with trace.operator(name):
            returned = function(*arguments, **keywords)
        leaves: list[object] = []
        returns = flatten(returned, leaves)
        outputs = [as_tracer(leaf, trace).value for leaf in leaves]
        return Captured(trace.finish(name, outputs), returns, tuple(trace.captured))


class GraphFunction(Generic[P, R]):
    """A function whose operators are captured as one graph.

    Called with arrays it compiles, once for each kind of arguments, and runs; called while a graph is captured
    it becomes part of that.
    """

    def __init__(
        self, function: Callable[P, R], name: str = "", options: Options | None = None,
        algebra: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        self.function = function
        self.algebra = algebra
        self.name = name or getattr(function, "__name__", "graph")
        self.options = options or Options()
        self._known: OrderedDict[tuple[object, ...], tuple[Captured, Executable]] = OrderedDict()
        self._latest: Executable | None = None
        functools.update_wrapper(self, function, updated=())  # a wrapped graph keeps its state to itself

    def __call__(self, *arguments: P.args, **keywords: P.kwargs) -> R:
        """Run on arrays; raises the mistakes of operators with the place of their call."""
        leaves: list[object] = []
        structure = flatten((arguments, keywords), leaves)
        if current_trace() is not None or any(isinstance(leaf, Tracer) for leaf in leaves):
            return self._inline(leaves, *arguments, **keywords)
        try:
            captured, executable = self._prepared(structure, leaves)
            results = iter(executable(*leaves, *captured.captured))
        except TesseraError as mistake:
            raise at_call(mistake) from None
        return cast("R", unflatten(captured.structure, lambda: next(results)))

    def _inline(self, leaves: Sequence[object], /, *arguments: P.args, **keywords: P.kwargs) -> R:
        del leaves
        try:
            with trace_of().operator(self.name):
                return self.function(*arguments, **keywords)
        except TesseraError as mistake:
            raise at_call(mistake) from None

    def graph_for(self, *arguments: P.args, **keywords: P.kwargs) -> Captured:
        """Return the graph for arguments like these, without compiling it."""
        leaves: list[object] = []
        return self._prepared(flatten((arguments, keywords), leaves), leaves)[0]

    def _prepared(self, structure: Structure, leaves: Sequence[object]) -> tuple[Captured, Executable]:
        """Return the captured function for arguments of this kind, from the table or made anew."""
        types = tuple(tensor_of(leaf, "an argument") for leaf in leaves)
        key = (structure, types)
        found = self._known.get(key)
        if found is None or found[0].captured:
            captured = self._captured(structure, types)
            # What a function closes over may be something else now: the same graph, other arrays.
            same = found is not None and _computes(found[0].graph) == _computes(captured.graph)
            executable = found[1] if found is not None and same else self._executable(captured.graph)
            found = self._known[key] = captured, executable
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        self._latest = found[1]
        return found

    def _executable(self, captured: Graph) -> Executable:
        return Executable(captured, self.options, algebra=self.algebra)

    def _captured(self, structure: Structure, types: Sequence[Tensor]) -> Captured:
        """Capture the function for arguments of one kind."""
        return capture(self.function, structure, types, self._names(structure), self.name)

    def _names(self, structure: Structure) -> list[str]:
        """Return the names of the arguments' arrays: those of the parameters they are given for."""
        assert isinstance(structure, Branch)
        positional, keywords = structure.children
        assert isinstance(positional, Branch)
        assert isinstance(keywords, Branch)
        try:
            parameters = list(inspect.signature(self.function).parameters.values())
        except (TypeError, ValueError):  # a builtin
            parameters = []
        found: list[str] = []
        for place, child in enumerate(positional.children):
            named = place < len(parameters) and parameters[place].kind is not inspect.Parameter.VAR_POSITIONAL
            found += names_of(child, parameters[place].name if named else f"a{place}")
        for name, child in zip(keywords.names, keywords.children, strict=True):
            found += names_of(child, str(name))
        return found

    def inspect_ir(self, level: str = "graph", *arguments: P.args, **keywords: P.kwargs) -> str:
        """Return a level of the compiler as text, for arguments like these or for those of the last call.

        `level`: "graph" as it was captured, "simplified" without what is computed twice or for nothing, "rewritten" by
        the rules that `algebra` permits, "schedule": the kernels and what each computes.  Raises UnknownLevel,
        NotCalledYet.
        """
        if arguments or keywords:
            leaves: list[object] = []
            self._prepared(flatten((arguments, keywords), leaves), leaves)
        executable = self.executable
        if level == "graph":
            return to_text(executable.traced)
        if level == "simplified":
            return to_text(executable.simplified)
        if level == "rewritten":
            return to_text(executable.graph)
        if level == "schedule":
            return plan_text(executable.plan)
        raise UnknownLevel(f"a graph has no level {level!r}", hint="choose graph, simplified, rewritten or schedule")

    def alternatives(self, *arguments: P.args, **keywords: P.kwargs) -> Alternatives:
        """Return what rewriting chose, what it rejected and what further permissions would give, with prices.

        For arguments like these or for those of the last call; `print` shows it.  Raises NotCalledYet.
        """
        if arguments or keywords:
            leaves: list[object] = []
            self._prepared(flatten((arguments, keywords), leaves), leaves)
        return self.executable.alternatives

    @property
    def executable(self) -> Executable:
        """The executable that the last call ran.  Raises NotCalledYet."""
        if self._latest is None:
            raise NotCalledYet(f"{self.name} was not called yet", hint="call it, or pass example arguments")
        return self._latest

    def __repr__(self) -> str:
        return f"<graph {self.name}, captured for {len(self._known)} kinds of arguments>"


def _computes(graph: Graph) -> str:
    """Return what a graph computes as text, without the places that it was captured at."""
    return _PLACE.sub("", to_text(graph))


def operator(name: str) -> Callable[[Callable[P, R]], "GraphFunction[P, R]"]:
    """Make an operator of a definition on tracers: part of a graph while one is captured, else a graph of its own."""

    def make(definition: Callable[P, R]) -> GraphFunction[P, R]:
        return GraphFunction(definition, name)

    return make
