"""Tensors that lie on a mesh in shards; symbolic until something is stored in them.

`dist.tensor(shape=..., layout=dist.ShardSpec(...), mesh=mesh, dtype="bf16")` of any size costs nothing.  `X[...] = a`
stores, as `dist.array(a, layout, mesh)` does at once, and `numpy.asarray(X)` reads.  Shards of simulated devices and of
the CPU lie in this process's memory, where replicas of a shard share it; those of GPUs lie in the memory of each.
"""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol, cast

import numpy as np
from numpy.typing import DTypeLike

from tessera.core.base.dtypes import ALL, DType, dtype_of
from tessera.core.errors.base import TesseraError
from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import BadMesh, BadShardSpec, MeshMemory, NotStored
from tessera.core.placement.devices import ON_GPU
from tessera.core.placement.memory import MemoryPlan, amount
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.mesh_array import MeshArray
from tessera.core.placement.placement import Placement, ShardMap
from tessera.core.placement.reshard_plan import ReshardPlan
from tessera.core.placement.shard_spec import Distribution
from tessera.core.placement.sharded_type import ShardedType
from tessera.dist.meshes import mesh_in_use
from tessera.lowering.placement.reshard import plan_reshard
from tessera.runtime.arrays.host import is_array
from tessera.runtime.arrays.interop import is_jax
from tessera.runtime.arrays.pointers import address
from tessera.runtime.binding.current_stream import ArgumentStreams
from tessera.runtime.driver import driver as door
from tessera.runtime.memory.device_arrays import device_of, is_on_device
from tessera.runtime.memory.device_shards import HostShard, Shard, copied, new_shard, on, on_host, shard_of, store
from tessera.runtime.memory.operands import operand, packed
from tessera.runtime.memory.owned import DeviceArray
from tessera.runtime.shards.exchange import exchange, open_index
from tessera.runtime.shards.fold_leaves import fold_leaves, identity

Place = tuple[int, ...]
"""Which piece of each dimension a shard is, and whose contribution along partial axes; on a GPU, whose memory too."""


class PendingUse(Protocol):
    """A launch that may still read or write a tensor."""

    writes: bool

    def wait(self) -> None:
        """Wait until it has ended; raise what it raised."""
        ...


@dataclass(frozen=True, slots=True)
class _Layout:
    """The shards of a type on a mesh.

    keys: one per rank; ranks with equal keys share the memory of a shard
    """

    type: ShardedType
    map: ShardMap
    keys: tuple[Place, ...]


@lru_cache(maxsize=1024)
def _layout(kind: ShardedType, mesh: Mesh) -> _Layout:
    """Work out the shards of a type on a mesh, once: every call of a graph returns tensors of the same types."""
    placement = kind.placement.normal(kind.shape, mesh)
    normal = ShardedType(kind.dtype, kind.shape, placement)
    on_mesh = normal.on(mesh)
    keys: list[Place] = []
    for rank, device in enumerate(mesh.devices):
        key = (*on_mesh.place(rank), mesh.position(rank, placement.partial))
        keys.append((*key, rank) if device.kind == ON_GPU else key)
    return _Layout(normal, on_mesh, tuple(keys))


