"""The layout view's model: grids of numbers (lane, warp, register, bank, offset), formulas, and accesses to banks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tessera.core.base.plurals import counted
from tessera.core.errors.catalog import NothingToShow
from tessera.core.layouts import BANK_BYTES, BANKS, Layout
from tessera.core.program.program import Program
from tessera.core.program.types import Shared
from tessera.core.record import OpRecord
from tessera.core.schedule.tile_schedule import CARRIED, COPIED, LAYOUT, PIPELINE, PREFIX
from tessera.session.compiled import Compiled
from tessera.viz.base.payload import Numbers
from tessera.viz.layouts.banks import Access, BankReport, SharedLayout, bank_report, usual_accesses
from tessera.viz.layouts.formulas import element_formula, place_formula
from tessera.viz.layouts.fragments import OPERANDS, Fragment

MOST_GRIDS: Final = 16
MOST_ELEMENTS: Final = 1 << 16
_LINE: Final = 128
_FOLDED: Final = 64
"""Columns of a vector, which is folded."""
_SHOWN: Final = 12


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A number for each element of a grid: what cells are coloured by; -1 where there is none."""

    name: str
    values: Numbers


@dataclass(frozen=True, slots=True)
class AccessModel:
    """An access of a warp to shared memory.

    first: for each lane the element where it begins; together: elements that it moves
    degree: how many times as long it takes as without bank conflicts; colliding: lanes that wait or are waited for
    rows: bank, lanes that are served together, and the lanes that want each of its words
    """

    name: str
    size: int
    degree: int
    first: tuple[int, ...]
    together: int
    colliding: tuple[int, ...]
    rows: tuple[tuple[str, str, str], ...]

    @property
    def text(self) -> str:
        """One line."""
        return f"{self.name}: {degree_text(self.degree)}"


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """One layout.

    kind: "registers" or "shared"; shape: of the tile; columns: of the grid, whose rows go on in row-major order
    forward, backward: the formulas; facts: in words
    held: of layouts in registers, for each lane of each warp the elements that it holds, in words
    lines, ops: of the user's file and of the Program, that it belongs to
    """

    title: str
    kind: str
    shape: tuple[int, ...]
    columns: int
    fields: tuple[Field, ...]
    forward: str
    backward: str
    facts: tuple[str, ...]
    held: tuple[tuple[str, str, str], ...] = ()
    accesses: tuple[AccessModel, ...] = ()
    lines: tuple[int, ...] = ()
    ops: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class LayoutModel:
    """One or more layouts; left_out: what is not shown, in words."""

    title: str
    grids: tuple[Grid, ...]
    left_out: tuple[str, ...] = ()


def degree_text(degree: int) -> str:
    """Say how bad bank conflicts are."""
    return "no bank conflict" if degree == 1 else f"{degree}-way bank conflict"


def register_grid(
    layout: Layout, title: str, shape: Sequence[int] = (), lines: Sequence[int] = (), ops: Sequence[int] = ()
) -> Grid:
    """Return the grid of a tile in registers.

    shape: of the tile, where the layout is that of the tile padded to powers of two; empty: the layout's own
    """
    shape = tuple(shape) or layout.shape
    size, real = prod(layout.shape), _inside(layout.shape, shape)
    lane, warp, register = (np.full(size, -1, np.int16) for _ in range(3))
    held: list[tuple[str, str, str]] = []
    counts: set[int] = set()
    for w in range(1 << len(layout.warps)):
        for n in range(1 << len(layout.lanes)):
            own = [(r, layout.element(r, n, w)) for r in range(layout.count)]
            own = [(r, element) for r, element in own if real[element]]
            counts.add(len(own))
            for r, element in own:
                if lane[element] < 0:
                    lane[element], warp[element], register[element] = n, w, r
            places = [np.unravel_index(element, layout.shape) for _, element in own[:_SHOWN]]
            told = " ".join(f"[{','.join(str(int(i)) for i in place)}]" for place in places)
            held.append((str(w), str(n), told + (f" and {len(own) - _SHOWN:,} more" if len(own) > _SHOWN else "")))
    names = ("lane", "register", "warp")
    fields = tuple(Field(name, each[real]) for name, each in zip(names, (lane, register, warp), strict=True))
    copies = 1 << sum(not basis for basis in (*layout.lanes, *layout.warps))
    warps = counted(1 << len(layout.warps), "warp")
    most = f"{'at most ' if len(counts) > 1 else ''}{counted(max(counts), 'element')} a lane"
    facts = [f"{most}, {counted(1 << len(layout.lanes), 'lane')}, {warps}"]
    if copies > 1:
        facts.append(f"{copies} lanes or warps hold each element; the first is shown")
    if shape != layout.shape:
        facts.append(f"registers hold a tile padded to {' x '.join(map(str, layout.shape))}")
    return Grid(
        title, "registers", shape, _columns(shape), fields, element_formula(layout), place_formula(layout),
        tuple(facts), tuple(held), (), tuple(lines), tuple(ops),
    )  # fmt: skip


