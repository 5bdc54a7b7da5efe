"""Keep shards in the memory of the devices of a mesh: NumPy arrays on the host, arrays of ours on GPUs.

A GPU's shards are its own, replicas too; those of the host share this process's memory.
"""

from math import prod
from typing import Any, TypeAlias

import numpy as np

from tessera.core.placement.devices import ON_GPU, Device
from tessera.runtime.arrays.host import AnyArray
from tessera.runtime.driver import driver as door
from tessera.runtime.memory.owned import DeviceArray, to_device

Shard: TypeAlias = Any  # of NumPy, or in the memory of a GPU: both have a shape, a dtype and a size in bytes
HostShard = AnyArray


def new_shard(device: Device, shape: tuple[int, ...], dtype: "np.dtype[np.generic]", value: object) -> Shard:
    """Allocate a shard in the memory of a device, with every element set to a value."""
    filled = np.full(shape, value, dtype)
    return on(device, filled)


def on(device: Device, shard: Shard) -> Shard:
    """Return a shard in the memory of a device: itself where it lies there, else a copy."""
    if device.kind != ON_GPU:
        return on_host(shard)
    if isinstance(shard, DeviceArray) and shard.device == device.index:
        return shard
    if isinstance(shard, DeviceArray):
        return _from_peer(shard, device.index)
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


def _from_peer(shard: DeviceArray, device: int) -> DeviceArray:
    """Copy a shard to another GPU in the order of both default streams; the host waits for neither."""
    made = DeviceArray(shard.shape, shard.dtype, device)
    _follow(shard.device, device)  # kernels there may still use what was in this memory before
    _copy(made, shard)
    _follow(device, shard.device)
    return made


def _follow(device: int, other: int) -> None:
    """Let the default stream of a GPU wait for what that of another one holds so far."""
    api = door.driver()
    with api.inside(other):
        event = api.new_event(timing=False)
        api.record(event, 0)
    with api.inside(device):
        api.follow(0, event)
    with api.inside(other):
        api.close_event(event)  # it is destroyed once it is reached


def _copy(target: DeviceArray, source: DeviceArray) -> None:
    """Copy in the order of the default stream of the source's GPU."""
    api = door.driver()
    if source.nbytes:
        with api.inside(source.device):
            api.copy(target.address, source.address, source.nbytes, 0)
