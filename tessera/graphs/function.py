"""Functions on arrays as graphs: captured once for each kind of arguments, compiled, and called like functions."""

import functools
import inspect
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from types import MethodType
from typing import Final, Generic, ParamSpec, Self, TypeVar, cast, get_args

from tessera.core.arrays.array_methods import Array
from tessera.core.arrays.keywords import Parameters
from tessera.core.base.dtypes import DType
from tessera.core.errors.base import TesseraError
from tessera.core.errors.call_site import at_call, function_source
from tessera.core.errors.catalog import NotCalledYet, UnknownLevel
from tessera.core.graph.graph import Graph, Tensor
from tessera.core.graph.text import to_text
from tessera.core.placement.mesh_array import MeshArray
from tessera.core.placement.placement import Placement
from tessera.graphs.declared import as_declared
from tessera.graphs.executable import Executable
from tessera.graphs.execution.prepared import GroupKernel
from tessera.graphs.known_executables import executable_of, known_executable
from tessera.graphs.mesh_executable import MeshExecutable, placements_of
from tessera.graphs.operands.host_number import NeedsNumber
from tessera.graphs.operands.weak import is_weak, made_weak
from tessera.graphs.raised import capture_launch
from tessera.graphs.ready import RECENT_CAPTURES, Captured, QuickCall, Ready, VaryingNumbers
from tessera.graphs.structure import (
    Branch,
    MeshLeaf,
    NumberLeaf,
    Structure,
    flatten,
    names_of,
    numbers_in,
    numbers_of,
    numerics_of,
    placed_leaves,
    static_objects,
    unflatten,
    with_number_leaves,
)
from tessera.graphs.symbolic import SymbolicExecutable, SymbolicPlans, declared_arrays
from tessera.graphs.trace import current_trace, tensor_of, trace_of, tracing
from tessera.graphs.tracer import Tracer, as_tracer, in_dtype
from tessera.kernels.captured_launch import CapturedLaunches
from tessera.kernels.closures.closed_over import ClosedOver
from tessera.kernels.closures.snapshot import Closure, never
from tessera.kernels.closures.walk import closure_of, text_of
from tessera.kernels.options import Options
from tessera.kernels.target_choice import chosen_target
from tessera.lowering.graph.explain import Alternatives
from tessera.runtime.arrays.interop import is_jax
from tessera.session.session import resolve_target, session

P = ParamSpec("P")
R = TypeVar("R")
_KEPT: Final = 256
_CLOSURES: Final = 16
"""Closures whose plans for symbols are kept."""


