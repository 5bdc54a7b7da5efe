"""The mesh view: devices in their enclosures, which block of an array each holds, and what a transfer moves."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final, cast

from tessera.core.base.plurals import counted
from tessera.core.placement.mesh import Mesh as PlacedMesh
from tessera.dist.tensors import Tensor
from tessera.viz.base.payload import Json, encode
from tessera.viz.base.subjects import wrong
from tessera.viz.base.view import View
from tessera.viz.mesh.model import Mesh, Shard, ShardedArray
from tessera.viz.mesh.placed import array_model, mesh_model

_PLAIN_ROWS: Final = 40
"""Transfers in the plain part; the rest is counted."""
_CELL: Final = "padding:1px 12px 1px 0;border:none;text-align:left"


@dataclass(frozen=True, slots=True)
class Transfer:
    """Bytes that one device sends another."""

    source: int
    destination: int
    size: int


@dataclass(frozen=True, slots=True)
class MeshModel:
    """A mesh, the array on it (None: the mesh alone), and the transfers that are shown."""

    mesh: Mesh
    array: ShardedArray | None = None
    transfers: tuple[Transfer, ...] = ()


def mesh_view(x: Mesh | ShardedArray | PlacedMesh | Tensor, *, to: ShardedArray | Tensor | None = None) -> "MeshView":
    """Show a mesh, or an array in blocks on its mesh; `to`, the same array in another layout, shows what moves.

    Raises NothingToShow for what is neither, and for arrays whose shards are no blocks, and ValueError where `to` is an
    array of another shape, type or mesh.
    """
    if isinstance(to, Tensor):
        to = _blocks(to)
    if isinstance(x, PlacedMesh):
        x = mesh_model(x)
    if isinstance(x, Tensor):
        x = _blocks(x)
    if isinstance(x, Mesh):
        return MeshView(MeshModel(x))
    if not isinstance(cast("object", x), ShardedArray):
        raise wrong(
            "mesh_view", "a mesh or an array dealt over one", x, "give a Mesh or sharded(...) of tessera.viz.mesh.model"
        )
    return MeshView(MeshModel(x.mesh, x, transfers(x, to) if to is not None else ()))


def _blocks(tensor: Tensor) -> ShardedArray:
    found = array_model(tensor)
    if found is None:
        raise wrong("mesh_view", "an array in blocks", tensor, "reshard it to a block distribution")
    return found


def transfers(before: ShardedArray, after: ShardedArray) -> tuple[Transfer, ...]:
    """Return what devices must send each other so that each holds its block of `after`.

    A device keeps what it has; what it lacks comes from the holder with the lowest number after its own, so that
    replicas share the work.
    """
    if (before.shape, before.dtype, before.mesh) != (after.shape, after.dtype, after.mesh):
        raise ValueError("a transfer is between two layouts of one array on one mesh")
    found: list[Transfer] = []
    for wanted in after.shards:
        own = before.shards[wanted.device]
        missing = wanted.elements - _common(own, wanted)
        if not missing:
            continue
        for block in _distinct_blocks(before.shards, wanted.device):
            if (block.start, block.stop) == (own.start, own.stop):
                continue
            size = (_common(block, wanted)) * before.itemsize
            if size:
                found.append(Transfer(block.device, wanted.device, size))
    return tuple(found)


def _distinct_blocks(shards: Sequence[Shard], near: int) -> list[Shard]:
    """Return each block once, held by the device nearest above `near`, around the end."""
    chosen: dict[tuple[tuple[int, ...], tuple[int, ...]], Shard] = {}
    for offset in range(len(shards)):
        shard = shards[(near + offset) % len(shards)]
        chosen.setdefault((shard.start, shard.stop), shard)
    return list(chosen.values())


def _common(a: Shard, b: Shard) -> int:
    return math.prod(
        max(0, min(end, other_end) - max(begin, other_begin))
        for begin, end, other_begin, other_end in zip(a.start, a.stop, b.start, b.stop, strict=True)
    )


class MeshView(View[MeshModel]):
    """Devices, shards and transfers."""

    kind = "mesh"

    @property
    def title(self) -> str:
        """The mesh, or the array on it."""
        array, mesh = self.data.array, self.data.mesh
        axes = " x ".join(f"{axis.name} {axis.size}" for axis in mesh.axes)
        return f"{array.name} {array.dtype}{list(array.shape)} on {mesh.name}" if array else f"{mesh.name}: {axes}"

    def text(self) -> str:
        """Return one line."""
        array, mesh = self.data.array, self.data.mesh
        axes = ", ".join(f"{axis.name}={axis.size}" for axis in mesh.axes)
        name = mesh.name if mesh.name.startswith("mesh") else f"mesh {mesh.name}"
        line = f"{name}({axes}), {counted(len(mesh.devices), 'device')}"
        if array is None:
            return line
        spec = ", ".join("*".join(entry) or "-" for entry in array.spec)
        held = max((array.bytes_of(shard) for shard in array.shards), default=0)
        return (
            f"{array.name}: {array.dtype}{list(array.shape)} over ({spec}) of {line}, at most {held:,} bytes a device"
        )

    def plain_html(self) -> str:
        """Return a table of devices, shards and transfers."""
        return f"<div><b>{escape(self.title)}</b></div>{_table(self._rows())}{_table(self._transfer_rows())}"

    def payload(self) -> Json:
        """Return the model, with the bytes of each shard."""
        array = self.data.array
        return {
            "title": self.title,
            "text": self.text(),
            "mesh": encode(self.data.mesh),
            "array": encode(array),
            "bytes": [array.bytes_of(shard) for shard in array.shards] if array else [],
            "transfers": encode(self.data.transfers),
        }

    def _rows(self) -> list[list[str]]:
        array, mesh = self.data.array, self.data.mesh
        rows = [["device", "place", "in", *(["block", "bytes"] if array else [])]]
        for device in mesh.devices:
            place = ", ".join(f"{axis.name} {index}" for axis, index in zip(mesh.axes, device.place, strict=True))
            row = [str(device.number), place, device.enclosure]
            if array is not None:
                shard = array.shards[device.number]
                block = ", ".join(f"{a}:{b}" for a, b in zip(shard.start, shard.stop, strict=True))
                row += [f"[{block}]", f"{array.bytes_of(shard):,}"]
            rows.append(row)
        return rows

    def _transfer_rows(self) -> list[list[str]]:
        shown = self.data.transfers[:_PLAIN_ROWS]
        rows = [[str(each.source), str(each.destination), f"{each.size:,}"] for each in shown]
        left = len(self.data.transfers) - len(shown)
        more = [[f"and {left:,} more", "", ""]] if left else []
        return [["from device", "to device", "bytes"], *rows, *more] if rows else []


def _table(rows: list[list[str]]) -> str:
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f'<table style="margin:4px 0;border-collapse:collapse">{body}</table>' if rows else ""


def _cell(text: str) -> str:
    return f'<td style="{_CELL}">{escape(text)}</td>'
