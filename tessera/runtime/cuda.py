"""Launch a CUDA artifact: bind device arrays, pack the slots, launch, wait.

Arrays come in as whatever speaks `__cuda_array_interface__` or DLPack (cupy, torch, jax, numba) and are used where they
lie.  NumPy arrays are accepted too: they are copied to the GPU before the launch, and those the kernel may write are
copied back after it, so such a launch waits for its end.

cuda-bindings is needed only here, and loaded by the first launcher.
"""

import ctypes
import functools
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import numpy as np

from tessera.core.artifact import Artifact
from tessera.core.mistakes import CudaFailure, NotAnArray, ReadOnlyArray, ScalarRange
from tessera.core.program.types import Array
from tessera.core.source import NOWHERE, Span
from tessera.runtime.arrays import AnyArray
from tessera.runtime.bind import Binder
from tessera.runtime.device_arrays import device_view, is_on_device, standing_for
from tessera.runtime.grid import Grid, GridRule
from tessera.runtime.slots import SlotPlan

_LARGEST_GRID: Final = (1 << 31) - 1
_SLOT: Final = 8
# Compute capability to the newest of our architectures whose machine code runs there.
_ARCHITECTURES: Final = {
    (8, 0): "sm_80", (8, 6): "sm_80", (8, 7): "sm_80", (8, 9): "sm_89", (9, 0): "sm_90a", (10, 0): "sm_100a",
}  # fmt: skip


