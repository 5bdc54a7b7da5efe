"""Calls of the CUDA driver: contexts, and exceptions for its statuses."""

import os
from collections import Counter, deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final, TypeVarTuple

from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import BadCapture, CudaFailure
from tessera.runtime.driver.descriptors import Launched, after_fault, fault

# CUresult, cuda.h.  After a FAULT every call in the context fails; WRONG_CONTEXT: not the one that is current.
FAULTS: Final = frozenset({214, 220, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721})
WRONG_CONTEXT: Final = frozenset({201, 400})
_CAPTURE: Final = range(900, 909)  # CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED to _STREAM_CAPTURE_WRONG_THREAD
OUT_OF_MEMORY: Final = 2
_NOT_INITIALIZED: Final = 3
_NOT_READY: Final = 600
_REMEMBERED: Final = 64
_RELAXED: Final = 2  # CU_STREAM_CAPTURE_MODE_RELAXED

_Arguments = TypeVarTuple("_Arguments")

Launch = tuple[Launched, int, int]
"""A kernel that was launched, its context and its stream."""


class Calls:
    """Calls of the driver in the context that is current in the calling thread; every failure is a CudaFailure.

    A thread that has no context gets the primary one of device 0, which is the one that cupy and torch use.

    lost: the report of the fault that has cost the context
    launched: kernels launched, the latest last; those a wait has seen the end of are dropped
    """

    def __init__(self) -> None:
        try:
            from cuda.bindings import driver  # noqa: PLC0415  # pyright: ignore  - optional: present where there is a GPU
        except ImportError as error:
            message = "cuda-bindings is not installed"
            raise CudaFailure(message, hint="pip install 'tessera[cuda13]', or [cuda12] for CUDA 12") from error
        self._api: ModuleType = driver
        self._process = os.getpid()
        self._primary: dict[int, object] = {}
        self.lost: TesseraError | None = None
        self.launched: deque[Launch] = deque(maxlen=_REMEMBERED)
        self._call("cuInit", 0)

    @property
    def gone(self) -> bool:
        """Return whether contexts, and all made in them, are out of reach: after a fault, and in a forked child."""
        return self.lost is not None or self.forked

    @property
    def forked(self) -> bool:
        """Return whether this is a forked child of the process that has the contexts."""
        return self._process != os.getpid()

    def _call(self, name: str, *arguments: object) -> Any:  # noqa: ANN401 - its type depends on the driver's function
        """Call a driver function; return its only result, a tuple of several, or None."""
        status, *results = getattr(self._api, name)(*arguments)
        if status != self._api.CUresult.CUDA_SUCCESS:
            self.failed(int(status), name)
        return results[0] if len(results) == 1 else tuple(results) or None

    def _ready(self, name: str, handle: object) -> bool:
        """Call a function that asks whether something is done."""
        (status,) = getattr(self._api, name)(handle)
        if int(status) == _NOT_READY:
            return False
        if status != self._api.CUresult.CUDA_SUCCESS:
            self.failed(int(status), name)
        return True

    def failed(self, status: int, what: str) -> None:
        """Raise what the driver's `status` means; `what` names the function that gave it.

        Raises:
            ContextLost: a kernel faulted, now or earlier.
            CudaFailure: anything else.
        """
        if self.lost is not None:
            raise after_fault(self.lost)
        if status == _NOT_INITIALIZED and self.forked:
            message = "this process was forked from one that uses CUDA, and CUDA cannot be used in such a process"
            raise CudaFailure(message, hint='start processes by multiprocessing.get_context("spawn")')
        code = self._api.CUresult(status)
        _, text = self._api.cuGetErrorString(code)
        words = text.decode() if isinstance(text, bytes) else str(text)
        if status in FAULTS:
            self.lost = fault(words, self._suspects())
            raise self.lost
        if status in _CAPTURE:
            message = f"{what} cannot be part of the graph that is captured: {words}"
            raise BadCapture(message, hint="call the kernel once before the capture, on arrays like these")
        message = f"{what}: {getattr(code, 'name', code)}: {words}"
        raise CudaFailure(message)

    def _suspects(self) -> tuple[Launched, ...]:
        """Return the kernels that may have faulted: those of the current context, whose call has failed."""
        launched = tuple(self.launched)  # other threads go on launching
        status, current = self._api.cuCtxGetCurrent()
        known = status == self._api.CUresult.CUDA_SUCCESS
        here = [kernel for kernel, context, _ in launched if known and context == int(current)]
        return tuple(dict.fromkeys(here or [kernel for kernel, *_ in launched]))

    def ended(self, launched: tuple[Launch, ...], stream: int) -> None:
        """Forget those of `launched` that were in a stream of the current context: their end was seen."""
        context = self.context()
        ended = Counter(id(launch) for launch in launched if launch[1:] == (context, stream))
        for _ in range(len(self.launched)):  # one by one, since other threads go on launching
            launch = self.launched.popleft()
            if ended[id(launch)]:
                ended[id(launch)] -= 1
            else:
                self.launched.append(launch)

    # -- contexts -------------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Make sure that a context is current in this thread."""
        if self.lost is not None:
            raise after_fault(self.lost)
        if not int(self._call("cuCtxGetCurrent")):
            self._call("cuCtxSetCurrent", self._primary_context(0))

    def context(self) -> int:
        """Return the handle of the current context, of which there must be one."""
        return int(self._call("cuCtxGetCurrent"))

    def device(self) -> int:
        """Return the number of the current device."""
        return int(self._call("cuCtxGetDevice"))

    @contextmanager
    def inside(self, device: int) -> Generator[None]:
        """Make a context of `device` current, unless one is, and restore what was current afterwards."""
        self.enter()
        if self.device() == device:
            yield
            return
        self._call("cuCtxPushCurrent", self._primary_context(device))
        try:
            yield
        finally:
            self._call("cuCtxPopCurrent")

    @contextmanager
    def within(self, context: int) -> Generator[None]:
        """Make one context current and restore what was current; a thread that has none gets it for good."""
        current = int(self._call("cuCtxGetCurrent"))
        if current == context:
            yield
            return
        if not current:
            self._call("cuCtxSetCurrent", self._api.CUcontext(context))
            yield
            return
        self._call("cuCtxPushCurrent", self._api.CUcontext(context))
        try:
            yield
        finally:
            self._call("cuCtxPopCurrent")

    def give_back(self, device: int | None, how: Callable[[*_Arguments], None], *what: *_Arguments) -> None:
        """Call `how(*what)` to release something that is no longer used, in a context of `device` (None: in any).

        Done when the interpreter comes to it, which may be inside the capture of a graph by another library: in the
        relaxed mode that does not care.  Nothing is done for what has gone with its context.
        """
        if self.gone:
            return
        with self.relaxed():
            self.enter()
            with self.inside(self.device() if device is None else device):
                how(*what)

    @contextmanager
    def relaxed(self) -> Generator[None]:
        """Let this thread do what is no part of a graph that another library captures meanwhile."""
        before = self._call("cuThreadExchangeStreamCaptureMode", self._api.CUstreamCaptureMode(_RELAXED))
        try:
            yield
        finally:
            self._call("cuThreadExchangeStreamCaptureMode", before)

    def _primary_context(self, device: int) -> object:
        found = self._primary.get(device)
        if found is None:
            found = self._primary[device] = self._call("cuDevicePrimaryCtxRetain", self._call("cuDeviceGet", device))
        return found
