"""Tiles with named axes: values of a group as a kernel holds them, aligned and combined by their axes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tessera.core.base.dtypes import i64
from tessera.core.graph.expr import Apply, Argument, Expr, Literal, apply, fold
from tessera.core.graph.graph import Value as Tensor
from tessera.core.graph.index_maps import Affine
from tessera.core.program.build import ProgramBuilder, dtype_of, shape_of
from tessera.core.program.program import Value
from tessera.core.program.types import Scalar, Tile
from tessera.core.schedule.plan import Access


@dataclass(frozen=True, slots=True)
class Held:
    """A value in a kernel.  axes: the group's axis of each axis of the tile; none for a scalar."""

    value: Value
    axes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Arrays:
    """The parameters of a kernel: by the value of the graph that is read from each, and that is written to each."""

    read: Mapping[Tensor, Value]
    written: Mapping[Tensor, Value]


class Tiles:
    """Emits what works on tiles with axes.

    blocks: elements of a tile along each axis of the group; axes that it lacks have one, and no place in tiles
    index: where the tile begins along each axis
    """

    def __init__(self, builder: ProgramBuilder, blocks: Mapping[int, int]) -> None:
        self.builder = builder
        self.blocks = {axis: block for axis, block in blocks.items() if block > 1}
        self.index: dict[int, Value] = {}

    def shape(self, axes: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of a tile with these axes."""
        return tuple(self.blocks[axis] for axis in axes)

    def visible(self, axes: Sequence[int]) -> tuple[int, ...]:
        """Return those of the axes that tiles have."""
        return tuple(axis for axis in axes if axis in self.blocks)

    def align(self, held: Held, axes: Sequence[int]) -> Value:
        """Return a value as a tile of exactly these axes, in this order: permuted, and repeated along the others."""
        build = self.builder
        wanted = tuple(axes)
        order = sorted(range(len(held.axes)), key=lambda place: wanted.index(held.axes[place]))
        value = build.transpose(held.value, order) if held.axes else held.value
        if not held.axes:
            return build.full(value, self.shape(wanted))
        spread = tuple(self.blocks[axis] if axis in held.axes else 1 for axis in wanted)
        return build.broadcast(build.reshape(value, spread), self.shape(wanted))

    def matrix(self, held: Held, rows: Sequence[int], columns: Sequence[int]) -> Value:
        """Return a value as a matrix, of which several axes may be the rows or the columns.

        Where these come first, it is the transpose of a matrix: boxes of memory stay what they are.
        """
        shape = prod(self.shape(rows)), prod(self.shape(columns))
        if held.axes == (*columns, *rows) and rows and columns:
            return self.builder.transpose(self.builder.reshape(held.value, shape[::-1]), (1, 0))
        return self.builder.reshape(self.align(held, (*rows, *columns)), shape)

    def expression(self, body: Expr, operands: Sequence[Held], order: Sequence[int]) -> Held:
        """Apply an expression; parts of it have the axes of what they are made of, in the order `order`."""
        build = self.builder

        def leaf(each: Argument | Literal) -> Held:
            if isinstance(each, Argument):
                return operands[each.number]
            return Held(build.constant(each.value, each.dtype))

        def node(each: Apply, *parts: Held) -> Held:
            present = {axis for part in parts for axis in part.axes}
            axes = tuple(axis for axis in order if axis in present)
            if each.opcode == "select" and not parts[0].axes and axes:
                values = [parts[0].value, *(self.align(part, axes) for part in parts[1:])]
            else:
                values = [self.align(part, axes) for part in parts]
            shape = self.shape(axes)
            kind = Tile(each.dtype, shape) if shape else Scalar(each.dtype)
            more = {"predicate": each.predicate} if each.predicate else {}
            return Held(build.value(each.opcode, values, kind, **more), axes)

        made = fold(body, leaf, node)
        assert isinstance(made, Held)
        return made

    def reduce(self, held: Held, kept: Sequence[int], removed: Sequence[int], kind: str) -> Held:
        """Reduce axes as if they were one, in row-major order."""
        build = self.builder
        gone, stay = self.visible(removed), self.visible(kept)
        full = (*stay, *gone)
        if not gone:
            return Held(self.align(held, stay), stay)
        if len(gone) == 1 and set(held.axes) == set(full):
            axes = tuple(axis for axis in held.axes if axis != gone[0])
            return Held(build.reduce(held.value, kind, held.axes.index(gone[0])), axes)
        tile = build.reshape(self.align(held, full), (*self.shape(stay), prod(self.shape(gone))))
        return Held(build.reduce(tile, kind, len(stay)), stay)

    def within(self, held: Held, axes: Sequence[int], extents: Sequence[int]) -> Held:
        """Spread a value along axes that it lacks, with 0 behind their ends: only what is loaded is absent there."""
        build = self.builder
        dtype = held.value.type.dtype
        for axis in self.visible(axes):
            if axis in held.axes or extents[axis] % self.blocks[axis] == 0:
                continue
            place = Held(build.arange(self.index[axis], self.blocks[axis]), (axis,))
            end = Held(build.index(extents[axis]))
            inside = apply("cmp", Argument(1, i64), Argument(2, i64), predicate="lt")
            body = apply("select", inside, Argument(0, dtype), Literal(0.0 if dtype.is_float else 0, dtype))
            held = self.expression(body, [held, place, end], (*held.axes, axis))
        return held

    # Memory

    def start(self, affine: Affine) -> Value:
        """Return where a tile begins along one axis of an array."""
        build = self.builder
        total: Value | None = None
        for term in affine.terms:
            part = self.index[term.axis]
            if term.divisor != 1:
                part = build.arithmetic("floordiv", part, build.index(term.divisor))
            if term.modulus:
                part = build.arithmetic("mod", part, build.index(term.modulus))
            if term.scale != 1:
                part = build.arithmetic("mul", part, build.index(term.scale))
            total = part if total is None else build.arithmetic("add", total, part)
        if total is None:
            return build.index(affine.constant)
        return total if not affine.constant else build.arithmetic("add", total, build.index(affine.constant))

    def memory(self, access: Access) -> tuple[int, ...]:
        """Return the shape in which an array is passed: an axis that is read in steps of two as pairs."""
        shape: list[int] = []
        for size, step in zip(access.shape, access.steps or (1,) * len(access.shape), strict=True):
            shape += [size // step, step] if step > 1 else [size]
        return (*shape[:-2], shape[-2] * shape[-1]) if self._joins_last(access) else tuple(shape)

    def _joins_last(self, access: Access) -> bool:
        """Return whether the last element of a step and the last axis are passed as one axis: copies have five at most.

        Blocks of the last axis must not reach into what follows it then.
        """
        if len(access.steps) < 2 or access.steps[-2] == 1 or access.index[-1].axis is None:
            return False
        return access.shape[-1] % self.blocks.get(access.index[-1].axis, 1) == 0

    def _split(self, access: Access) -> list[tuple[Value, int | None]]:
        """Return where a tile begins along each axis of what is passed, and which axis of the tile that is."""
        build, found = self.builder, list[tuple[Value, int | None]]()
        for affine, step in zip(access.index, access.steps or (1,) * len(access.index), strict=True):
            blocked = [term.axis for term in affine.terms if term.axis in self.blocks]
            assert len(blocked) < 2, f"no box of an array's axis that is read along two blocks: {affine}"
            start, axis = self.start(affine), blocked[0] if blocked else None
            if step == 1:
                found.append((start, axis))
            else:
                found.append((build.arithmetic("floordiv", start, build.index(step)), axis))
                found.append((build.arithmetic("mod", start, build.index(step)), None))
        if self._joins_last(access):
            (rest, _), (start, axis) = found[-2:]
            rest = build.arithmetic("mul", rest, build.index(access.shape[-1]))
            found[-2:] = [(build.arithmetic("add", rest, start), axis)]
        return found

    def box(self, access: Access) -> tuple[list[Value], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Return where a tile begins, its extents, the array's axes that it lacks, and the axes that it has."""
        starts, axes = map(list, zip(*self._split(access), strict=True)) if access.index else ([], [])
        extents = tuple(1 if axis is None else self.blocks[axis] for axis in axes)
        dropped = tuple(place for place, axis in enumerate(axes) if axis is None)
        return starts, extents, dropped, tuple(axis for axis in axes if axis is not None)

    def load(self, array: Value, access: Access) -> Held:
        """Load a block of an array."""
        starts, extents, dropped, axes = self.box(access)
        build = self.builder
        if not axes:
            return Held(build.read(array, starts))
        held = Held(build.load(array, starts, extents, dropped), axes)
        return self.filled(held) if access.padded else held

    def filled(self, held: Held) -> Held:
        """Return a tile with 0 for what lies outside of its array."""
        build, dtype = self.builder, dtype_of(held.value)
        zero = build.constant(0.0 if dtype.is_float else 0, dtype)
        return Held(build.value("fill", (held.value, zero), held.value.type), held.axes)

    def store(self, array: Value, access: Access, held: Held) -> None:
        """Store a block of an array."""
        starts, extents, dropped, axes = self.box(access)
        value = self.align(held, axes)
        if shape_of(value):
            self.builder.store(array, value, starts, extents, dropped)
        else:
            self.builder.write(array, value, starts)


def unravelled(
    build: ProgramBuilder, linear: Value, shape: Sequence[int], number: Callable[[int], Value] | None = None
) -> tuple[Value, ...]:
    """Return the index along each axis of the element `linear` in row-major order; number: makes an index of one."""
    number = number or build.index
    found = list[Value]()
    for axis in reversed(range(len(shape))):
        if axis == 0:
            found.append(linear)
            break
        extent = number(shape[axis])
        found.append(build.arithmetic("mod", linear, extent))
        linear = build.arithmetic("floordiv", linear, extent)
    return tuple(reversed(found))
