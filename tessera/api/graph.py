"""Graphs of operators, and graphs of launches: captured once, launched again as a whole.

    from tessera import graph

    with graph.capture() as g:
        gemm(a, b, c)
        saxpy(2.0, c, d)
    graph.launch(g)

Inside the `with` nothing runs: kernels, copies (`stream.memcpy_async`) and events are noted, with the arrays they were
given.  On a GPU the graph is a CUDA graph; on the CPU it is the list of the launches, ready to run.  Work that other
libraries do inside the `with` is not part of the graph, and runs at once.
"""

from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar, cast

from tessera.core.errors.catalog import BadCapture
from tessera.core.graph.permissions import BITS, read_permissions
from tessera.graphs.function import GraphFunction
from tessera.kernels.options import Options
from tessera.runtime.launch.graph_replay import Graph
from tessera.runtime.streams.graph_capture import close_recording, forbid, open_recording
from tessera.runtime.streams.streams import as_stream

__all__ = ["Graph", "capture", "launch", "module"]

P = ParamSpec("P")
R = TypeVar("R")


@contextmanager
def capture() -> Generator[Graph]:
    """Note what this thread launches inside the `with`, as a graph to be launched afterwards.

    Raises BadCapture for a capture inside another, for work on several devices, and for waiting inside the `with`.
    """
    made = Graph()
    noted = open_recording()
    try:
        yield made
    finally:
        close_recording()
    made.complete(noted)


def module(
    name: str | Callable[P, R] = "", /, *, target: str | None = None, algebra: str | Collection[str] = BITS
) -> "GraphFunction[P, R] | Callable[[Callable[P, R]], GraphFunction[P, R]]":
    """Capture a function of operators as one graph: `@graph.module("attention")`, or `@graph.module`.

    The function runs once for each kind of arguments, on values that stand for arrays; what it returns is computed by
    the kernels that the graph is divided into.  target: where it runs whatever the setting says; algebra: how the
    compiler may change the function beyond what keeps every bit: "real" as if numbers were real, or classes of
    rewrites such as {"reassociate", "fold"}.  Raises BadPermission.
    """
    options, permitted = Options(target=target), read_permissions(algebra)
    if callable(name):
        return GraphFunction(name, "", options, permitted)
    chosen = name

    def make(function: Callable[P, R]) -> GraphFunction[P, R]:
        return GraphFunction(function, chosen, options, permitted)

    return make


def launch(captured: Graph, stream: object = None) -> None:
    """Run a captured graph once more, in the order of `stream`.

    Raises BadCapture inside a capture, or for what is no graph, or not complete.
    """
    forbid("launching another graph")
    if not isinstance(cast("object", captured), Graph):
        raise BadCapture(f"{captured!r} is no graph", hint="capture one: `with graph.capture() as g:`")
    captured.launch(None if stream is None else as_stream(stream))
