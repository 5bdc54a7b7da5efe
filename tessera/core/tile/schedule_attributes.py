"""The schedule of a tile kernel in Tile IR: which attributes passes may leave on which operations, and their values.

    %a = tessera.load %A[...] : tile<128x64xbf16> pipeline 0
    %acc_1 = tessera.dot %a, %b, %acc : tile<128x256xf32> layout registers [1:1, 0:8, ...] instruction wgmma

`SCHEDULE_ATTRIBUTES` is the table; what is chosen for the kernel as a whole is one attribute of the function, see
`core.tile.tile_schedule`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.layouts import Layout
from tessera.core.mlir import AnyOp, ir
from tessera.core.schedule.tile_schedule import CARRIED, COPIED, LAYOUT, PIPELINE, PREFIX, SCHEDULE, TileSchedule

INSTRUCTION, IN_FLIGHT, OVERLAPS, PIPELINED, ISSUED = "instruction", "in_flight", "overlaps", "pipelined", "issued"
ROUNDED, PADDED, BEGINS, SHARED = "rounded", "padded_rows", "begins", "shared"
STORED, DEFERRED, STREAMED, SKIPPED, REFUSED = "stored", "deferred", "streamed", "skipped", "refused"
WGMMA, MMA, FMA = "wgmma", "mma", "fma"
BY_GROUPS, BY_ALL = "by each warpgroup", "by the consumer warps"
DEFER: Final = "into the next group's main loop"
DEFER_BY_ROWS: Final = f"{DEFER}, row by row"


@dataclass(frozen=True, slots=True)
class AttributeRule:
    """An attribute that a pass may leave on an operation.

    operations: where it may stand; none: on every operation that makes a tile
    legal: its texts; none: a number from 0 on, or (of layouts) a text that `Layout.parse` reads
    """

    operations: tuple[str, ...]
    legal: tuple[str, ...] = ()


_DOT, _LOAD, _STORE = "tessera.dot", "tessera.load", "tessera.store"
SCHEDULE_ATTRIBUTES: Final[Mapping[str, AttributeRule]] = {
    # What multiplies, and when.
    INSTRUCTION: AttributeRule((_DOT,), (WGMMA, MMA, FMA)),
    IN_FLIGHT: AttributeRule((_DOT,), ("into the next iteration",)),
    OVERLAPS: AttributeRule((_DOT,), ("the next iteration's first MMA",)),
    PIPELINED: AttributeRule((_DOT,), ("an iteration ahead",)),
    ISSUED: AttributeRule((_DOT,), ("an iteration early",)),
    SKIPPED: AttributeRule(("arith.mulf",), ("where they are one",)),
    # Who loads, and from where.
    PIPELINE: AttributeRule((_LOAD,)),
    COPIED: AttributeRule((_LOAD,), ("by the consumer warps",)),
    ROUNDED: AttributeRule((_LOAD,), ("to tf32",)),
    PADDED: AttributeRule((_LOAD,), ("before the kernel",)),
    SHARED: AttributeRule((_LOAD,), ("by the cluster",)),
    BEGINS: AttributeRule((_LOAD, _STORE), ("anywhere",)),
    STREAMED: AttributeRule(("tessera.reduce",), ("128 rows at a time",)),
    # The epilogue.
    STORED: AttributeRule((_STORE,), (BY_GROUPS, BY_ALL)),
    DEFERRED: AttributeRule((_STORE,), (DEFER, DEFER_BY_ROWS)),
    # Where tiles lie: of a loop, `layout` is of its results, and `carried` of what its body begins with, where these
    # are not the same.
    LAYOUT: AttributeRule(()),
    CARRIED: AttributeRule(("scf.for",)),
}
"""Every attribute of the schedule but the function's own, by its name without the dialect's."""


def mark(op: AnyOp, name: str, value: str | int | Sequence[str]) -> None:
    """Leave an attribute of the schedule on an operation."""
    if isinstance(value, int):
        attribute = _number(value)
    elif isinstance(value, str):
        attribute = ir.StringAttr.get(value)
    else:
        attribute = ir.ArrayAttr.get([ir.StringAttr.get(one) for one in value])
    op.attributes[PREFIX + name] = attribute


def mark_only(op: AnyOp, name: str) -> None:
    """Leave an attribute that has one legal value."""
    (value,) = SCHEDULE_ATTRIBUTES[name].legal
    mark(op, name, value)


def unmark(op: AnyOp, name: str) -> None:
    """Remove an attribute of the schedule, if it is there."""
    if is_marked(op, name):
        del op.attributes[PREFIX + name]


def is_marked(op: AnyOp, name: str) -> bool:
    """Return whether an operation has an attribute of the schedule."""
    return PREFIX + name in op.attributes


def marked(operations: Sequence[AnyOp], name: str) -> list[AnyOp]:
    """Return the operations that have an attribute of the schedule, in order."""
    key = PREFIX + name
    return [op for op in operations if key in op.attributes]


def text_of(op: AnyOp, name: str) -> str:
    """Return an attribute that is a text; "" where it is not there."""
    key = PREFIX + name
    return str(ir.StringAttr(op.attributes[key]).value) if key in op.attributes else ""


def number_of(op: AnyOp, name: str) -> int:
    """Return an attribute that is a number."""
    return int(ir.IntegerAttr(op.attributes[PREFIX + name]).value)


def own_attributes(op: AnyOp) -> dict[str, ir.Attribute]:
    """Return what says what an operation computes: its attributes without those of the dialect's passes."""
    return {name: op.attributes[name] for name in op.attributes if not name.startswith(PREFIX)}


