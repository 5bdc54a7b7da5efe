"""`@jit` functions: of operators, captured as graphs, or of kernels, run as they are.

Which of the two a function is shows at its first call with arrays.  It runs once on tracers, while launches are
recorded instead of done: launches, or a kernel that is given a tracer, make it a host function.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import CodeType, FunctionType, TracebackType
from typing import Final, ParamSpec, TypeVar, cast

from tessera.api.index_launches.region import RegionTracer, regions_of, store
from tessera.api.index_launches.shard_local import launch_on_shards, on_mesh
from tessera.core.errors.base import TesseraError
from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import CannotTrace
from tessera.core.graph.graph import Tensor
from tessera.core.placement.mesh_array import MeshArray
from tessera.graphs.executable import Executable
from tessera.graphs.function import GraphFunction, capture
from tessera.graphs.mesh_executable import in_blocks
from tessera.graphs.ready import Captured, Ready
from tessera.graphs.structure import Branch, Structure, flatten
from tessera.graphs.trace import current_trace
from tessera.graphs.tracer import Tracer
from tessera.kernels.kernel import Configured, Kernel
from tessera.runtime.streams.graph_capture import close_recording, open_recording, suspended

P = ParamSpec("P")
R = TypeVar("R")


_NUMBERS_WANTED: Final = (TesseraError, TypeError, AttributeError, ValueError)
"""What a function of the host raises on tracers, which it asks for numbers; any other mistake is the function's own."""


class _RunsKernels(Exception):
    """The function is one that launches kernels."""


