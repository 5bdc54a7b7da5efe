"""Handlers of the language's operations: one a name, found by `HANDLERS[intrinsic.name]`."""

from collections.abc import Callable
from typing import Final

from tessera.frontend.language.namespace import MATH
from tessera.frontend.operations import lane_operations as lanes
from tessera.frontend.operations import memory_operations as memory
from tessera.frontend.operations import tile_operations as tiles
from tessera.frontend.operations.extreme_positions import position_handler
from tessera.frontend.operations.scans import scan_handler

Handler = Callable[..., object]

HANDLERS: Final[dict[str, Handler]] = {
    "linear_id": lanes.linear_id,
    "lane_id": lanes.lane_id,
    "warp_id": lanes.warp_id,
    "thread_id": lanes.thread_id,
    "group_id": lanes.group_id,
    "group_linear_id": lanes.group_linear_id,
    "group_lanes": lanes.group_lanes,
    "grid_groups": lanes.grid_groups,
    "load": memory.load,
    "store": memory.store_,
    "scatter_add": memory.scatter_add,
    "alloc_shared": memory.alloc_shared,
    "copy_shared": memory.copy_shared,
    "cp_async": memory.copy,
    "barrier": memory.barrier,
    "dot": tiles.dot,
    "mma": tiles.mma,
    "mma_sync": tiles.mma_sync,
    "softmax": tiles.softmax,
    "relu": tiles.relu,
    "sum": tiles.reduction_handler("sum"),
    "max": tiles.reduction_handler("max"),
    "min": tiles.reduction_handler("min"),
    "argmax": position_handler("max"),
    "argmin": position_handler("min"),
    "cumsum": scan_handler("sum"),
    "cummax": scan_handler("max"),
    "cummin": scan_handler("min"),
    "maximum": tiles.maximum,
    "minimum": tiles.minimum,
    "mulhi": tiles.mulhi,
    "where": tiles.where,
    "valid": tiles.valid,
    "fill": tiles.fill,
    "fma": tiles.fma,
    "transpose": tiles.transpose,
    "reshape": tiles.reshape,
    "broadcast": tiles.broadcast,
    "arange": tiles.arange,
    "full": tiles.full,
    "zeros": tiles.zeros,
    "cast": tiles.cast,
    "warp_shuffle_down": lanes.shuffle_handler("down"),
    "warp_shuffle_up": lanes.shuffle_handler("up"),
    "warp_shuffle_xor": lanes.shuffle_handler("xor"),
    "warp_shuffle_idx": lanes.shuffle_handler("idx"),
    "cooperative_group": lanes.cooperative_group,
    **{name: tiles.unary_handler(name) for name in MATH},
}
