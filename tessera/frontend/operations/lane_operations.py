"""Lanes: their indices, and what they exchange.

A handler takes the context, the span of the call, and the call's arguments by the names users may write.
"""

import math
from collections.abc import Callable
from typing import Final

from tessera.core.base import dtypes
from tessera.core.base.source import Span
from tessera.core.errors.catalog import AxesWithoutGroups, BadAxis, BadWidth, TypeMismatch
from tessera.core.program.program import Value
from tessera.core.program.types import Scalar
from tessera.frontend.base.bindings import CooperativeGroup
from tessera.frontend.base.context import Context
from tessera.frontend.base.describe import describe

Handler = Callable[..., object]
_I64: Final = Scalar(dtypes.i64)
_WARP: Final = 32


def _id(context: Context, span: Span, of: str, axis: object = None) -> Value:
    number = None if axis is None else context.builder.fixed(axis, "the axis", span)
    if number is not None and not 0 <= number <= 2:
        raise BadAxis(f"a grid has axes 0, 1 and 2, not {number}", span)
    if (
        number
        and of in ("lane", "thread")
        and (context.group is None or (context.chosen and number >= len(context.group)))
    ):
        context.builder.knowledge.spread(number + 1)
    if context.chosen:
        if of not in ("lane", "thread") or number is None:
            raise _groups_left_open(span)
        of = "thread"
    if of in ("lane", "thread", "lane_in_warp", "warp"):
        context.lane_ids = True
    if of in ("group", "grid_groups", "thread", "group_lanes"):
        context.group_ids = True
    if of == "group_lanes" and context.group is not None and number is None:
        return context.builder.constant(math.prod(context.group), dtypes.i64, span)
    group = context.group or ()
    if number is not None and len(group) > 1 and (*group, 1, 1)[number] == 1:
        # One lane along this axis: it is where its group is.  Said so, it is the same for all lanes of a group.
        if of == "lane":
            return context.builder.constant(0, dtypes.i64, span)
        of = "group" if of == "thread" else of
    return context.builder.value("id", (), _I64, span, of=of, axis=number)


def _groups_left_open(span: Span) -> AxesWithoutGroups:
    return AxesWithoutGroups(
        "the lanes of this kernel lie along several axes, and it does not say how large a group is", span,
        "write @kernel tile[(16, 16)], or @kernel(tile=(16, 16))",
    )  # fmt: skip


def linear_id(context: Context, span: Span, axis: object = None) -> Value:
    """`tile.linear_id()`: the lane's index within its group."""
    return _id(context, span, "lane", axis)


def lane_id(context: Context, span: Span) -> Value:
    """`tile.lane_id()`: the lane's index within its warp."""
    return _id(context, span, "lane_in_warp")


def warp_id(context: Context, span: Span) -> Value:
    """`tile.warp_id()`: the warp's index within its group."""
    return _id(context, span, "warp")


def thread_id(context: Context, span: Span, axis: object = None) -> Value:
    """`launch.thread_id()`: the lane's index within the launch."""
    return _id(context, span, "thread", axis)


def group_id(context: Context, span: Span, axis: object = None) -> Value:
    """`tile.group_id(axis)`: the group's index within the grid."""
    return _id(context, span, "group", axis)


def group_linear_id(context: Context, span: Span) -> Value:
    """`group_linear_id()`: the group's index within the grid."""
    return _id(context, span, "group")


def group_lanes(context: Context, span: Span) -> Value:
    """`group_tile_count()`: lanes in a group."""
    return _id(context, span, "group_lanes")


def grid_groups(context: Context, span: Span, axis: object = None) -> Value:
    """`grid_group_count()`: groups in the grid."""
    return _id(context, span, "grid_groups", axis)


def shuffle_handler(mode: str) -> Handler:
    """The handler of one way to exchange values: down, up, xor or idx."""

    def shuffle(context: Context, span: Span, value: object, amount: object, width: object = 32) -> Value:
        builder = context.builder
        if context.chosen:
            raise _groups_left_open(span)
        lanes = builder.fixed(width, "the width", span)
        if lanes not in (1, 2, 4, 8, 16, 32):
            raise BadWidth(f"a shuffle spans 1, 2, 4, 8, 16 or 32 lanes, not {lanes}", span)
        operand = builder.as_value(value, span)
        if not isinstance(operand.type, Scalar):
            raise TypeMismatch(f"shuffles exchange scalars, and this is {describe(operand)}", span)
        context.lane_ids = True
        return builder.value(
            "shuffle", (operand, builder.index(amount, span)), operand.type, span, mode=mode, width=lanes
        )

    shuffle.__doc__ = f"`tile.warp_shuffle_{mode}(value, amount)`."
    return shuffle


def cooperative_group(context: Context, span: Span, size: object) -> CooperativeGroup:
    """`tile.cooperative_group(size=64)`."""
    lanes = context.builder.fixed(size, "the size of a group", span)
    limit = math.prod(context.group) if context.group else 1024
    if lanes < 1 or lanes & (lanes - 1) or lanes > limit:
        raise BadWidth(f"a cooperative group has a power of two of lanes up to {limit}, not {lanes}", span)
    context.group_sizes.append(lanes)
    return CooperativeGroup(lanes)


def group_method(context: Context, span: Span, group: CooperativeGroup, name: str, *args: object) -> object:
    """`g.sync()`, `g.thread_rank()`, `g.size()`, `g.shuffle_down(v, n)`, ..."""
    if context.chosen:
        raise _groups_left_open(span)
    if name == "sync":
        context.lane_ids = True
        context.builder.emit("group_sync", (), (), span, (), size=group.size)
        return None
    if name == "size":
        return group.size
    if name == "thread_rank":
        return context.builder.binary("mod", _id(context, span, "lane"), group.size, span)
    if group.size > _WARP:
        raise BadWidth(
            f"lanes of a group of {group.size} are in several warps, which exchange no values by shuffles", span,
            f"use a group of {_WARP} lanes or fewer, or shared memory and g.sync()",
        )  # fmt: skip
    return shuffle_handler(name.removeprefix("shuffle_"))(context, span, *args, width=group.size)