# -- the function's ----------------------------------------------------------------------------------------------


def schedule_of(function: AnyOp) -> TileSchedule:
    """Return what the function's attribute says, or the defaults where there is none.

    Raises:
        ValueError: it is not legal.
    """
    if SCHEDULE not in function.attributes:
        return TileSchedule()
    entries = ir.DictAttr(function.attributes[SCHEDULE])
    return TileSchedule.parse({entry.name: _plain(entry.attr) for entry in entries})


def set_schedule(function: AnyOp, schedule: TileSchedule) -> None:
    """Make `schedule` the function's attribute."""
    function.attributes[SCHEDULE] = ir.DictAttr.get({
        name: ir.BoolAttr.get(value) if isinstance(value, bool) else _number(value)
        for name, value in schedule.entries().items()
    })  # fmt: skip


def _number(value: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)


def _plain(attribute: ir.Attribute) -> object:
    if isinstance(attribute, ir.BoolAttr):
        return bool(attribute.value)
    return int(attribute.value) if isinstance(attribute, ir.IntegerAttr) else str(attribute)


# -- layouts -----------------------------------------------------------------------------------------------------


def set_layouts(op: AnyOp, name: str, layouts: Sequence[Layout | None]) -> None:
    """Write down the layouts of what an operation makes; None: of what is no tile."""
    texts = ["" if layout is None else layout.text() for layout in layouts]
    if any(texts):
        mark(op, name, texts[0] if len(texts) == 1 else texts)


def layouts_of(op: AnyOp, name: str, shapes: Sequence[tuple[int, ...] | None]) -> list[Layout | None]:
    """Return the layouts that `set_layouts` wrote, of tiles of these extents.

    Raises:
        ValueError: a text is not that of a layout, or there are not as many as values.
    """
    attribute = op.attributes[PREFIX + name]
    found = list(attribute) if isinstance(attribute, ir.ArrayAttr) else [attribute]
    texts = [str(ir.StringAttr(one).value) for one in found]
    if len(texts) != len(shapes):
        message = f"`{name}` has {len(texts)} layouts for {len(shapes)} values"
        raise ValueError(message)
    return [
        None if shape is None or not text else Layout.parse(text, shape)
        for text, shape in zip(texts, shapes, strict=True)
    ]
