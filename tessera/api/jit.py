"""`@jit`: functions of operators become graphs, functions that launch kernels run as they are.

With `capture_graph=True` what either of them launches becomes a graph of launches:

    @jit(capture_graph=True)
    def step(x, y):
        scale(2.0, x, y)
        shift(y, x)

The first call with some arguments captures what the function launches, later calls with the same ones launch that
again without running the function.  Arrays are the same when they lie at the same place with the same shape, dtype
and strides, numbers and strings when they are equal, everything else when it is the same object and holds the same.
Results keep their addresses, and each call computes them again.  If anything else that the function reads has changed,
such as a global, the function is captured again.
"""

import functools
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from types import MethodType
from typing import Final, Generic, ParamSpec, TypeVar, cast, overload

import numpy as np

from tessera.api.graph import Graph, capture
from tessera.api.jitted import Jitted
from tessera.core.errors.catalog import BadCapture
from tessera.core.graph.permissions import BITS, read_permissions
from tessera.core.placement.mesh_array import MeshArray
from tessera.graphs.function import GraphFunction
from tessera.graphs.trace import current_trace
from tessera.kernels.closures.snapshot import Closure
from tessera.kernels.closures.walk import closure_of
from tessera.runtime.arrays.host import as_array, is_array
from tessera.runtime.arrays.pointers import address
from tessera.runtime.launch.argument_guards import identity
from tessera.runtime.memory.device_arrays import device_view, is_on_device
from tessera.runtime.streams.graph_capture import recording

P = ParamSpec("P")
R = TypeVar("R")
_KEPT: Final = 8
"""Graphs kept of one function; the one used longest ago gives its executable to the next."""


@dataclass(frozen=True, slots=True)
class _Captured(Generic[R]):
    """One call: its graph, what the function returned, and the arguments, which keep their places and identities.

    closure: what the function read besides them; arrays: identities of the arrays among that
    """

    graph: Graph
    result: R
    keep: tuple[object, ...]
    closure: Closure
    arrays: tuple[object, ...]

    def fits(self, function: Callable[..., object]) -> bool:
        """Return whether the function would launch the same on the same arrays now."""
        if self.closure.unchanged():
            return True
        closure = closure_of(function, _objects(self.keep))
        return closure.complete and closure.key == self.closure.key and _identities(closure) == self.arrays


class Jit(Generic[P, R]):
    """A host function whose launches are captured and replayed.

    graphs: those of the last calls, by what their arguments were
    """

    def __init__(self, function: Callable[P, R]) -> None:
        self.function = function
        self.name: str = getattr(function, "__name__", "a function")
        self.graphs: OrderedDict[tuple[object, ...], _Captured[R]] = OrderedDict()
        functools.update_wrapper(self, function, updated=())  # a wrapped graph keeps its state to itself

    def __call__(self, *arguments: P.args, **keywords: P.kwargs) -> R:
        """Launch the graph of these arguments, capturing it first where there is none; return what the function did.

        Raises BadCapture for functions that wait for their launches, see `tessera.graph.capture`.
        """
        if recording() is not None or current_trace() is not None:  # part of a larger graph
            return self.function(*arguments, **keywords)
        key = (*map(_identity, arguments), *((name, _identity(value)) for name, value in sorted(keywords.items())))
        found = self.graphs.get(key)
        if found is None or not found.fits(self.function):
            found = self._capture(key, *arguments, **keywords)
        else:
            self.graphs.move_to_end(key)
        found.graph.launch()
        return found.result

    def _capture(self, key: tuple[object, ...], /, *arguments: P.args, **keywords: P.kwargs) -> _Captured[R]:
        with capture() as graph:
            result = self.function(*arguments, **keywords)
        if not graph.kernels:
            raise BadCapture(f"{self.name} launched nothing", hint="leave out capture_graph=True")
        keep = (*arguments, *keywords.values())
        closure = closure_of(self.function, _objects(keep))  # as the function left it
        capture_of_call = _Captured(graph, result, keep, closure, _identities(closure))
        if len(self.graphs) >= _KEPT:
            _, oldest = self.graphs.popitem(last=False)
            graph.adopt(oldest.graph)
        self.graphs[key] = capture_of_call
        return capture_of_call

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., object]:
        """Bind a method to its object, as functions do."""
        return self if instance is None else MethodType(self, instance)

    def __reduce__(self) -> str:
        """Pickle by name, as functions are; a copy is the function itself."""
        return str(getattr(self, "__qualname__", self.name))

    @property
    def closes_over(self) -> tuple[object, ...]:
        """The function: it decides the launches, besides arguments."""
        return (self.function,)

    def __repr__(self) -> str:
        return f"<jit {self.name}, {len(self.graphs)} graphs>"


def _objects(arguments: Sequence[object]) -> list[object]:
    """Return the arguments that are neither arrays nor numbers: the function may read parts of them."""
    return [value for value in arguments if _identity(value)[0] == "object"]


def _identities(closure: Closure) -> tuple[object, ...]:
    return tuple(map(_identity, closure.arrays))


def _identity(value: object) -> tuple[object, ...]:
    """Return a key that tells arguments apart."""
    quick = identity(value)
    if quick is not None:
        return ("array", *quick)
    if is_array(value) and not isinstance(value, MeshArray):  # which is read anew each time, wherever its shards are
        view = device_view(value, "argument") if is_on_device(value) else as_array(value, "argument")
        return ("array", address(view), view.shape, view.strides, view.dtype)
    if isinstance(value, float):
        return (float, value.hex())  # 0.0 and -0.0 are equal, and not the same
    if isinstance(value, np.generic):
        return (type(cast("object", value)), value.tobytes())
    if isinstance(value, bool | int | str | bytes) or value is None:
        return (type(value), value)
    return ("object", id(value))


@overload
def jit(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def jit(
    function: None = None, /, *, capture_graph: bool = False, algebra: str | Collection[str] = BITS
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def jit(
    function: Callable[P, R] | None = None, /, *, capture_graph: bool = False, algebra: str | Collection[str] = BITS
) -> Callable[P, R] | Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile a function of operators as one graph; a function that launches kernels runs as it is.

    `@jit(capture_graph=True)` captures what either of them launches, see above.  algebra: as for `graph.module`.
    Raises BadPermission; when called, CannotTrace and the mistakes of operators.
    """
    permitted = read_permissions(algebra)

    def make(host: Callable[P, R]) -> Callable[P, R]:
        compiled = host if isinstance(cast("object", host), GraphFunction) else Jitted(host, permitted)
        return Jit(compiled) if capture_graph else compiled

    return make if function is None else make(function)
