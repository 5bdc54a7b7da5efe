"""The GPUs of this machine and what they are, from the driver's attributes."""

from dataclasses import dataclass
from typing import Final

from tessera.core.errors.catalog import CudaFailure
from tessera.runtime.driver import driver as door

_BITS: Final = 8
_TRANSFERS: Final = 2  # a clock of double data rate memory moves two


@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """One GPU.

    capability: compute capability; processors: multiprocessors
    shared_per_block, shared_per_processor: bytes of shared memory a block may opt in to, and there are
    registers, lanes: of one multiprocessor, 32-bit registers and resident threads
    l2, memory: bytes; clock: highest of the multiprocessors, in Hz
    bandwidth: of the memory, bytes a second, from its highest clock and width; copies reach nine tenths of it
    copy_engines: copies that go on beside kernels
    """

    number: int
    name: str
    capability: tuple[int, int]
    processors: int
    shared_per_block: int
    shared_per_processor: int
    registers: int
    lanes: int
    l2: int
    memory: int
    clock: float
    bandwidth: float
    copy_engines: int

    def __str__(self) -> str:
        return f"cuda:{self.number} {self.name}, {self.processors} multiprocessors, {self.memory / 2**30:.0f} GiB"


def count() -> int:
    """Return how many GPUs this process can use; 0 where there is no driver."""
    try:
        return door.driver().count()
    except CudaFailure:  # no driver, or one without a GPU: that is what 0 says
        return 0


def properties(device: int = 0) -> DeviceProperties:
    """Return the properties of a GPU.  Raises CudaFailure for a number that no GPU has."""
    api = door.driver()
    if not 0 <= device < api.count():
        raise CudaFailure(f"there is no cuda:{device}", hint=f"this machine has {api.count()} GPUs, from cuda:0 on")

    def get(name: str) -> int:
        return api.attribute(name, device)

    width, clock = get("GLOBAL_MEMORY_BUS_WIDTH"), get("MEMORY_CLOCK_RATE") * 1e3
    return DeviceProperties(
        device, api.name(device), api.capability(device), get("MULTIPROCESSOR_COUNT"),
        get("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"), get("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        get("MAX_REGISTERS_PER_MULTIPROCESSOR"), get("MAX_THREADS_PER_MULTIPROCESSOR"), get("L2_CACHE_SIZE"),
        api.memory_of(device), get("CLOCK_RATE") * 1e3, _TRANSFERS * clock * width / _BITS, get("ASYNC_ENGINE_COUNT"),
    )  # fmt: skip


def current() -> int:
    """Return the device that is current in this thread: where launches without arrays on a GPU go."""
    api = door.driver()
    api.enter()
    return api.device()