class Jitted(GraphFunction[P, R]):
    """A function under `@jit`.

    on_host: True for one that launches kernels, False for one of operators, None before that is known
    regions: the privileges of its parameters, by their names
    """

    def __init__(self, function: Callable[P, R], algebra: frozenset[str] = frozenset()) -> None:
        super().__init__(function, algebra=algebra)
        self.on_host: bool | None = None
        self.regions = regions_of(function)

    def __call__(self, *arguments: P.args, **keywords: P.kwargs) -> R:
        """Run: as a graph, or as it is; arrays with `Region[write]` and `Region[reduce_sum]` are changed in place."""
        if self.on_host or (self.on_host is None and self._without_arrays(arguments, keywords)):
            return self.function(*arguments, **keywords)
        if current_trace() is not None:
            return self._inline((), *arguments, **keywords)
        try:
            if self._runs_on_shards((*arguments, *keywords.values())):
                return cast("R", launch_on_shards(cast("GraphFunction[..., object]", self), arguments, keywords))
            if not self.regions:
                return super().__call__(*arguments, **keywords)
            return self._with_regions(*arguments, **keywords)
        except (_RunsKernels, CannotTrace) as refused:
            if not (isinstance(refused, _RunsKernels) or self.on_host):
                raise
            returned = self.function(*arguments, **keywords)
            self.on_host = True  # a call that fails decides nothing
            return returned

    def _runs_on_shards(self, values: Sequence[object]) -> bool:
        """Return whether each point works on its own shards: to write them, or where a graph takes no such shards."""
        blocks = all(in_blocks(each.type) for each in values if isinstance(each, MeshArray))
        return on_mesh(values) and (bool(self.regions) or not blocks)

    def graph_for(self, *arguments: P.args, **keywords: P.kwargs) -> Captured:
        """Return the graph for arguments like these.  Raises CannotTrace for a function that launches kernels."""
        try:
            return super().graph_for(*arguments, **keywords)
        except _RunsKernels:
            self.on_host = True
            raise self._no_graph() from None

    def _no_graph(self) -> CannotTrace:
        return CannotTrace(f"{self.name} launches kernels, and is no graph", hint="look at its kernels")

    def executable_for(self, *arguments: P.args, **keywords: P.kwargs) -> Executable:
        """Return the executable for arguments like these.  Raises CannotTrace for a function that launches kernels."""
        try:
            return super().executable_for(*arguments, **keywords)
        except _RunsKernels:
            self.on_host = True
            raise self._no_graph() from None

    def _without_arrays(self, arguments: tuple[object, ...], keywords: dict[str, object]) -> bool:
        """Return whether this call says nothing about the function, or that it is the host's."""
        if _names_kernel(self.function):
            self.on_host = True
            return True
        leaves: list[object] = []
        try:
            flatten((arguments, keywords), leaves)
        except CannotTrace:  # an argument that no graph takes
            self.on_host = True
        return not leaves or self.on_host is True

    def _with_regions(self, *arguments: P.args, **keywords: P.kwargs) -> R:
        given = inspect.signature(self.function).bind(*arguments, **keywords).arguments
        returned, changed = cast("tuple[R, dict[str, object]]", super().__call__(*arguments, **keywords))
        try:
            store({name: given[name] for name in changed}, changed)
        except TesseraError as mistake:
            raise at_call(mistake) from None
        return returned

    def _inline(self, leaves: Sequence[object], /, *arguments: P.args, **keywords: P.kwargs) -> R:
        given = inspect.signature(self.function).bind(*arguments, **keywords).arguments if self.regions else {}
        for name, privilege in self.regions.items():
            if privilege != "read" and not isinstance(given.get(name), RegionTracer):
                raise at_call(
                    CannotTrace(
                        f"{name} is Region[{privilege}], and a value of a graph is not written",
                        hint=f"return what {self.name} computes, and use that",
                    )
                )
        return super()._inline(leaves, *arguments, **keywords)

    def _looked_up(self, structure: Structure, types: tuple[Tensor, ...], *, exact: bool) -> Ready:
        ready = super()._looked_up(structure, types, exact=exact)
        self.on_host = False  # also where a function of the same text was captured before
        return ready

    def _captured(self, structure: Structure, types: Sequence[Tensor]) -> Captured:
        """Capture the function; raises _RunsKernels where it launches one, or does nothing that a graph could hold."""
        operators: list[int] = []
        with suspended():
            noted = open_recording()
            try:
                captured = capture(self._probe(operators), structure, types, self._names(structure), self.name)
            except Exception as mistake:
                asked = isinstance(mistake, _NUMBERS_WANTED) and not (operators or self.regions)
                if noted.steps or _through_kernel(mistake.__traceback__) or asked:
                    raise _RunsKernels from None
                raise
            finally:
                close_recording()
        if noted.steps or not (captured.graph.nodes and captured.graph.outputs):
            raise _RunsKernels
        self.on_host = False
        self._check_reads(captured, structure)
        return captured

    def _probe(self, operators: list[int]) -> Callable[..., object]:
        """Return the function with its regions as results; `operators` gets a number where it used operators."""

        @functools.wraps(self.function)  # its parameters may be declared with numerics
        def run(*arguments: P.args, **keywords: P.kwargs) -> object:
            trace = current_trace()
            assert trace is not None
            trace.takes_launches = False  # what a kernel writes is seen in the caller's arrays
            try:
                if not self.regions:
                    return self.function(*arguments, **keywords)
                bound = inspect.signature(self.function).bind(*arguments, **keywords)
                made: dict[str, RegionTracer] = {}
                for name, privilege in self.regions.items():
                    given = bound.arguments.get(name)
                    if isinstance(given, Tracer):
                        made[name] = bound.arguments[name] = RegionTracer(trace, given.value, name, privilege)
                returned = self.function(*bound.args, **bound.kwargs)
                return returned, {name: each.result for name, each in made.items() if each.changed is not None}
            finally:
                if trace.operators > 1:  # the function itself is one
                    operators.append(trace.operators)

        return run

    def _check_reads(self, captured: Captured, structure: Structure) -> None:
        """Raise CannotTrace where the old elements of an array are read that is only written."""
        only_written = {name for name, privilege in self.regions.items() if privilege == "write"}
        assert isinstance(structure, Branch)
        for value in captured.graph.inputs:
            if value.name not in only_written:
                continue
            for node in captured.graph.nodes:
                if value in node.operands:
                    wrong = CannotTrace(
                        f"{value.name} is read, and it is Region[write]", node.span,
                        hint="annotate it as Region[read], and write another array",
                    )  # fmt: skip
                    raise wrong.with_source(captured.graph.source)


def _through_kernel(traceback: TracebackType | None) -> bool:
    """Return whether an exception came from a kernel that was called."""
    while traceback is not None:
        if isinstance(traceback.tb_frame.f_locals.get("self"), Kernel | Configured):
            return True
        traceback = traceback.tb_next
    return False


def _names_kernel(function: object, seen: set[CodeType] | None = None) -> bool:
    """Return whether a function, or one that it calls, names a kernel: its code then need not be tried."""
    seen = set[CodeType]() if seen is None else seen
    if not isinstance(function, FunctionType) or function.__code__ in seen:
        return False
    code = function.__code__
    seen.add(code)
    known = {name: function.__globals__[name] for name in code.co_names if name in function.__globals__}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # not assigned yet
            known[name] = cell.cell_contents
    for value in known.values():
        members = vars(cast("object", value)) if hasattr(value, "__dict__") else {}
        parts = [members[name] for name in code.co_names if name in members]
        if any(isinstance(each, Kernel | Configured) for each in (value, *parts)) or _names_kernel(value, seen):
            return True
    return False
