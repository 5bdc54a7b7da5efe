"""NumPy arrays given to a launch on a GPU: copied there before it, and back behind it where the kernel may write."""

from collections.abc import Hashable
from dataclasses import dataclass

from tessera.core.artifact import Binding
from tessera.core.errors.catalog import NotAnArray
from tessera.core.events import BytesMoved, wanted
from tessera.runtime.arrays.host import AnyArray, as_array
from tessera.runtime.arrays.pointers import address
from tessera.runtime.driver.driver import Driver
from tessera.runtime.memory.copy_events import tell_copy
from tessera.runtime.memory.device_arrays import standing_for


def host_array(value: object, binding: Binding) -> AnyArray:
    """`value`, the argument of `binding`, whose bytes can be copied as they lie.  Raises NotAnArray, ReadOnlyArray."""
    name, span = binding.name, binding.span
    array = as_array(value, name, mutable=binding.mutable, span=span)
    if not array.flags.c_contiguous:
        message = f"{name} has gaps or another order, and only whole arrays are copied to the GPU"
        raise NotAnArray(message, span, hint=f"pass np.ascontiguousarray({name}), or a device array")
    return array


@dataclass(slots=True)
class _Copy:
    """An array's copy on the device; `written`: it has to be copied back."""

    host: AnyArray
    address: int
    written: bool = False


class HostArguments:
    """The copies that one launch on a stream needs, one for each place in memory; `close` frees them."""

    def __init__(self, driver: Driver, stream: int) -> None:
        self._driver, self._stream = driver, stream
        self._copies: dict[Hashable, _Copy] = {}

    def __bool__(self) -> bool:
        return bool(self._copies)

    @property
    def captured(self) -> bool:
        """Return whether the stream is captured for a graph, so that nothing can be copied."""
        return self._driver.capturing(self._stream)

    def on_device(self, host: AnyArray, *, written: bool) -> AnyArray:
        """Return the array that stands for the copy of `host`, which is filled."""
        place = (address(host), host.shape, host.dtype)
        copy = self._copies.get(place)
        if copy is None:
            copy = self._copies[place] = _Copy(host, self._driver.allocate(max(1, host.nbytes), self._stream))
            self._driver.upload(copy.address, host, self._stream)
            self._tell(host, up=True)
        copy.written = copy.written or written
        return standing_for(copy.address, host.shape, host.dtype, None)

    def copy_back(self) -> None:
        """Copy what may have been written, and wait for it."""
        for copy in self._copies.values():
            if copy.written:
                self._driver.download(copy.host, copy.address, self._stream)
                self._tell(copy.host, up=False)
        self._driver.wait(self._stream)

    def _tell(self, host: AnyArray, *, up: bool) -> None:
        if wanted(BytesMoved):
            device = self._driver.device()
            tell_copy(host.nbytes, None if up else device, device if up else None)

    def close(self) -> None:
        """Give the memory back, unless a fault has taken it."""
        if not self._driver.gone:
            for copy in self._copies.values():
                self._driver.free(copy.address, self._stream)
        self._copies.clear()
