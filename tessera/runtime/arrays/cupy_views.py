"""CuPy as the door to the vendor's libraries: arrays of any library in a GPU's memory, viewed without a copy.

CuPy is optional, and imported when it is first needed.
"""

import importlib
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeAlias

from tessera.core.errors.catalog import LibraryMissing
from tessera.runtime.arrays.interop import is_cupy, is_tensor, stream_of

CupyModule: TypeAlias = Any  # an optional package without stubs
CupyView: TypeAlias = Any


def cupy_module(needed_by: str) -> CupyModule:
    """Import CuPy.  Raises LibraryMissing where it is not installed, or not for this machine."""
    try:
        return importlib.import_module("cupy")
    except ImportError as missing:
        raise LibraryMissing(
            f"{needed_by} of arrays in a GPU's memory needs CuPy, which is not installed",
            hint="install cupy-cuda12x or cupy-cuda13x, or copy the arrays to the host",
        ) from missing


def as_cupy(array: object, needed_by: str) -> CupyView:
    """Return a view of an array in a GPU's memory.  Raises LibraryMissing."""
    if is_cupy(array):
        return array
    cupy = cupy_module(needed_by)
    if is_tensor(array):
        array = array.detach()
    return cupy.from_dlpack(array) if hasattr(array, "__dlpack__") else cupy.asarray(array)


@contextmanager
def beside(array: object, device: int, needed_by: str) -> Generator[None]:
    """Let CuPy work on the device and the stream of an array of any library."""
    cupy = cupy_module(needed_by)
    stream = stream_of(array, device)()
    with cupy.cuda.Device(device), _as_stream(cupy, stream):
        yield


class _Handle:
    """A CUDA stream by the protocol of streams."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle


def _as_stream(cupy: CupyModule, handle: int) -> AbstractContextManager[object]:
    """Return CuPy's object for a stream.  CuPy 14.2 has the protocol, and warns of what earlier ones have."""
    if not handle:
        return cupy.cuda.Stream.null
    from_protocol = getattr(cupy.cuda.Stream, "from_external", None)
    return cupy.cuda.ExternalStream(handle) if from_protocol is None else from_protocol(_Handle(handle))