class Tensor(MeshArray):
    """An array on a mesh.

    type: dtype, shape and placement, as it is printed; uses: launches that have not ended
    """


    def __init__(self, kind: ShardedType, mesh: Mesh, name: str = "") -> None:
        """Declare a tensor; nothing is allocated."""
        layout = _layout(kind, mesh)
        self.type = layout.type
        self.mesh = mesh
        self.name: Final = name
        self.map: Final = layout.map
        self.uses: list[PendingUse] = []
        self._shards: dict[Place, Shard] = {}
        self._of_ranks: tuple[Shard, ...] = ()

    @property
    def placement(self) -> Placement:
        """How it lies on the mesh."""
        return self.type.placement

    @property
    def sharding(self) -> Placement:
        """How it lies on the mesh: `placement` under JAX's name."""
        return self.type.placement

    @property
    def stored(self) -> bool:
        """True where anything is stored in it."""
        return bool(self._shards)

    @property
    def bytes_per_device(self) -> int:
        """Bytes that each device sets aside."""
        return self.type.bytes_on(self.mesh)

    @property
    def label(self) -> str:
        """Its name, or its type."""
        return self.name or str(self.type)

    def place(self, rank: int) -> Place:
        """Return which shard a rank holds."""
        partial = self.placement.partial
        return (*self.map.place(rank), self.mesh.position(rank, partial))

    def _key(self, rank: int) -> Place:
        """Return what tells the memory of a rank's shard from others."""
        return _layout(self.type, self.mesh).keys[rank]

    def shard(self, rank: int | None = None, **coordinates: int) -> Shard:
        """Return the shard of a rank in the memory of its device, which may be written.

        coordinates: along mesh axes instead of a rank, as in `x.shard(tp=3)`; 0 along the axes that are not named
        Raises NotStored, and BadMesh for an axis that the mesh lacks or a coordinate outside of it.
        """
        if rank is None or coordinates:
            rank = self._rank_at(coordinates)
        self._require_stored()
        return self._shards[self._key(rank)]

    @property
    def shards(self) -> tuple[Shard, ...]:
        """The memory of each rank's shard, in the order of ranks; ranks may share it.  Raises NotStored."""
        if not self._of_ranks:
            self._of_ranks = tuple(self.shard(rank) for rank in range(self.mesh.size()))
        return self._of_ranks

    def _require_stored(self) -> None:
        if not self.stored:
            hint = f"{self.name or 'X'}[...] = array first"
            raise at_call(NotStored(f"nothing is stored in {self.label}", hint=hint))

    def _rank_at(self, coordinates: Mapping[str, int]) -> int:
        """Return the first rank with coordinates along mesh axes."""
        point = [0] * len(self.mesh.axes)
        for axis, index in coordinates.items():
            extent = self.mesh.size(axis)
            if not 0 <= index < extent:
                what = f"{axis} has no place {index}"
                raise at_call(BadMesh(what, hint=f"its {extent} places are numbered from 0 to {extent - 1}"))
            point[self.mesh.number(axis)] = index
        return self.mesh.rank(point)

    def made(self, kind: ShardedType, shards: Sequence[Shard]) -> "Tensor":
        """Return a tensor on the same mesh, of a shard for each rank."""
        found = Tensor(kind, self.mesh)
        keys, devices = _layout(kind, self.mesh).keys, self.mesh.devices
        for rank in reversed(range(len(keys))):
            found._shards[keys[rank]] = on(devices[rank], shards[rank])
        return found

    def allocate(self) -> None:
        """Set the memory of all shards aside, where there is none yet.  Raises MeshMemory."""
        if self.stored:
            return
        self._require_memory()
        value = identity(self.placement.op, self.dtype) if self.placement.partial else 0
        for rank in range(self.mesh.size()):
            key = self._key(rank)
            if key not in self._shards:
                self._shards[key] = new_shard(self.mesh.devices[rank], self.map.local_shape(rank), self.dtype, value)

    def _require_memory(self) -> None:
        needed, there = self._bytes_of_shards(), _memory_of_host()
        if needed > there:  # what is stored comes from this process, GPUs' shards too
            what = (
                f"the shards of {self.label} take {amount(needed)} in this process, whose machine has {amount(there)}"
            )
            raise at_call(MeshMemory(what, hint="it can be declared, planned and drawn; store smaller ones"))

    def _bytes_of_shards(self) -> int:
        """Return the bytes of all shards, those that ranks share counted once."""
        count = math.prod(each.pieces for each in self.map.pieces) * self.mesh.size(self.placement.partial)
        return count * self.bytes_per_device

    def _require_memory_to_gather(self) -> None:
        """Raise NotStored, and MeshMemory where the whole array beside the shards does not fit into this process."""
        self._require_stored()
        on_gpus = self.mesh.devices[0].kind == ON_GPU
        needed, there = self.nbytes + (0 if on_gpus else self._bytes_of_shards()), _memory_of_host()
        if needed > there:
            beside = "" if on_gpus else " beside its shards"
            what = f"all of {self.label} takes {amount(needed)}{beside} in this process, whose machine has {amount(there)}"
            raise at_call(MeshMemory(what, hint="read parts: X.shard(rank), X.parts(axis)"))

    def put(self, rank: int, value: Shard) -> None:
        """Replace the shard of a rank, and of those that share it; what lies elsewhere is copied to its device."""
        self._shards[self._key(rank)] = on(self.mesh.devices[rank], value)
        self._of_ranks = ()

    def __setitem__(self, index: object, value: object) -> None:
        given = _elements(value)
        self.wait(writing=True)
        if not _is_whole(index):
            whole = self._assembled() if self.stored else np.zeros(self.shape, self.dtype)
            whole[cast("slice", index)] = given
            given = whole
        try:
            given = np.broadcast_to(given, self.shape)
        except ValueError:
            what = f"an array of shape {given.shape} does not fill {self.label}"
            raise at_call(BadShardSpec(what, hint=f"give it the shape {self.shape}")) from None
        if not self.stored:
            self._require_memory()
        nothing, first = identity(self.placement.op, self.dtype), len(self.shape)
        for key, rank in {self._key(rank): rank for rank in range(self.mesh.size())}.items():
            values = given[open_index(self.map, rank)] if key[first] == 0 else nothing
            if key in self._shards:
                store(self._shards[key], values)
            else:
                shape = self.map.local_shape(rank)
                self._shards[key] = shard_of(self.mesh.devices[rank], values, shape, self.dtype)

    def __iter__(self) -> Iterator[HostShard]:
        return iter(np.asarray(self))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> HostShard:
        """Return all of it as a NumPy array; contributions are folded in the order of their devices.

        Raises NotStored, and ValueError where a copy was ruled out.
        """
        if copy is False:
            raise ValueError("shards are put together in a copy")
        self.wait(writing=False)
        whole = self._assembled()
        return whole if dtype is None else whole.astype(dtype, copy=False)

    def _assembled(self) -> HostShard:
        self._require_memory_to_gather()
        whole = np.empty(self.shape, self.dtype)
        axes = self.placement.partial
        for _, holders in self.map.shards():
            group = self.mesh.group(holders[0], axes)
            parts = [on_host(self.shard(rank)) for rank in group]
            whole[open_index(self.map, holders[0])] = fold_leaves(parts, self.placement.op) if axes else parts[0]
        return whole

    def wait(self, *, writing: bool) -> None:
        """Wait for the launches that write it; before it is written, also for those that read it."""
        for use in tuple(self.uses):
            if writing or use.writes:
                use.wait()

    def memory(self) -> MemoryPlan:
        """Return the memory that each device sets aside for it.  Raises MeshMemory where a device has less."""
        return MemoryPlan(self.mesh, {self.name or "the tensor": self.type}).require()

    def parts(self, *axes: str) -> "Parts":
        """Return its shards along one mesh axis or several, for an index launch.  Raises BadMesh."""
        for axis in axes:
            self.mesh.number(axis)
        return Parts(self, axes or self.mesh.axes)

    def plan(self, layout: Distribution | Placement) -> ReshardPlan:
        """Return how it would get to another layout, and what that costs.  Raises BadShardSpec, BadMesh."""
        after = layout if isinstance(layout, Placement) else layout.placed(self.shape, self.mesh)
        return plan_reshard(self.type.dtype, self.shape, self.placement, after, self.mesh)

    def reshard(self, layout: Distribution | Placement) -> "Tensor":
        """Return the tensor in another layout; a symbolic one stays symbolic.  Raises BadShardSpec, BadMesh."""
        plan = self.plan(layout)
        found = Tensor(plan.type_of(plan.after), self.mesh, self.name)
        if self.stored:
            self.wait(writing=False)
            held = [self.shard(rank) for rank in range(self.mesh.size())]
            after = exchange(plan, [on_host(each) for each in held]).shards if plan.steps else map(copied, held)
            for rank, shard in reversed(list(enumerate(after))):
                found.put(rank, shard)
        return found

    def copy(self) -> "Tensor":
        """Return a tensor in the same layout, with memory of its own."""
        return self.reshard(self.placement)

    def __repr__(self) -> str:
        head = f"{self.name}: {self.type}" if self.name else str(self.type)
        state = "stored" if self.stored else "nothing stored"
        return f"{head} on {self.mesh}, {amount(self.bytes_per_device)} a device, {state}"


