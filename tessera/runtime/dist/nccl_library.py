"""Open NCCL's shared library by ctypes: communicators of all GPUs of this process.  It moves bits, and little else.

Multicast over NVLink stays off: its sums depend on what was allocated before, and its slots run out.
"""

import ctypes
import importlib.util
import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from tessera.core.errors.catalog import CudaFailure, LibraryMissing

_FILE: Final = "libnccl.so.2"
_HINT: Final = "pip install 'tessera[mesh]'"
# ncclDataType_t and ncclRedOp_t, nccl.h.
_TYPES: Final = {
    "int8": 0, "uint8": 1, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5, "float16": 6, "float32": 7, "float64": 8,
    "bfloat16": 9,
}  # fmt: skip
_OPERATORS: Final = {"sum": 0, "prod": 1, "max": 2, "min": 3, "mean": 4}
_BYTE: Final = 1


class Array(Protocol):
    """An array in the memory of a GPU."""

    @property
    def address(self) -> int:
        """The address of its first byte."""
        ...

    @property
    def nbytes(self) -> int:
        """Its size."""
        ...

    @property
    def dtype(self) -> "np.dtype[np.generic]":
        """The type of its elements."""
        ...


class Communicator(Protocol):
    """One GPU's end of a group of GPUs."""

    def send(self, sendbuf: Array, peer: int, *, stream: int) -> None:
        """Send a buffer to a rank, in the order of a CUDA stream."""
        ...

    def recv(self, recvbuf: Array, peer: int, *, stream: int) -> None:
        """Receive into a buffer from a rank."""
        ...

    def allreduce(self, sendbuf: Array, recvbuf: Array, op: int, *, stream: int) -> None:
        """Reduce by NCCL's own order."""
        ...

    def abort(self) -> None:
        """End everything under way; the communicator is gone afterwards."""
        ...


class Nccl(Protocol):
    """NCCL with the communicators of some GPUs, rank by rank."""

    @property
    def communicators(self) -> Sequence[Communicator]:
        """One of each GPU."""
        ...

    def group(self) -> AbstractContextManager[None]:
        """Collect calls, and start them together."""
        ...

    def operator(self, op: str, dtype: "np.dtype[np.generic]") -> int | None:
        """Return NCCL's number of an operator; None: it has none, or none on elements of this type."""
        ...

    def abort(self) -> None:
        """End everything under way."""
        ...


class Library:
    """NCCL with a communicator for each of `devices`.

    Raises LibraryMissing where there is no NCCL, and CudaFailure for what it refuses.
    """

    def __init__(self, devices: Sequence[int]) -> None:
        os.environ.setdefault("NCCL_NVLS_ENABLE", "0")  # NCCL reads it when communicators are made
        self.calls = NcclFunctions(open_library())
        handles = (ctypes.c_void_p * len(devices))()
        self.calls("CommInitAll", handles, len(devices), (ctypes.c_int * len(devices))(*devices))
        self.communicators: Sequence[LibraryCommunicator] = [
            LibraryCommunicator(self.calls, ctypes.c_void_p(handle)) for handle in handles
        ]

    @property
    def version(self) -> str:
        """The version of the library: "2.28.9"."""
        found = ctypes.c_int()
        self.calls("GetVersion", ctypes.byref(found))
        return f"{found.value // 10000}.{found.value // 100 % 100}.{found.value % 100}"

    @contextmanager
    def group(self) -> Generator[None]:
        """See `Nccl.group`."""
        self.calls("GroupStart")
        try:
            yield
        finally:
            self.calls("GroupEnd")

    def operator(self, op: str, dtype: "np.dtype[np.generic]") -> int | None:
        """See `Nccl.operator`."""
        return _OPERATORS.get(op) if dtype.name in _TYPES else None

    def abort(self) -> None:
        """See `Nccl.abort`."""
        for communicator in self.communicators:
            communicator.abort()