class Driver:
    """The calls of the CUDA driver that a launch is made of; every failure is a CudaFailure.

    Works in the context that is current in the calling thread, or else in the primary context of device 0, which is
    the one that cupy and torch use.
    """

    def __init__(self) -> None:
        try:
            from cuda.bindings import driver  # noqa: PLC0415  # pyright: ignore[reportMissingImports, reportUnknownVariableType]
        except ImportError as error:
            message = "cuda-bindings is not installed"
            raise CudaFailure(message, hint="pip install cuda-bindings") from error
        self._api: Any = driver
        self._call("cuInit", 0)

    def _call(self, name: str, *arguments: Any) -> Any:
        """Call a driver function: its only result, a tuple of several, or None."""
        status, *results = getattr(self._api, name)(*arguments)
        if status != self._api.CUresult.CUDA_SUCCESS:
            _, text = self._api.cuGetErrorString(status)
            words = text.decode() if isinstance(text, bytes) else str(text)
            message = f"{name}: {getattr(status, 'name', status)}: {words}"
            raise CudaFailure(message)
        return results[0] if len(results) == 1 else tuple(results) or None

    def enter(self) -> None:
        """Make sure that a context is current in this thread."""
        if not int(self._call("cuCtxGetCurrent")):
            self._call("cuCtxSetCurrent", self._call("cuDevicePrimaryCtxRetain", self._call("cuDeviceGet", 0)))

    def capability(self) -> tuple[int, int]:
        """The compute capability of the current device."""
        names = self._api.CUdevice_attribute
        major = self.attribute(names.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
        return major, self.attribute(names.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)

    def attribute(self, name: Any) -> int:
        """One attribute of the current device."""
        return int(self._call("cuDeviceGetAttribute", name, self._call("cuCtxGetDevice")))

    def processors(self) -> int:
        """Multiprocessors of the current device."""
        return self.attribute(self._api.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)

    def load(self, code: bytes, entry: str) -> tuple[Any, Any]:
        """Load a cubin or PTX: (module, function)."""
        module = self._call("cuModuleLoadData", code)
        return module, self._call("cuModuleGetFunction", module, entry.encode())

    def allow_shared(self, function: Any, size: int) -> int:
        """Let `function` use `size` bytes of shared memory; give the part to be asked for at launch."""
        names = self._api.CUfunction_attribute
        static = int(self._call("cuFuncGetAttribute", names.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function))
        dynamic = max(0, size - static)
        if dynamic:
            name = names.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._call("cuFuncSetAttribute", function, name, dynamic)
        return dynamic

    def resident(self, function: Any, lanes: int, shared: int) -> int:
        """How many blocks the current device runs at a time."""
        name = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
        return max(1, int(self._call(name, function, lanes, shared))) * self.processors()

    def launch(self, function: Any, size: tuple[int, int, int], stream: int, parameters: int) -> None:
        """Start `size` = (blocks, lanes of a block, bytes of dynamic shared memory)."""
        blocks, lanes, shared = size
        self._call("cuLaunchKernel", function, blocks, 1, 1, lanes, 1, 1, shared, stream, parameters, 0)

    def allocate(self, size: int, stream: int) -> int:
        """Address of `size` bytes, in the order of the stream."""
        return int(self._call("cuMemAllocAsync", size, stream))

    def free(self, address: int, stream: int) -> None:
        """Give memory back once what the stream holds so far is done."""
        self._call("cuMemFreeAsync", address, stream)

    def upload(self, address: int, array: AnyArray, stream: int) -> None:
        """Copy a contiguous host array to the device."""
        self._call("cuMemcpyHtoDAsync", address, array.ctypes.data, array.nbytes, stream)

    def download(self, array: AnyArray, address: int, stream: int) -> None:
        """Copy device memory into a contiguous host array."""
        self._call("cuMemcpyDtoHAsync", array.ctypes.data, address, array.nbytes, stream)

    def wait(self, stream: int) -> None:
        """Wait until the stream is empty; a fault of a kernel before it is reported here."""
        self._call("cuStreamSynchronize", stream)


@functools.cache
def driver() -> Driver:
    """The driver, loaded once.

    Raises:
        CudaFailure: cuda-bindings is missing, or there is no GPU or no driver.
    """
    return Driver()


def device_architecture() -> str:
    """The architecture to compile for so that the code runs on the current device: "sm_90a".

    Raises:
        CudaFailure: no GPU, or one that none of our architectures fits.
    """
    api = driver()
    api.enter()
    capability = api.capability()
    found = _ARCHITECTURES.get(capability)
    if found is None:
        message = f"no code of ours runs on a GPU of compute capability {capability[0]}.{capability[1]}"
        raise CudaFailure(message, hint=f"use one of {sorted(set(_ARCHITECTURES.values()))}")
    return found


def synchronize(stream: int = 0) -> None:
    """Wait for everything launched on `stream` (0: the default stream).  Raises CudaFailure for what failed there."""
    api = driver()
    api.enter()
    api.wait(stream)


class CudaLauncher:
    """One CUDA artifact, loaded and ready.

    `scalars`: see `Binder`.  Raises CudaFailure when the driver refuses the code.
    """

    def __init__(self, artifact: Artifact, scalars: Sequence[type] | None = None) -> None:
        self.artifact = artifact
        self._driver = driver()
        self._driver.enter()
        self._binder = Binder(artifact, scalars)
        self._grid = GridRule(artifact, self._binder.symbol)
        kinds = [slot.kind for slot in artifact.slots]
        self._offsets = range(0, _SLOT * len(kinds), _SLOT)
        self._slots_type = ctypes.c_char * (_SLOT * len(kinds))
        self._addresses_type = ctypes.c_void_p * len(kinds)
        self._scratch_place = kinds.index("scratch") * _SLOT if "scratch" in kinds else None
        plain = replace(artifact, slots=tuple(slot for slot in artifact.slots if slot.kind != "scratch"))
        self._slots = SlotPlan(plain, self._binder)
        self._module, self._function = self._driver.load(artifact.code, artifact.entry)
        self._shared = self._driver.allow_shared(self._function, artifact.resources.shared_bytes)
        self._lanes = artifact.launch.lanes_per_group or math.prod(artifact.launch.group)

    def __call__(self, *arguments: object, grid: Grid | None = None, stream: int = 0) -> None:
        """Launch on `stream` (a CUstream's address, 0 for the default one); arrays may be on the device or in NumPy.

        Returns at once when all arrays are on the device; `synchronize` then waits.  Raises the TesseraError of
        whatever is wrong with the arguments before anything runs, and CudaFailure for what the driver refuses.
        """
        self._driver.enter()
        staged: dict[int, _Staged] = {}
        try:
            values = self._place(arguments, staged, stream)
            self._launch(values, grid, stream)
            if staged:
                for copy in staged.values():
                    if copy.written:
                        self._driver.download(copy.host, copy.address, stream)
                self._driver.wait(stream)
        finally:
            for copy in staged.values():
                self._driver.free(copy.address, stream)

    def _place(self, arguments: Sequence[object], staged: dict[int, "_Staged"], stream: int) -> list[object]:
        """Every array as a view of device memory; NumPy arrays are copied there and noted in `staged`."""
        bindings = self.artifact.bindings
        if len(arguments) != len(bindings):
            self._binder.check(arguments)  # raises: it says how many there should be
        values: list[object] = []
        for value, binding in zip(arguments, bindings, strict=True):
            if not isinstance(binding.type, Array):
                values.append(value)
            elif is_on_device(value):
                values.append(device_view(value, binding.name, binding.span))
            else:
                host = _host_array(value, binding.name, binding.mutable, binding.span)
                if id(value) not in staged:
                    staged[id(value)] = _Staged(host, self._driver.allocate(max(1, host.nbytes), stream))
                    self._driver.upload(staged[id(value)].address, host, stream)
                copy = staged[id(value)]
                copy.written = copy.written or binding.mutable
                values.append(standing_for(copy.address, host.shape, host.dtype, None))
        return values

    def _launch(self, values: list[object], grid: Grid | None, stream: int) -> None:
        facts = self._binder.facts(values)
        if facts is None:
            facts = self._binder.facts(self._binder.check(values))
        if facts is None:
            message = f"{self.artifact.name}: checked arguments were not accepted"
            raise AssertionError(message)
        shape = self._grid.shape(facts, grid)
        if shape.units == 0:
            return
        if shape.units > _LARGEST_GRID:
            message = f"{shape.units} groups; a launch has {_LARGEST_GRID} at most"
            raise CudaFailure(message, self.artifact.span, hint="give each group more work")
        try:
            packed, _ = self._slots.pack(facts, shape)
        except (OverflowError, struct.error):
            self._binder.check(values)  # names the number that is too large
            raise ScalarRange("a number is too large for its parameter", self.artifact.span) from None
        if self._scratch_place is None:
            self._start(packed, shape.units, stream)
            return
        blocks = min(shape.units, self._driver.resident(self._function, self._lanes, self._shared))
        scratch = self._driver.allocate(blocks * self.artifact.resources.scratch_bytes, stream)
        place = self._scratch_place
        self._start(packed[:place] + struct.pack("<Q", scratch) + packed[place:], blocks, stream)
        self._driver.free(scratch, stream)

    def _start(self, packed: bytes, blocks: int, stream: int) -> None:
        slots = self._slots_type.from_buffer_copy(packed)
        base = ctypes.addressof(slots)
        addresses = self._addresses_type(*[base + offset for offset in self._offsets])
        self._driver.launch(self._function, (blocks, self._lanes, self._shared), stream, ctypes.addressof(addresses))


@dataclass(slots=True)
class _Staged:
    """A NumPy array's copy on the device; `written`: it has to be copied back."""

    host: AnyArray
    address: int
    written: bool = False


def _host_array(value: object, name: str, mutable: bool, span: Span = NOWHERE) -> AnyArray:
    """A NumPy array whose bytes can be copied as they lie."""
    if not isinstance(value, np.ndarray):
        message = f"{name} needs an array on the GPU or a NumPy array, got a {type(value).__name__}"
        raise NotAnArray(message, span, hint=f"pass cupy.asarray({name})")
    array = cast("AnyArray", value)
    if not array.flags.c_contiguous:
        message = f"{name} has gaps or another order, and only whole arrays are copied to the GPU"
        raise NotAnArray(message, span, hint=f"pass np.ascontiguousarray({name}), or a device array")
    if mutable and not array.flags.writeable:
        message = f"{name} is written by the kernel, but the array given is read only"
        raise ReadOnlyArray(message, span, hint="pass a writeable array, e.g. a copy")
    return array