class Parts:
    """The shards of a tensor along mesh axes, as an argument of an index launch."""

    def __init__(self, whole: Tensor, axes: tuple[str, ...]) -> None:
        """See `Tensor.parts`."""
        self.whole, self.axes = whole, axes

    def __len__(self) -> int:
        return self.whole.mesh.size(self.axes)

    def __getitem__(self, number: int) -> Shard:
        """Return one shard: that of the first device at this place along the axes.  Raises IndexError, NotStored."""
        if not 0 <= number < len(self):
            raise IndexError(f"there are {len(self)} parts along {', '.join(self.axes)}")
        mesh = self.whole.mesh
        first = next(rank for rank in range(mesh.size()) if mesh.position(rank, self.axes) == number)
        return self.whole.shard(first)

    def __repr__(self) -> str:
        return f"{len(self)} parts along {', '.join(self.axes)} of {self.whole!r}"


def tensor(
    shape: Sequence[int], layout: Distribution | None = None, mesh: Mesh | None = None, dtype: object = "f32",
    name: str = "",
) -> Tensor:  # fmt: skip
    """Declare a tensor on a mesh; nothing is allocated until something is stored.

    layout: a ShardSpec, or a distribution such as Block; None: every device has everything
    mesh: None: the mesh in use, see `Mesh`

    Raises BadShardSpec, BadMesh, UnevenShards, and MeshMemory where the devices' memory is known and does not suffice.
    """
    extents = _extents(shape)
    place = mesh if mesh is not None else mesh_in_use()
    placement = Placement.replicated(len(extents)) if layout is None else layout.placed(extents, place)
    kind = ShardedType(read_dtype(dtype), extents, placement)
    MemoryPlan(place, {name or "the tensor": kind}).require()
    return Tensor(kind, place, name)


