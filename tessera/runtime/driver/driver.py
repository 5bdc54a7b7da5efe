"""The one door to the CUDA driver: devices, modules, launches, memory, streams, events and graphs.

Everything goes through cuda-bindings, but for the calls that have to be fast, launches of kernels and of graphs: those
are the driver's own functions by way of ctypes, with arguments prepared beforehand.  cuda-bindings is loaded by the
first call of `driver`.
"""

import ctypes
import gc
import threading
from collections.abc import Callable
from typing import Final, SupportsInt

from tessera.core.base.plurals import short_bytes
from tessera.core.errors.catalog import OutOfDeviceMemory
from tessera.runtime.arrays.host import AnyArray
from tessera.runtime.arrays.interop import release_cached_blocks
from tessera.runtime.driver.calls import OUT_OF_MEMORY, Calls
from tessera.runtime.driver.descriptors import Encoding
from tessera.runtime.driver.polling import poll

Start = Callable[[ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p], int]
"""start(address of a LaunchConfig, function, address of the parameters' addresses, null): the driver's status."""

SetParameters = Callable[[ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p], int]
"""set_parameters(executable graph, node, address of a KernelNode): the driver's status."""

CACHES: Final[list[Callable[[], object]]] = [gc.collect, release_cached_blocks]
"""Called when an allocation fails, before it is tried again: each lets go of GPU memory that something keeps for later.

Cycles, such as an exception and its frames, keep arrays alive until the collector comes to them.
"""

_TENSOR_MAP_BYTES: Final = 128
_EVERYTHING: Final = (1 << 64) - 1


