"""Graphs of launches: captured once, launched again as a whole.

    from tessera import graph

    with graph.capture() as g:
        gemm(a, b, c)
        saxpy(2.0, c, d)
    graph.launch(g)

Inside the `with` nothing runs: kernels, copies (`stream.memcpy_async`) and events are noted, with the arrays they were
given.  On a GPU the graph is a CUDA graph; on the CPU it is the list of the launches, ready to run.  Work that other
libraries do inside the `with` is not part of the graph, and runs at once.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import cast

from tessera.core.errors.catalog import BadCapture
from tessera.runtime.launch.graph_replay import Graph
from tessera.runtime.streams.graph_capture import close_recording, forbid, open_recording
from tessera.runtime.streams.streams import as_stream

__all__ = ["Graph", "capture", "launch"]


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


def launch(captured: Graph, stream: object = None) -> None:
    """Run a captured graph once more, in the order of `stream`.

    Raises BadCapture inside a capture, or for what is no graph, or not complete.
    """
    forbid("launching another graph")
    if not isinstance(cast("object", captured), Graph):
        raise BadCapture(f"{captured!r} is no graph", hint="capture one: `with graph.capture() as g:`")
    captured.launch(None if stream is None else as_stream(stream))