def capture(
    function: Callable[..., object], structure: Structure, types: Sequence[Tensor], names: Sequence[str], name: str
) -> Captured:
    """Run `function` once on tracers and return its graph.  Raises CannotTrace, and the mistakes of operators."""
    CapturedLaunches.capture = capture_launch
    with tracing() as trace:
        trace.source = function_source(function) or trace.source
        stored = numerics_of(structure)
        values = [trace.input(*each) for each in zip(types, names, stored, strict=True)]
        tracers = iter([Tracer(trace, value) for value in values])
        arguments, keywords = cast(
            "tuple[Sequence[object], Mapping[str, object]]", unflatten(structure, lambda: next(tracers))
        )
        with trace.operator(name):
            arguments, keywords = as_declared(function, arguments, keywords, trace)
            returned = function(*arguments, **keywords)
        leaves: list[object] = []
        returns = flatten(returned, leaves)
        outputs = [as_tracer(leaf, trace).value for leaf in leaves]
        graph = trace.finish(name, outputs)
        bounds = trace.input_bounds(graph)
        return Captured(graph, returns, tuple(trace.captured), tuple(trace.numbers), bounds)


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
        self.is_operator = False
        self._ready: OrderedDict[tuple[object, ...], Ready] = OrderedDict()
        self._varying: OrderedDict[tuple[object, ...], VaryingNumbers] = OrderedDict()
        self._latest: Executable | None = None
        self._quick: QuickCall | None = None
        self._symbolic: OrderedDict[object, SymbolicPlans] = OrderedDict()
        self._lock = threading.RLock()
        self._last: Ready | None = None
        self._text, self._parameters = text_of(function), Parameters.of(function)
        functools.update_wrapper(self, function, updated=())  # a wrapped graph keeps its state to itself

    def __call__(self, *arguments: P.args, **keywords: P.kwargs) -> R:
        """Run on arrays; raises the mistakes of operators with the place of their call."""
        quick = self._quick
        if quick is not None and current_trace() is None:
            try:
                known = quick.results(arguments, keywords)
            except TesseraError as mistake:
                raise at_call(mistake) from None
            if known is not None:
                self._latest = quick.ready.executable
                return cast("R", unflatten(quick.ready.captured.structure, iter(known).__next__))
        leaves: list[object] = []
        structure = self._flattened(arguments, keywords, leaves)
        if current_trace() is not None or any(isinstance(leaf, Tracer) for leaf in leaves):
            return self._inline(leaves, *arguments, **keywords)
        try:
            ready, results = self._run(structure, leaves)
            if quick is None or quick.ready is not ready:
                self._quick = QuickCall(ready)
        except TesseraError as mistake:
            raise at_call(mistake) from None
        return cast("R", unflatten(ready.captured.structure, iter(results).__next__))

    def _run(self, structure: Structure, leaves: Sequence[object]) -> tuple[Ready, tuple[object, ...]]:
        """Capture the function where that is needed, and return the capture and the arrays that it gives."""
        ready = self._prepared(structure, leaves, exact=False)
        try:
            return ready, ready(leaves, structure)
        except NeedsNumber:  # launches are recorded, with the numbers of this call
            ready = self._prepared(structure, leaves)
            return ready, ready(leaves, structure)

    def _flattened(
        self, arguments: Sequence[object], keywords: Mapping[str, object], leaves: list[object]
    ) -> Structure:
        """Append the arrays of a call to `leaves`, and return where they stood."""
        self._require_parameters(arguments, keywords)
        return flatten((tuple(arguments), keywords), leaves)

    def _require_parameters(self, arguments: Sequence[object], keywords: Mapping[str, object]) -> None:
        """Raise ArgumentCount for an unknown keyword; of an operator, for missing and further arguments, too."""
        if self._parameters is not None:
            self._parameters.require_keywords(self.name, keywords)
            if self.is_operator:  # Python says it of a function of the user's
                self._parameters.require_arguments(self.name, len(arguments), keywords)

    def _inline(self, leaves: Sequence[object], /, *arguments: P.args, **keywords: P.kwargs) -> R:
        try:
            self._require_parameters(arguments, keywords)
            trace = trace_of()
            with trace.operator(self.name):
                given, named = as_declared(self.function, arguments, keywords, trace)
                result = cast("Callable[..., R]", self.function)(*given, **named)
        except TesseraError as mistake:
            raise at_call(mistake) from None
        if self.is_operator and isinstance(result, Tracer) and result.weak is None and all(map(is_weak, leaves)):
            self._weaken(result, arguments, keywords)
        return result

    @functools.cached_property
    def _operands(self) -> frozenset[str]:
        """Parameters of an operator that are arrays, or numbers in their place."""
        hints = inspect.signature(self.function, eval_str=True).parameters.values()
        return frozenset(each.name for each in hints if Array in (each.annotation, *get_args(each.annotation)))

    def _weaken(self, result: Tracer, arguments: Sequence[object], keywords: Mapping[str, object]) -> None:
        """Make the result of an operator of Python numbers alone weak; see `operands.weak`."""
        names = self._parameters.ordered if self._parameters else ()
        named = dict(zip(names, arguments, strict=False)) | dict(keywords)
        numbers = {name: named[name] for name in self._operands if is_weak(named.get(name))}

        def compute(dtype: DType) -> Tracer:
            with trace_of().operator(self.name):
                again = named | {name: in_dtype(each, dtype) for name, each in numbers.items()}
                return cast("Callable[..., Tracer]", self.function)(**again)

        if numbers:
            made_weak(result, tuple(numbers.values()), compute)

    def graph_for(self, *arguments: P.args, **keywords: P.kwargs) -> Captured:
        """Return the graph for arguments like these, without compiling it."""
        leaves: list[object] = []
        return self._prepared(self._flattened(arguments, keywords, leaves), leaves).captured

    def executable_for(self, *arguments: P.args, **keywords: P.kwargs) -> Executable:
        """Return the executable for arguments like these; without any, that of the last call.  Raises NotCalledYet."""
        if not (arguments or keywords):
            return self.executable
        leaves: list[object] = []
        return self._prepared(self._flattened(arguments, keywords, leaves), leaves).executable

    def kernels(self, target: str = "") -> tuple[GroupKernel, ...]:
        """Return the kernels of the last call, compiled for a target; "": the one of the settings.

        Raises NotCalledYet, BadSetting.
        """
        return self.executable.kernels(resolve_target(target) if target else chosen_target(self.options, ()))

    def __get__(self, instance: object, owner: type | None = None) -> Self:
        """Bind a method to its object, as functions do: what code reads of the object is read at each call."""
        # A bound method has the attributes of what it binds: layer.forward.inspect_ir().
        return self if instance is None else cast("Self", MethodType(self, instance))

    def __reduce__(self) -> str:
        """Pickle by name, as functions are; a copy is the function itself."""
        return str(getattr(self, "__qualname__", self.name))

    @property
    def closes_over(self) -> tuple[object, ...]:
        """The function, and how it is to be compiled: they decide the graph, besides arguments."""
        return (self.function, self.options, self.algebra)

    def _prepared(self, structure: Structure, leaves: Sequence[object], *, exact: bool = True) -> Ready:
        """Return the captured function for arguments of this kind, from the table or made anew.

        exact: with the numbers of this call as part of the program
        """
        types = tuple(tensor_of(leaf, "an argument") for leaf in leaves)
        last = self._last
        if last is not None and not (exact and last.general) and last.fits(structure, types):
            self._latest = last.executable
            return last
        with self._lock:  # points of an index launch call from threads of their own
            return self._looked_up(structure, types, exact=exact or any(map(is_jax, leaves)))

    def _looked_up(self, structure: Structure, types: tuple[Tensor, ...], *, exact: bool) -> Ready:
        closure = self._closure(structure)
        ready = self._found(structure, types, closure)
        if ready is None and types and not exact:
            ready = self._for_any_numbers(structure, types, closure)
        ready = ready or self._captured_anew(structure, types, closure)
        self._latest, self._last = ready.executable, ready
        return ready

    def _found(self, structure: Structure, types: tuple[Tensor, ...], closure: Closure) -> Ready | None:
        """Return what was captured for such a call, with what the function closes over now."""
        key = (structure, types, closure.key)
        ready = self._ready.get(key)
        ready = None if ready is None else ready.now(closure)
        if ready is None and not any(isinstance(each, NumberLeaf) for each in numbers_of(structure)):
            ready = RECENT_CAPTURES.find((session(), self._text, *key), structure, types, closure)
        return ready and self._kept(key, ready)

    def _captured_anew(self, structure: Structure, types: tuple[Tensor, ...], closure: Closure) -> Ready:
        ready, closure = self._made(structure, types, closure)
        key = (structure, types, closure.key)
        RECENT_CAPTURES.add((session(), self._text, *key), ready)
        return self._kept(key, ready)

    def _kept(self, key: tuple[object, ...], ready: Ready) -> Ready:
        """Keep a capture, as one that was used last, where what it closes over can be compared."""
        if ready.closed_over is not None:
            self._ready[key] = ready
            self._ready.move_to_end(key)
            if len(self._ready) > _KEPT:
                self._ready.popitem(last=False)
        return ready

    def _for_any_numbers(self, structure: Structure, types: tuple[Tensor, ...], closure: Closure) -> Ready | None:
        """Return a capture that takes the varying numbers as inputs; None where none varies, or where it needs one.

        It is compared with a capture that has the numbers of this call as literals.
        """
        numbers = numbers_of(structure)
        if not numbers or any(placed_leaves(structure)) or declared_arrays(self.function):
            return None
        call_types = (with_number_leaves(structure, range(len(numbers))), types)
        family = self._varying.setdefault(call_types, VaryingNumbers())
        if len(self._varying) > _CLOSURES:
            self._varying.popitem(last=False)
        varying = family.varying(numbers)
        general = with_number_leaves(structure, varying)
        ready = self._found(general, types, closure) if varying else None
        if ready is None and varying:
            try:
                ready, after = self._made(general, types, closure)
                exact = self._captured(structure, types)
                if not ready.captured.is_for(numbers_in(general, structure) or (), exact):
                    raise NeedsNumber("the operations depend on a number")
            except Exception:  # noqa: BLE001 - what stands for a number may upset any code; the numbers themselves follow
                family.refuse(varying)
                return None
            self._kept((general, types, after.key), ready)
        return ready

    def _made(self, structure: Structure, types: tuple[Tensor, ...], closure: Closure) -> tuple[Ready, Closure]:
        """Capture the function, then snapshot its closure, which the function itself may have changed."""
        compiled = self._of_symbols(structure, types, closure)
        if compiled is None:
            captured = self._captured(structure, types)
            compiled = captured, self._made_ready(captured, structure)
        closure = self._closure(structure)
        closed_over = ClosedOver.of(closure, compiled[0].captured)
        unchanged = never if closed_over is None else closed_over.unchanged
        general = any(isinstance(each, NumberLeaf) for each in numbers_of(structure))
        return Ready(structure, types, *compiled, closed_over, unchanged, general=general), closure

    def _closure(self, structure: Structure) -> Closure:
        """Return what the function reads besides its arguments' arrays: functions among the arguments, too."""
        return closure_of(self, static_objects(structure))

    def _of_symbols(
        self, structure: Structure, types: Sequence[Tensor], closure: Closure
    ) -> tuple[Captured, Executable] | None:
        """Return the function for arguments whose parameters declare extents as symbols; None without any.

        Raises OperandMismatch for arrays that are not as declared.
        """
        arrays = declared_arrays(self.function)
        if not arrays or any(placed_leaves(structure)):
            return None

        def captured(kinds: Sequence[Tensor]) -> tuple[Graph, Structure] | None:
            made = self._captured(structure, kinds)
            return None if made.captured else (made.graph, made.structure)

        declared = [(name, arrays.get(name)) for name in self._names(structure)]
        plans = self._symbolic.setdefault(closure.key, SymbolicPlans())
        if len(self._symbolic) > _CLOSURES:
            self._symbolic.popitem(last=False)
        symbolic = plans.found(structure, declared, types, captured, self.algebra)
        if symbolic is None:
            return None
        plan, traced, planned = symbolic
        executable = known_executable(
            traced, (repr(self.options), self.algebra, plan),
            lambda home: SymbolicExecutable(traced, planned, plan, self.options, home, self.algebra),
        )  # fmt: skip
        return Captured(traced, plan.returns, ()), executable

    def _made_ready(self, captured: Captured, structure: Structure) -> Executable:
        """Return what runs the graph: on a mesh, where one of its arrays lies on one."""
        leaves = [*placed_leaves(structure), *_closed_over(captured), *(None for _ in captured.numbers)]
        if not any(leaves):
            return executable_of(captured.graph, self.options, self.algebra)
        places = [leaf and (leaf.mesh, leaf.placement) for leaf in leaves]
        mesh, placements = placements_of(captured.graph.inputs, places)
        wanted = self._wanted(captured, structure)
        return known_executable(
            captured.graph, (repr(self.options), self.algebra, mesh, tuple(leaves), wanted),
            lambda home: MeshExecutable(
                captured.graph, mesh, placements, wanted, options=self.options, home=home, algebra=self.algebra
            ),
        )  # fmt: skip

    def _wanted(self, captured: Captured, structure: Structure) -> tuple[Placement | None, ...]:
        """Return how outputs are to lie on a mesh: as they are made."""
        del captured, structure
        return ()

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
        the rules that `algebra` permits, "schedule": the kernels and what each computes; "symbolic": of a function
        whose parameters declare extents as symbols, all of it for all of them.  Raises UnknownLevel, NotCalledYet.
        """
        executable = self.executable_for(*arguments, **keywords)
        if level == "graph":
            return to_text(executable.traced)
        if level == "simplified":
            return to_text(executable.simplified)
        if level == "rewritten":
            return to_text(executable.graph)
        if level == "schedule":
            return executable.schedule()
        if level == "symbolic" and isinstance(executable, SymbolicExecutable):
            return executable.symbolic.text()
        hint = "choose graph, simplified, rewritten or schedule"
        if level == "symbolic":
            hint = 'declare extents as symbols: def f(x: "f32[n, 64]"); calls and loops are planned for each extent'
        raise UnknownLevel(f"a graph has no level {level!r}", hint=hint)

    def alternatives(self, *arguments: P.args, **keywords: P.kwargs) -> Alternatives:
        """Return what rewriting chose, what it rejected and what further permissions would give, with prices.

        For arguments like these or for those of the last call; `print` shows it.  Raises NotCalledYet.
        """
        if arguments or keywords:
            leaves: list[object] = []
            self._prepared(self._flattened(arguments, keywords, leaves), leaves)
        return self.executable.alternatives

    @property
    def executable(self) -> Executable:
        """The executable that the last call ran.  Raises NotCalledYet."""
        if self._latest is None:
            raise NotCalledYet(f"{self.name} was not called yet", hint="call it, or pass example arguments")
        return self._latest

    def __repr__(self) -> str:
        return f"<graph {self.name}, captured for {len(self._ready)} kinds of arguments>"


def _closed_over(captured: Captured) -> list[MeshLeaf | None]:
    """Return where the arrays that a function closes over lie, None for those that lie on no mesh."""
    return [MeshLeaf.of(each) if isinstance(each, MeshArray) else None for each in captured.captured]


def operator(name: str) -> Callable[[Callable[P, R]], "GraphFunction[P, R]"]:
    """Make an operator of a definition on tracers: part of a graph while one is captured, else a graph of its own."""

    def make(definition: Callable[P, R]) -> GraphFunction[P, R]:
        captured_operator = GraphFunction(definition, name)
        captured_operator.is_operator = True
        return captured_operator

    return make
