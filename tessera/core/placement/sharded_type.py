"""Print the placement of a value inside its type, and read it back: `bf16[8192@tp, 8192]{sum: dp}`.

Behind an extent stand the mesh axes that cut it, the slowest first: `8192@dp*tp`.  A cyclic distribution is
`8192@tp:cyclic`, in blocks of 64 `8192@tp:cyclic(64)`.  Braces hold a reduction that is still to be done, and the axes
along which the contributions lie.
"""

import math
import re
from dataclasses import dataclass
from typing import Final

from tessera.core.base.dtypes import BY_NAME, DType
from tessera.core.errors.base import TesseraError
from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import BadShardSpec
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.placement import REDUCTIONS, Placement, ShardMap
from tessera.core.placement.splits import Split

_TYPE: Final = re.compile(r"\s*(\w+)\s*\[([^\]]*)\]\s*(?:\{\s*(\w+)\s*:\s*([^}]*)\})?\s*")
_EXTENT: Final = re.compile(r"(\d+)(?:@(\w+(?:\*\w+)*)(?::(cyclic)(?:\((\d+)\))?)?)?")
_AXES: Final = re.compile(r"\w+(?:\s*,\s*\w+)*")


@dataclass(frozen=True, slots=True)
class ShardedType:
    """A type with a placement: dtype, shape, and how it lies on a mesh."""

    dtype: DType
    shape: tuple[int, ...]
    placement: Placement

    def __str__(self) -> str:
        extents = ", ".join(_extent(*each) for each in zip(self.shape, self.placement.splits, strict=True))
        partial = f"{{{self.placement.op}: {', '.join(self.placement.partial)}}}" if self.placement.partial else ""
        return f"{self.dtype}[{extents}]{partial}"

    def __repr__(self) -> str:
        return str(self)

    @classmethod
    def parse(cls, text: str) -> "ShardedType":
        """Read what `str` writes.  Raises BadShardSpec."""
        found = _TYPE.fullmatch(text)
        if found is None or found[1] not in BY_NAME:
            raise _unread(text)
        shape: list[int] = []
        splits: list[Split] = []
        for part in found[2].split(",") if found[2].strip() else []:
            each = _EXTENT.fullmatch(part.replace(" ", ""))
            if each is None or each[4] == "0":
                raise _unread(text)
            shape.append(int(each[1]))
            axes = tuple(each[2].split("*")) if each[2] else ()
            splits.append(Split(axes, int(each[4] or 1) if each[3] else 0))
        if not found[3]:
            return cls(BY_NAME[found[1]], tuple(shape), Placement(tuple(splits)))
        if found[3] not in REDUCTIONS or not _AXES.fullmatch(found[4].strip()):
            raise _unread(text)
        partial = tuple(each.strip() for each in found[4].split(","))
        return cls(BY_NAME[found[1]], tuple(shape), Placement(tuple(splits), partial, found[3]))

    def on(self, mesh: Mesh) -> ShardMap:
        """Return the map of the shards on a mesh.  Raises BadShardSpec, BadMesh."""
        return ShardMap.of(self.shape, self.placement, mesh)

    def bytes_on(self, mesh: Mesh) -> int:
        """Return the bytes that each device of a mesh sets aside: those of the largest shard."""
        return math.prod(self.on(mesh).padded_shape) * self.dtype.bytes


def _extent(extent: int, split: Split) -> str:
    if not split.axes:
        return str(extent)
    blocks = "" if not split.block else ":cyclic" if split.block == 1 else f":cyclic({split.block})"
    return f"{extent}@{'*'.join(split.axes)}{blocks}"


def _unread(text: str) -> TesseraError:
    hint = "write bf16[8192@tp, 8192]{sum: dp}: several axes as dp*tp, other distributions as @tp:cyclic(64)"
    return at_call(BadShardSpec(f"{text!r} is no type with a placement", hint=hint))