class Driver(Calls):
    """The calls of the CUDA driver that the runtime is made of, see `Calls`.

    start, replay, set_parameters: a launch, a graph's launch, a change of a graph's parameters, without any check:
        statuses other than 0 go to `failed`
    used: devices that something was launched on
    """

    def __init__(self) -> None:
        super().__init__()
        self.used: set[int] = set()
        self._pools: dict[int, int] = {}
        library = ctypes.CDLL("libcuda.so.1")
        self.start: Start = library.cuLaunchKernelEx
        self.replay: Callable[[ctypes.c_void_p, ctypes.c_void_p], int] = library.cuGraphLaunch
        self.set_parameters: SetParameters = library.cuGraphExecKernelNodeSetParams_v2
        self._record, self._follow = library.cuEventRecord, library.cuStreamWaitEvent
        self._record.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
        self._follow.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint)
        self._reserve = library.cuMemAllocFromPoolAsync
        self._reserve.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p)

    # -- devices --------------------------------------------------------------------------------------------------

    def device_of(self, address: int) -> int:
        """Return the device in whose memory `address` lies.  Raises CudaFailure for an unknown address."""
        return int(self._call("cuPointerGetAttribute", self._pointer("DEVICE_ORDINAL"), address))

    def is_pinned(self, address: int) -> bool:
        """Return whether host memory is locked in place, so that copies need no staging."""
        status, kind = self._api.cuPointerGetAttribute(self._pointer("MEMORY_TYPE"), address)
        return status == self._api.CUresult.CUDA_SUCCESS and int(kind) == int(self._api.CUmemorytype.CU_MEMORYTYPE_HOST)

    def _pointer(self, name: str) -> object:
        return getattr(self._api.CUpointer_attribute, f"CU_POINTER_ATTRIBUTE_{name}")

    def let_peer(self, device: int, peer: int) -> bool:
        """Let `peer` read and write the memory of `device`, its pool too; return whether their link allows it."""
        api = self._api
        owner, other = self._call("cuDeviceGet", device), self._call("cuDeviceGet", peer)
        if not self._call("cuDeviceCanAccessPeer", other, owner):
            return False
        with self.inside(device):
            context = self._call("cuCtxGetCurrent")
        with self.inside(peer):
            (status,) = api.cuCtxEnablePeerAccess(context, 0)
            if status != api.CUresult.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED and int(status):
                self.failed(int(status), "cuCtxEnablePeerAccess")
        access = api.CUmemAccessDesc()
        access.location.type = api.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        access.location.id = peer
        access.flags = api.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        self._call("cuMemPoolSetAccess", self._call("cuDeviceGetDefaultMemPool", owner), [access], 1)
        return True

    def count(self) -> int:
        """Return how many GPUs there are."""
        return int(self._call("cuDeviceGetCount"))

    def name(self, device: int) -> str:
        """Return the name of a device: "NVIDIA H200"."""
        return self._call("cuDeviceGetName", 256, self._call("cuDeviceGet", device)).decode().rstrip("\0 ")

    def memory_of(self, device: int) -> int:
        """Return the bytes of memory of a device."""
        return int(self._call("cuDeviceTotalMem", self._call("cuDeviceGet", device)))

    def attribute(self, name: str, device: int) -> int:
        """Return an attribute of a device: `CU_DEVICE_ATTRIBUTE_` and `name`."""
        code = getattr(self._api.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self._call("cuDeviceGetAttribute", code, self._call("cuDeviceGet", device)))

    def capability(self, device: int) -> tuple[int, int]:
        """Return the compute capability of a device."""
        names = ("COMPUTE_CAPABILITY_MAJOR", "COMPUTE_CAPABILITY_MINOR")
        return self.attribute(names[0], device), self.attribute(names[1], device)

    # -- modules and launches -------------------------------------------------------------------------------------

    def load(self, code: bytes, entry: str) -> int:
        """Load a cubin or PTX into the current context, for good: the function `entry`."""
        with self.relaxed():  # code is no part of what is captured meanwhile
            module = self._call("cuModuleLoadData", code)
        return int(self._call("cuModuleGetFunction", module, entry.encode()))

    def allow_shared(self, function: int, size: int) -> int:
        """Let `function` use `size` bytes of shared memory; give the part to be asked for at launch."""
        names = self._api.CUfunction_attribute
        handle = self._api.CUfunction(function)
        static = int(self._call("cuFuncGetAttribute", names.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, handle))
        dynamic = max(0, size - static)
        if dynamic:
            name = names.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._call("cuFuncSetAttribute", handle, name, dynamic)
        return dynamic

    def resident(self, function: int, lanes: int, shared: int, cluster: int = 1) -> int:
        """Return how many blocks the current device runs at a time, a multiple of `cluster`."""
        handle = self._api.CUfunction(function)
        if cluster > 1:
            config = self._api.CUlaunchConfig()
            config.gridDimX, config.gridDimY, config.gridDimZ = cluster, 1, 1
            config.blockDimX, config.blockDimY, config.blockDimZ = lanes, 1, 1
            config.sharedMemBytes = shared
            attribute = self._api.CUlaunchAttribute()
            attribute.id = self._api.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            extents = attribute.value.clusterDim
            extents.x, extents.y, extents.z = cluster, 1, 1
            config.attrs, config.numAttrs = [attribute], 1
            return max(1, int(self._call("cuOccupancyMaxActiveClusters", handle, config))) * cluster
        blocks = int(self._call("cuOccupancyMaxActiveBlocksPerMultiprocessor", handle, lanes, shared))
        return max(1, blocks) * self.attribute("MULTIPROCESSOR_COUNT", self.device())

    def encode(self, wanted: Encoding) -> bytes:
        """Return a CUtensorMap of 128 bytes: zeros outside the array, nothing interleaved, L2 lines of 128 bytes."""
        api = self._api
        rank = len(wanted.extents)
        made = self._call(
            "cuTensorMapEncodeTiled",
            getattr(api.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{wanted.element}"),
            rank,
            wanted.address,
            [api.cuuint64_t(extent) for extent in wanted.extents],
            [api.cuuint64_t(stride) for stride in wanted.strides],
            [api.cuuint32_t(extent) for extent in wanted.box],
            [api.cuuint32_t(1)] * rank,
            api.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            getattr(api.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{_swizzle(wanted.swizzle)}"),
            api.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            api.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
        return ctypes.string_at(int(made.getPtr()), _TENSOR_MAP_BYTES)

    # -- memory ---------------------------------------------------------------------------------------------------

    def allocate(self, size: int, stream: int) -> int:
        """Allocate `size` bytes in the order of the stream, and return their address.

        Raises OutOfDeviceMemory where they are not free, not even after `CACHES` have given back theirs.
        """

        def attempt() -> tuple[int, int]:
            status, address = self._api.cuMemAllocAsync(size, stream)
            return int(status), int(address or 0)

        return self._allocated(attempt, size, stream, "cuMemAllocAsync")

    def reserve(self, size: int, stream: int, device: int) -> int:
        """Allocate `size` bytes of the current device in the order of the stream; they are kept for the next.

        While the stream is captured, the memory is the graph's own.  Raises as `allocate` does.
        """
        pool = self._pool(device)

        def attempt() -> tuple[int, int]:
            address = ctypes.c_uint64()
            return self._reserve(ctypes.byref(address), size, pool, stream), address.value

        return self._allocated(attempt, size, stream, "cuMemAllocFromPoolAsync")

    def _allocated(self, attempt: Callable[[], tuple[int, int]], size: int, stream: int, what: str) -> int:
        """Return the address that `attempt` gives beside a status; release caches and try again where there is none."""
        status, address = attempt()
        if status == OUT_OF_MEMORY and self.lost is None:
            if not self.capturing(stream):  # a graph allocates when it is launched, and may not wait
                self._release_caches(stream)
                status, address = attempt()
            if status == OUT_OF_MEMORY:
                raise self._full(size)
        if status:
            self.failed(status, what)
        return address

    def _release_caches(self, stream: int) -> None:
        """Let everything go that is kept for later, and wait until it is free."""
        with self.relaxed():
            for release in CACHES:
                release()
            for releasing in {0, stream}:  # memory was freed in the order of these streams
                self.wait(releasing)
            self.trim()
            default = self._call("cuDeviceGetDefaultMemPool", self._call("cuDeviceGet", self.device()))
            self._call("cuMemPoolTrimTo", default, 0)

    def _full(self, size: int) -> OutOfDeviceMemory:
        free, total = self._call("cuMemGetInfo")
        device = self.device()
        message = (
            f"{short_bytes(size)} are needed, and {short_bytes(int(free))} of the {short_bytes(int(total))} of GPU "
            f"{device} ({self.name(device)}) are free"
        )
        return OutOfDeviceMemory(
            message, hint="delete arrays that are not needed any more; other programs may use the GPU"
        )

    def trim(self) -> None:
        """Give back what `free` has left to be reserved again, as far as nothing uses it any more."""
        for pool in self._pools.values():
            self._call("cuMemPoolTrimTo", self._api.CUmemoryPool(pool), 0)

    def _pool(self, device: int) -> int:
        """Return the pool of a device's reserved memory; the default pool gives all of it back at every wait."""
        found = self._pools.get(device)
        if found is None:
            api = self._api
            wanted = api.CUmemPoolProps()
            wanted.allocType = api.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
            wanted.location.type = api.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
            wanted.location.id = device
            made = self._call("cuMemPoolCreate", wanted)
            threshold = api.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
            self._call("cuMemPoolSetAttribute", made, threshold, api.cuuint64_t(_EVERYTHING))
            found = self._pools[device] = int(made)
        return found

    def free(self, address: int, stream: int) -> None:
        """Give memory back once what the stream holds so far is done."""
        self._call("cuMemFreeAsync", address, stream)

    def clear(self, address: int, size: int, stream: int) -> None:
        """Fill `size` bytes with zeros."""
        self._call("cuMemsetD8Async", address, 0, size, stream)

    def upload(self, address: int, array: AnyArray, stream: int) -> None:
        """Copy a contiguous host array to the device, once the stream is empty.  Ctrl-C ends that wait."""
        self.wait(stream)  # for ordinary memory the driver would wait itself, deaf to signals
        self._call("cuMemcpyHtoDAsync", address, array.ctypes.data, array.nbytes, stream)

    def send(self, address: int, array: AnyArray, stream: int) -> None:
        """Copy a small contiguous array of ordinary memory in the order of the stream; it may change afterwards."""
        self._call("cuMemcpyHtoDAsync", address, array.ctypes.data, array.nbytes, stream)

    def download(self, array: AnyArray, address: int, stream: int) -> None:
        """Copy device memory into a contiguous host array, once the stream is empty.  Ctrl-C ends that wait."""
        self.wait(stream)
        self._call("cuMemcpyDtoHAsync", array.ctypes.data, address, array.nbytes, stream)

    def copy(self, target: int, source: int, size: int, stream: int) -> None:
        """Copy `size` bytes between any two addresses, of host (pinned) or devices."""
        self._call("cuMemcpyAsync", target, source, size, stream)

    def copy_rows(self, target: tuple[int, int], source: tuple[int, int], width: int, rows: int, stream: int) -> None:
        """Copy rows of `width` bytes between two places, each an address and the bytes from row to row."""
        wanted = self._api.CUDA_MEMCPY2D()
        wanted.dstMemoryType = wanted.srcMemoryType = self._api.CUmemorytype.CU_MEMORYTYPE_DEVICE
        wanted.dstDevice, wanted.dstPitch = target
        wanted.srcDevice, wanted.srcPitch = source
        wanted.WidthInBytes, wanted.Height = width, rows
        self._call("cuMemcpy2DAsync", wanted, stream)

    def pinned(self, size: int) -> int:
        """Allocate `size` bytes of page-locked host memory that every context knows, and return their address."""
        return int(self._call("cuMemHostAlloc", size, 1))  # CU_MEMHOSTALLOC_PORTABLE

    def unpin(self, address: int) -> None:
        """Give memory of `pinned` back."""
        self._call("cuMemFreeHost", address)

    # -- streams and events ---------------------------------------------------------------------------------------

    def new_stream(self, *, capturing: bool = False) -> int:
        """Create a stream of the current context, in order with the default one unless it is to capture with."""
        # While a stream in order with the default one is captured, that one may not be used (cuda.h, error 906).
        return int(self._call("cuStreamCreate", 1 if capturing else 0))  # CU_STREAM_NON_BLOCKING

    def close_stream(self, stream: int) -> None:
        """Destroy a stream once it is empty."""
        self._call("cuStreamDestroy", self._api.CUstream(stream))

    def new_event(self, *, timing: bool = True) -> int:
        """Create an event of the current context."""
        return int(self._call("cuEventCreate", 0 if timing else 2))  # CU_EVENT_DISABLE_TIMING

    def close_event(self, event: int) -> None:
        """Destroy an event."""
        self._call("cuEventDestroy", self._api.CUevent(event))

    def record(self, event: int, stream: int) -> None:
        """Let `event` stand for what the stream holds so far."""
        status = self._record(event, stream)
        if status:
            self.failed(status, "cuEventRecord")

    def follow(self, stream: int, event: int) -> None:
        """Let the stream wait for `event`."""
        status = self._follow(stream, event, 0)
        if status:
            self.failed(status, "cuStreamWaitEvent")

    def reached(self, event: int) -> bool:
        """Return whether what `event` stands for is done.  Raises ContextLost for a fault before it."""
        return self._ready("cuEventQuery", self._api.CUevent(event))

    def elapsed(self, first: int, second: int) -> float:
        """Return the seconds between two events that were reached."""
        return float(self._call("cuEventElapsedTime", self._api.CUevent(first), self._api.CUevent(second))) / 1e3

    def empty(self, stream: int) -> bool:
        """Return whether the stream has nothing left to do.  Raises ContextLost for a fault in it."""
        return self._ready("cuStreamQuery", self._api.CUstream(stream))

    def wait(self, stream: int) -> None:
        """Wait until the stream is empty; a fault of a kernel before it is reported here.  Ctrl-C ends the wait."""
        before = tuple(self.launched)
        poll(lambda: self.empty(stream))
        self.ended(before, stream)

    def wait_event(self, event: int) -> None:
        """Wait until `event` is reached.  Ctrl-C ends the wait."""
        poll(lambda: self.reached(event))

    # -- graphs ---------------------------------------------------------------------------------------------------

    def capturing(self, stream: int) -> bool:
        """Return whether the stream is being captured for a graph; the default one never is."""
        if not stream:
            return False
        status = self._call("cuStreamIsCapturing", self._api.CUstream(stream))
        return bool(status != self._api.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE)

    def begin_capture(self, stream: int) -> None:
        """Let the stream note what it is given, instead of doing it."""
        mode = self._api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        self._call("cuStreamBeginCapture", self._api.CUstream(stream), mode)

    def end_capture(self, stream: int) -> object:
        """Return the graph of what the stream was given since `begin_capture`."""
        return self._call("cuStreamEndCapture", self._api.CUstream(stream))

    def instantiate(self, graph: object) -> SupportsInt:
        """Make a graph ready to be launched."""
        return self._call("cuGraphInstantiate", graph, 0)

    def only_node(self, graph: object) -> int:
        """Return the node of a graph that has one."""
        nodes, *_ = self._call("cuGraphGetNodes", graph, 1)
        return int(nodes[0])

    def kernel_nodes(self, graph: object, count: int) -> list[tuple[int, int, int]]:
        """Return the nodes of a graph of `count` kernels, each with its function and the place of its parameters."""
        nodes, *_ = self._call("cuGraphGetNodes", graph, count)
        found: list[tuple[int, int, int]] = []
        for node in nodes:
            told = self._call("cuGraphKernelNodeGetParams", node)
            found.append((int(node), int(told.func), int(told.kernelParams)))
        return found

    def update(self, executable: object, graph: object) -> bool:
        """Give a graph that is ready the parameters of another; False where they differ in more than parameters."""
        status, _ = self._api.cuGraphExecUpdate(executable, graph)
        return bool(status == self._api.CUresult.CUDA_SUCCESS)

    def close_graph(self, graph: object) -> None:
        """Destroy a graph."""
        self._call("cuGraphDestroy", graph)

    def close_executable(self, executable: object) -> None:
        """Destroy a graph that is ready to be launched."""
        self._call("cuGraphExecDestroy", executable)


def _swizzle(width: int) -> str:
    return f"{width}B" if width else "NONE"


class _Only:
    """The process's driver."""

    lock: threading.Lock = threading.Lock()
    driver: Driver | None = None


def driver() -> Driver:
    """Load the driver, once, and return it.

    Raises:
        CudaFailure: cuda-bindings is missing, or there is no GPU or no driver.
    """
    if _Only.driver is None:
        with _Only.lock:
            if _Only.driver is None:
                _Only.driver = Driver()
    return _Only.driver


def loaded() -> Driver | None:
    """Return the driver where something has used it in this process, else None."""
    made = _Only.driver
    return None if made is None or made.forked else made