def _inside(padded: Sequence[int], shape: Sequence[int]) -> NDArray[np.bool_]:
    """Return which elements of a padded tile, in row-major order, there are in the tile itself."""
    inside = np.zeros(tuple(padded), np.bool_)
    inside[tuple(map(slice, shape))] = True
    return inside.reshape(-1)


def shared_grid(
    layout: SharedLayout, title: str, accesses: Sequence[Access] | None = None, lines: Sequence[int] = (),
    ops: Sequence[int] = (),
) -> Grid:  # fmt: skip
    """Return the grid of a tile in shared memory; `accesses` None: the usual ones."""
    offsets = np.asarray(
        [layout.offset(row, column) for row in range(layout.rows) for column in range(layout.columns)], np.int32
    )
    banks = (offsets // BANK_BYTES % BANKS).astype(np.int16)
    models = tuple(access_model(layout, each) for each in (usual_accesses(layout) if accesses is None else accesses))
    forward, backward = layout.formula()
    worst = max((each.degree for each in models), default=1)
    facts = (
        f"{BANKS} banks of {BANK_BYTES} bytes; elements of {layout.itemsize} bytes",
        *([f"worst of these accesses: {degree_text(worst)}"] if models else []),
    )
    shape = layout.shape
    fields = (
        Field("bank", banks),
        Field("offset in bytes", offsets),
        Field("16-byte unit", offsets // 16 % (_LINE // 16)),
    )
    return Grid(
        title, "shared", shape, _columns(shape), fields, forward, backward, facts, (), models, tuple(lines), tuple(ops)
    )


def access_model(layout: SharedLayout, access: Access) -> AccessModel:
    """Return an access with its bank conflicts.  Raises ValueError for places outside the tile."""
    for row, column in access.places:
        if not (0 <= row < layout.rows and 0 <= column < layout.columns):
            raise ValueError(f"{access.name}: [{row}, {column}] is outside a tile of {layout.rows} x {layout.columns}")
    report = bank_report([layout.offset(row, column) for row, column in access.places], access.size)
    first = tuple(row * layout.columns + column for row, column in access.places)
    together = max(1, access.size // layout.itemsize)
    return AccessModel(access.name, access.size, report.degree, first, together, report.colliding, tuple(_rows(report)))


def _rows(report: BankReport) -> Iterator[tuple[str, str, str]]:
    for part in report.served:
        for use in part.conflicts:
            lanes = "; ".join(
                f"word {word}: {'lanes' if len(own) > 1 else 'lane'} {', '.join(map(str, own))}"
                for word, own in use.words
            )
            yield str(use.bank), f"{part.lanes[0]} to {part.lanes[1] - 1}", lanes


def fragment_model(
    fragments: Sequence[Fragment], title: str, shared: Sequence[tuple[SharedLayout, str]] = ()
) -> LayoutModel:
    """Return operands of an MMA instruction: those in registers, and those in shared memory."""
    grids = [
        register_grid(
            each.layout, each.title, (each.layout.shape[0], each.columns) if each.operand == "accumulator" else ()
        )
        for each in fragments
    ]
    return LayoutModel(title, (*grids, *(shared_grid(layout, name) for layout, name in shared)))


def instruction_model(name: str, operand: str | None, dtype: str | None) -> LayoutModel:
    """Return one operand of an instruction, or all (None).  Raises ValueError for an instruction that there is not."""
    if operand is not None:
        found = Fragment.of(name, operand, dtype)
        return fragment_model([found], found.title)
    accumulator = Fragment.of(name, "accumulator", dtype)
    m, n, k = accumulator.shape
    title = f"{accumulator.instruction}.m{m}n{n}k{k}, factors {accumulator.dtype}"
    if accumulator.instruction != "wgmma":
        return fragment_model([Fragment.of(name, each, dtype) for each in OPERANDS], title)
    # B, and A where it is not in registers, lies in shared memory with k as the fastest axis: a panel of 128 bytes.
    size = 32 // k
    panel = SharedLayout((n, _LINE // size), size, _LINE)
    registers = [Fragment.of(name, each, dtype) for each in ("A", "accumulator")]
    return fragment_model(
        registers, title, [(panel, f"B in shared memory, {n} columns of {_LINE // size} along k, swizzle 128 B")]
    )


def compiled_model(compiled: Compiled) -> LayoutModel:
    """Return the layouts that the compiler chose for tiles in registers and in shared memory.

    Raises NothingToShow where there are none, as on a CPU.
    """
    grids: list[Grid] = []
    seen: set[tuple[Layout, str]] = set()
    last = [stage for stage in compiled.stages if stage.level == "tile"]
    records = last[-1].records if last else ()
    wanted = [found for attribute in (LAYOUT, CARRIED) for record in records for found in _of_record(record, attribute)]
    wanted.sort(key=lambda found: not found[3])  # variables of the user's come first
    left = 0
    for layout, record, name, _, shape in wanted:
        if (layout, name) in seen:
            continue
        seen.add((layout, name))
        if prod(layout.shape) > MOST_ELEMENTS or len(grids) >= MOST_GRIDS:
            left += 1
            continue
        grids.append(register_grid(layout, name, shape, [span.line for span in record.spans], record.numbers))
    for shared, name, lines, ops in (*_staged(records), *_allocated(compiled.program)):
        if len(grids) < MOST_GRIDS and prod(shared.shape) <= MOST_ELEMENTS:
            grids.append(shared_grid(shared, name, None, lines, ops))
        else:
            left += 1
    if not grids:
        message = f"{compiled.name}, compiled for {compiled.target.name}, has no tile in registers or in shared memory"
        hint = "only kernels that compute whole tiles (`x[i:i+128]`) or call tshared.alloc have layouts"
        if not compiled.target.kind.on_gpu:
            hint = 'compile it for a GPU, which needs none: layout(kernel.compile(target="cuda"))'
        raise NothingToShow(message, compiled.program.span, hint=hint).with_source(compiled.program.source)
    said = (f"{left} more layouts are not shown",) if left else ()
    return LayoutModel(f"layouts of {compiled.name}", tuple(grids), said)


def _of_record(record: OpRecord, attribute: str) -> Iterator[tuple[Layout, OpRecord, str, bool, tuple[int, ...]]]:
    """Yield layouts of an operation's tiles: of the padded tile, what it is, whether the user named it, its shape."""
    text = record.attributes.get(PREFIX + attribute)
    texts = [text] if isinstance(text, str) else list(text) if isinstance(text, tuple) else []
    tiles = [value for value in record.results if value.type.startswith("tile<")]
    for value, one in zip(tiles, texts, strict=False):
        shape = tuple(extent for extent in value.shape if isinstance(extent, int))
        if isinstance(one, str) and len(shape) == len(value.shape):
            what = value.name or record.name.removeprefix("tessera.")
            line = f", line {record.spans[0].line}" if record.spans else ""
            begins = " as the loop begins" if attribute == CARRIED else ""
            layout = Layout.parse(one, tuple(1 << (extent - 1).bit_length() for extent in shape))
            yield layout, record, f"{what} {value.type}{begins}{line}", bool(value.name), shape


def _staged(records: Sequence[OpRecord]) -> Iterator[tuple[SharedLayout, str, list[int], tuple[int, ...]]]:
    """Yield the tiles that loads copy ahead into shared memory: panels of at most 128 bytes a row, swizzled by them."""
    for record in records:
        if record.attributes.keys().isdisjoint((PREFIX + PIPELINE, PREFIX + COPIED)) or not record.results:
            continue
        value = record.results[0]
        size = _itemsize(value.type)
        shape = tuple(extent for extent in value.shape if isinstance(extent, int))
        rows, columns = (prod(shape[:-1]), shape[-1]) if shape else (1, 1)
        width = min(_LINE, columns * size)
        if size and width in (32, 64, 128) and columns * size % width == 0:
            line = f", line {record.spans[0].line}" if record.spans else ""
            name = f"{value.name or 'load'} {value.type} in shared memory, swizzle {width} B{line}"
            yield SharedLayout((rows, columns), size, width), name, [span.line for span in record.spans], record.numbers


def _itemsize(kind: str) -> int:
    digits = "".join(c for c in kind.rstrip(">").rsplit("x", 1)[-1].split("E")[0] if c.isdigit())
    return int(digits) // 8 if digits else 0


def _allocated(program: Program) -> Iterator[tuple[SharedLayout, str, list[int], tuple[int, ...]]]:
    """Yield the buffers that the kernel allocates itself."""
    for number, op in enumerate(program.body.walk()):
        kind = op.results[0].type if op.results else None
        if op.opcode == "alloc" and isinstance(kind, Shared) and kind.shape:
            shape = kind.shape if len(kind.shape) < 3 else (prod(kind.shape[:-1]), kind.shape[-1])
            swizzle = "xor" if kind.swizzle else 0
            name = f"{op.result.name or 'shared'} {kind}, line {op.span.line}"
            yield SharedLayout(shape, kind.dtype.bytes, swizzle), name, [op.span.line], (number,)


def named_accesses(
    layout: SharedLayout, accesses: Mapping[str, Sequence[Sequence[int]]], size: int
) -> tuple[Access, ...]:
    """Return accesses of the user's: for each lane the indices of its element.  Raises ValueError for other ranks."""
    found: list[Access] = []
    for name, places in accesses.items():
        if any(len(place) != len(layout.shape) for place in places):
            raise ValueError(f"{name}: each lane has {len(layout.shape)} indices, as the tile has axes")
        found.append(Access(name, size, tuple((place[0] if len(place) > 1 else 0, place[-1]) for place in places)))
    return tuple(found)


def _columns(shape: Sequence[int]) -> int:
    if len(shape) > 1:
        return shape[-1]
    return min(shape[0], _FOLDED)
