"""Keep shards in the memory of the devices of a mesh: NumPy arrays on the host, arrays of ours on GPUs.

A GPU's shards are its own, replicas too; those of the host share this process's memory.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from tessera.core.placement.devices import ON_GPU, Device
from tessera.runtime.arrays.host import AnyArray
from tessera.runtime.driver import driver as door
from tessera.runtime.memory.owned import DeviceArray, to_device

Shard: TypeAlias = Any  # of NumPy, or in the memory of a GPU: both have a shape, a dtype and a size in bytes
HostShard = AnyArray


@dataclass(slots=True)
class _Peers:
    """Pairs of GPUs of one driver, and shards on their way between them.

    linked: whether the second GPU of a pair may read the memory of the first one
    being_read: shards that another GPU may not have read yet, each with the event that stands for that
    """

    linked: dict[tuple[int, int], bool] = field(default_factory=dict[tuple[int, int], bool])
    being_read: deque[tuple[int, DeviceArray]] = field(default_factory=deque[tuple[int, DeviceArray]])


_PEERS: Final[WeakKeyDictionary[object, _Peers]] = WeakKeyDictionary()
"""By drivers: there is one, but in tests."""


def new_shard(device: Device, shape: tuple[int, ...], dtype: "np.dtype[np.generic]", value: object) -> Shard:
    """Allocate a shard in the memory of a device, with every element set to a value."""
    return on(device, np.full(shape, value, dtype))


def shard_of(device: Device, values: object, shape: tuple[int, ...], dtype: "np.dtype[np.generic]") -> Shard:
    """Copy values of the host into a new shard in the memory of a device, broadcast to its shape."""
    spread = np.broadcast_to(np.asarray(values, dtype), shape)
    return to_device(np.ascontiguousarray(spread), device.index) if device.kind == ON_GPU else spread.copy()


def on(device: Device, shard: Shard) -> Shard:
    """Return a shard in the memory of a device: itself where it lies there, else a copy."""
    if device.kind != ON_GPU:
        return on_host(shard)
    if isinstance(shard, DeviceArray) and shard.device == device.index:
        return shard
    if isinstance(shard, DeviceArray):
        return sent(device, shard)()
    return to_device(np.ascontiguousarray(shard), device.index)


def on_host(shard: Shard) -> HostShard:
    """Return the elements of a shard: the array itself where it lies in this process's memory, else a copy."""
    return shard.get() if isinstance(shard, DeviceArray) else np.asarray(shard)


def store(shard: Shard, values: object) -> None:
    """Write all elements of a shard; those of an array on the same GPU are copied there."""
    if isinstance(shard, DeviceArray) and isinstance(values, DeviceArray) and values.device == shard.device:
        _copy(shard, values)
    elif isinstance(shard, DeviceArray):
        shard.set(np.ascontiguousarray(np.broadcast_to(np.asarray(values, shard.dtype), shard.shape)))
    else:
        shard[...] = values


def copied(shard: Shard) -> Shard:
    """Return a copy of a shard where it lies."""
    if not isinstance(shard, DeviceArray):
        return shard.copy()
    made = DeviceArray(shard.shape, shard.dtype, shard.device)
    _copy(made, shard)
    return made


def resized(shard: Shard, shape: tuple[int, ...]) -> Shard:
    """Return a shard with other extents, where it lies: the elements that both have; others are anything on a GPU.

    On the host a shard that gets no larger is a part of the same memory.
    """
    if isinstance(shard, DeviceArray):
        for axis, extent in enumerate(shape):
            if extent != shard.shape[axis]:
                shard = _resized_along(shard, axis, extent)
        return shard
    kept = shard[tuple(map(slice, shape))]
    if kept.shape == shape:
        return kept
    made = np.zeros(shape, shard.dtype)
    made[tuple(map(slice, kept.shape))] = kept
    return made


def _resized_along(shard: DeviceArray, axis: int, extent: int) -> DeviceArray:
    """Copy what lies behind one another along an axis as the rows of a rectangle."""
    before, mine, inner = shard.shape[:axis], shard.shape[axis], prod(shard.shape[axis + 1 :])
    made = DeviceArray((*before, extent, *shard.shape[axis + 1 :]), shard.dtype, shard.device)
    size, rows = inner * shard.dtype.itemsize, prod(before)
    width, api = min(mine, extent) * size, door.driver()
    if width and rows:
        with api.inside(shard.device):
            api.copy_rows((made.address, extent * size), (shard.address, mine * size), width, rows, 0)
    return made


def sent(device: Device, shard: Shard) -> Callable[[], Shard]:
    """Return what brings a shard to a device when it is called, in the order of the device's default stream then.

    From one GPU to another: the reader waits for what the other GPU was given until now, and not for what it is given
    until the call.  The host waits for neither, nor does the GPU that the shard comes from; the shard is kept until it
    was read.  GPUs that are not linked exchange it through the memory of the host.
    """
    if device.kind != ON_GPU or not isinstance(shard, DeviceArray) or shard.device == device.index:
        return partial(on, device, shard)
    peers, pair = _peers(), (shard.device, device.index)
    if pair not in peers.linked:
        peers.linked[pair] = door.driver().let_peer(*pair)
    if not peers.linked[pair]:
        return lambda: to_device(shard.get(), device.index)
    return partial(_read, shard, device.index, _recorded(shard.device))


def _read(shard: DeviceArray, device: int, written: int) -> DeviceArray:
    """Copy the shard of another GPU on the default stream of this one, after an event there."""
    api, being_read = door.driver(), _peers().being_read
    while being_read and api.reached(being_read[0][0]):
        api.close_event(being_read.popleft()[0])
    copy_of_shard = DeviceArray(shard.shape, shard.dtype, device)
    with api.inside(device):
        api.follow(0, written)
        if shard.nbytes:
            api.copy(copy_of_shard.address, shard.address, shard.nbytes, 0)
    being_read.append((_recorded(device), shard))
    api.close_event(written)  # it is destroyed once it is reached
    return copy_of_shard


def _peers() -> _Peers:
    return _PEERS.setdefault(door.driver(), _Peers())


def _recorded(device: int) -> int:
    """Return an event that stands for what the default stream of a GPU holds so far."""
    api = door.driver()
    with api.inside(device):
        event = api.new_event(timing=False)
        api.record(event, 0)
    return event


def _copy(target: DeviceArray, source: DeviceArray) -> None:
    """Copy in the order of the default stream of the source's GPU."""
    api = door.driver()
    if source.nbytes:
        with api.inside(source.device):
            api.copy(target.address, source.address, source.nbytes, 0)