def array(
    x: object, layout: Distribution | None = None, mesh: Mesh | None = None, dtype: object = None, name: str = ""
) -> Tensor:
    """Store an array in shards on a mesh: `tensor` with its shape and dtype, and with its elements.

    x: an array of NumPy, PyTorch, CuPy or JAX, on the host or on a GPU, or numbers in lists
    dtype: the type that its elements are converted to; None: their own

    Raises what `tensor` does, NotAnArray, and ArgumentType for elements of a type that Tessera does not have.
    """
    values = _elements(x)
    sharded = tensor(values.shape, layout, mesh, values.dtype if dtype is None else dtype, name)
    sharded[...] = values
    return sharded


def _elements(x: object) -> HostShard:
    """Return the elements of an array of any library, or of numbers in lists, in the memory of this process.

    What lies on a GPU is copied once its library's current stream has written it.
    """
    if is_jax(x) or not (is_array(x) or is_on_device(x)):
        return np.asarray(x)  # JAX waits for its own streams
    try:
        array_operand = packed(operand(x, "the array"))
    except TesseraError as mistake:
        raise at_call(mistake) from None
    if not array_operand.on_device:
        return array_operand.view
    device = device_of([x]) or 0
    with door.driver().inside(device):
        door.driver().wait(ArgumentStreams.of([x], device).current())
        view = array_operand.view
        return DeviceArray.over(address(view), view.shape, view.dtype, device, array_operand.value).get()


def _extents(shape: object) -> tuple[int, ...]:
    given = (shape,) if isinstance(shape, int) else tuple(cast("Sequence[object]", shape))
    if not all(isinstance(each, int | np.integer) and each >= 0 for each in given):
        raise at_call(BadShardSpec(f"{shape!r} is no shape", hint="write shape=(8192, 8192)"))
    return tuple(int(cast("int", each)) for each in given)


def read_dtype(x: object) -> DType:
    """Return the element type that is named: "bf16", `tessera.bf16`, or a dtype of NumPy.  Raises BadShardSpec."""
    dtype = dtype_of(x)
    if dtype is None:
        hint = f"choose from {', '.join(sorted(each.name for each in ALL))}"
        raise at_call(BadShardSpec(f"{x!r} is no type of elements", hint=hint))
    return dtype


def reshard(x: Tensor, layout: Distribution | Placement) -> Tensor:
    """Return a tensor in another layout, brought there by the cheapest collectives."""
    return x.reshard(layout)


def memory(*tensors: Tensor) -> MemoryPlan:
    """Return what each device sets aside for some tensors together.

    Raises MeshMemory where the devices' memory is known and does not suffice.
    """
    names = {each.name or f"tensor {number}": each.type for number, each in enumerate(tensors)}
    return MemoryPlan(tensors[0].mesh, names).require()


def _is_whole(index: object) -> bool:
    return index is Ellipsis or (isinstance(index, slice) and index == slice(None))


def _memory_of_host() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
