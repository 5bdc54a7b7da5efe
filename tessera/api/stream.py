"""Streams: work in order, several orders side by side.

    from tessera import stream

    s1, s2 = stream.new(), stream.new(weight=2.0)
    stream.memcpy_async(dst=device_x, src=host_x, stream=s1)
    gemm.on(s2)(a, b, c)                 # in Tessera syntax: gemm[grid, block, stream=s2](a, b, c)
    done = s2.record()
    s1.wait(done)                        # what s1 gets from now on begins after that
    stream.synchronize()

Streams of other libraries (cupy, torch, objects with `__cuda_stream__`, addresses) are taken wherever one of ours is.
"""

from typing import TYPE_CHECKING

from tessera.runtime.arrays.host import AnyArray
from tessera.runtime.streams.graph_capture import forbid
from tessera.runtime.streams.streams import Event, Stream, as_stream
from tessera.runtime.streams.streams import synchronize as _synchronize

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = ["Event", "Stream", "as_stream", "memcpy_async", "new", "pinned", "synchronize"]


def new(weight: float = 1.0) -> Stream:
    """Return a new stream.

    While several streams have work, each gets launches in proportion to its `weight`.  As long as all weights are
    equal, launches on GPUs go straight to the hardware's scheduler.  Raises BadStream for a weight of 0 or less.
    """
    return Stream(weight)


def memcpy_async(*, dst: object, src: object, stream: object = None) -> None:
    """Copy all of `src` to `dst`, two arrays of one shape and dtype on any devices, in the order of `stream`.

    Returns at once; `src` must not change and `dst` not be read before the stream is synchronized.  Copies between
    GPUs and memory of `pinned` are the fastest; ordinary host memory is staged through pinned memory by a thread.
    Without a stream the copy is finished when the call returns.
    Raises BadTransfer for arrays that differ, NotAnArray for gaps, BadStream, BadCapture.
    """
    from tessera.runtime.launch.copies import memcpy  # noqa: PLC0415 - few programs copy

    memcpy(dst, src, None if stream is None else as_stream(stream))


def pinned(shape: int | tuple[int, ...], dtype: "DTypeLike" = "float32") -> AnyArray:
    """Return a NumPy array in pinned memory, not initialised.  Raises CudaFailure where there is no GPU."""
    from tessera.runtime.memory.owned import pinned as allocate  # noqa: PLC0415 - few programs need it

    return allocate(shape, dtype)


def synchronize() -> None:
    """Wait for every stream and for everything launched without one.  Ctrl-C ends the wait.

    Raises what a kernel in any of them raised, with its name and line; BadCapture while a graph is captured.
    """
    forbid("waiting for streams")
    _synchronize()