class LibraryCommunicator:
    """See `Communicator`."""

    def __init__(self, calls: "NcclFunctions", handle: ctypes.c_void_p) -> None:
        self._calls, self._handle = calls, handle

    def send(self, sendbuf: Array, peer: int, *, stream: int) -> None:
        """See `Communicator.send`.  Bytes go, whatever the elements' type."""
        self._calls("Send", *_memory(sendbuf), _BYTE, peer, self._handle, ctypes.c_void_p(stream))

    def recv(self, recvbuf: Array, peer: int, *, stream: int) -> None:
        """See `Communicator.recv`."""
        self._calls("Recv", *_memory(recvbuf), _BYTE, peer, self._handle, ctypes.c_void_p(stream))

    def allreduce(self, sendbuf: Array, recvbuf: Array, op: int, *, stream: int) -> None:
        """See `Communicator.allreduce`."""
        into, count, kind = ctypes.c_void_p(recvbuf.address), _count(sendbuf), _TYPES[sendbuf.dtype.name]
        self._calls(
            "AllReduce", ctypes.c_void_p(sendbuf.address), into, count, kind, op, self._handle, ctypes.c_void_p(stream)
        )

    def allgather(self, sendbuf: Array, recvbuf: Array, *, stream: int) -> None:
        """Gather buffers of one length from all ranks."""
        into = ctypes.c_void_p(recvbuf.address)
        self._calls("AllGather", _memory(sendbuf)[0], into, _memory(sendbuf)[1], _BYTE, self._handle,
                    ctypes.c_void_p(stream))  # fmt: skip

    def reduce_scatter(self, sendbuf: Array, recvbuf: Array, op: int, *, stream: int) -> None:
        """Reduce by NCCL's own order, a part for each rank."""
        into, count, kind = ctypes.c_void_p(recvbuf.address), _count(recvbuf), _TYPES[sendbuf.dtype.name]
        self._calls("ReduceScatter", ctypes.c_void_p(sendbuf.address), into, count, kind, op, self._handle,
                    ctypes.c_void_p(stream))  # fmt: skip

    def abort(self) -> None:
        """See `Communicator.abort`."""
        self._calls("CommAbort", self._handle)


def _memory(buffer: Array) -> tuple[ctypes.c_void_p, ctypes.c_size_t]:
    return ctypes.c_void_p(buffer.address), ctypes.c_size_t(buffer.nbytes)


def _count(buffer: Array) -> ctypes.c_size_t:
    return ctypes.c_size_t(buffer.nbytes // buffer.dtype.itemsize)


class NcclFunctions:
    """Functions of NCCL by their names; every status but success is a CudaFailure."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._library.ncclGetErrorString.restype = ctypes.c_char_p

    def __call__(self, name: str, *arguments: object) -> None:
        """Call a function."""
        status = getattr(self._library, f"nccl{name}")(*arguments)
        if status:
            words = self._library.ncclGetErrorString(status)
            raise CudaFailure(f"nccl{name}: {words.decode() if words else status}", hint="NCCL_DEBUG=INFO says more")


@lru_cache(maxsize=1)
def open_library() -> ctypes.CDLL:
    """Load NCCL: where the wheel of NVIDIA has it, else where the system does.  Raises LibraryMissing."""
    tried: list[str] = []
    for place in _places():
        try:
            return ctypes.CDLL(place)
        except OSError as error:
            tried.append(str(error))
    message = f"NCCL is not installed ({_FILE}), and GPUs exchange large values by it"
    raise LibraryMissing(message, hint=_HINT)


def _places() -> Iterator[str]:
    """Yield files to try: a process must not load two NCCLs, and torch loads that of the wheel."""
    try:
        found = importlib.util.find_spec("nvidia.nccl")
    except ModuleNotFoundError:
        found = None
    for folder in found.submodule_search_locations or () if found is not None else ():
        file = Path(folder) / "lib" / _FILE
        if file.exists():
            yield str(file)
    yield _FILE
