"""`tessera.dot` on the tensor cores that every GPU from sm_80 on has: 16 x 8 elements a warp and instruction.

Factors come from shared memory by `ldmatrix`, 16 rows and 16 of K at a time, and are loaded one step ahead of the
products that use them.  The left factor may be in registers: sums of one product are laid out as factors of the next.
"""

from collections.abc import Sequence
from typing import Any, Final

from tessera.core.layouts import Layout, accumulator, coordinates
from tessera.lowering.target.cuda.build import Build
from tessera.lowering.target.cuda.tiles.assembly_warp import load_matrices, multiply
from tessera.lowering.target.cuda.tiles.parking import Host, shared_factors
from tessera.lowering.target.cuda.tiles.shared_access import Cursor
from tessera.lowering.target.cuda.tiles.stages import SharedTile
from tessera.lowering.target.cuda.tiles.team import Team
from tessera.lowering.target.cuda.tiles.values import RegisterTile, pack

_STEP: Final = 16
_EIGHT: Final = 8
_WARP_BITS: Final = 5
_SUMS: Final = 4

Fragments = list[list[Any]]


def dot(host: Host, op: Any) -> None:
    """`a b`, or `acc + a b`: f32 sums of 16-bit factors."""
    build = host.build
    layout = host.layout(op.results[0])
    a_value, b_value, *sums = op.operands
    blocks = _Blocks.of(layout)
    left = _left(host, a_value, layout, blocks)
    zeros = (build.constant(0.0, "f32"),) * layout.count
    values = list(host.tile(sums[0], layout).values if sums else zeros)
    with shared_factors(host, [b_value]) as (factor,):
        # Lanes may have come out of a wait at different times; the instructions below are for whole warps.
        build.create("nvvm.bar.warp.sync", [build.word(-1)])
        right = _Right(build, host.team, factor, blocks)
        _multiply(build, op, blocks, left, right, values)
    # What frees the factors' memory is done by one lane of each warp: all have read by then.
    build.create("nvvm.bar.warp.sync", [build.word(-1)])
    host.define(op.results[0], RegisterTile(layout, "f32", tuple(values)))


def _multiply(
    build: Build, op: Any, blocks: "_Blocks", left: "_Left | _InRegisters", right: "_Right", values: list[Any]
) -> None:
    """Add all products to `values`."""
    depth, element = op.operands[0].type.shape[1], str(op.operands[0].type.element_type)
    ahead = (left.fragments(0), right.fragments(0))
    for step in range(0, depth, _STEP):
        a, b = ahead
        if step + _STEP < depth:
            ahead = (left.fragments(step + _STEP), right.fragments(step + _STEP))
        for row in range(len(blocks.rows)):
            for column in range(len(blocks.columns)):
                first = (row * len(blocks.columns) + column) * _SUMS
                mine = values[first : first + _SUMS]
                values[first : first + _SUMS] = multiply(build, element, a[row], b[column], mine)


class _Blocks:
    """The first rows and columns of a warp's blocks of 16 x 8, relative to the warp's own first ones."""

    def __init__(self, layout: Layout, rows: list[int], columns: list[int]) -> None:
        self.layout = layout
        self.rows = rows
        self.columns = columns

    @classmethod
    def of(cls, layout: Layout) -> "_Blocks":
        """Registers are in order of columns, then rows, four sums a block."""
        places = [coordinates(layout.element(register), layout.shape) for register in range(0, layout.count, _SUMS)]
        columns = [column for row, column in places if row == places[0][0]]
        return cls(layout, [row for row, column in places if column == places[0][1]], columns)

    def warp(self, team: Team, axis: int) -> Any:
        """The index of this warp's first row or column."""
        layout = self.layout
        return team.places(Layout(layout.shape, (), (0,) * _WARP_BITS, layout.warps)).parts(0)[0][axis]


class _Reader:
    """Fragments of a factor in shared memory.

    halves: which bits of a lane's number, 3 or 4, say in which half of the 16 rows and of the 16 of K its matrix is
    """

    def __init__(
        self, build: Build, team: Team, tile: SharedTile, first: Any, halves: tuple[int, int], *, left: bool
    ) -> None:
        # Whether K is the axis that lies contiguous.
        self._along = tile.transposed != left
        self._build = build
        lane = team.thread
        outer, inner = (build.mul(build.bits(build.divide(lane, 1 << bit), 1), _EIGHT) for bit in halves)
        line = build.bits(lane, _EIGHT - 1)
        if self._along:
            self._cursor = Cursor(build, tile, build.add(build.add(first, outer), line), inner)
        else:
            self._cursor = Cursor(build, tile, build.add(inner, line), build.add(first, outer))

    def load(self, outer: int, step: int, count: int) -> list[Any]:
        """`count` matrices: rows (or columns) from `outer` and K from `step` on."""
        address, offset = self._cursor.at(outer, step) if self._along else self._cursor.at(step, outer)
        return load_matrices(self._build, address, offset, count, transposed=not self._along)


class _Left:
    """A left factor in shared memory: for each block of 16 rows (0-7, 8-15) x (K 0-7, 8-15)."""

    def __init__(self, build: Build, team: Team, tile: SharedTile, blocks: _Blocks) -> None:
        self._rows = blocks.rows
        self._reader = _Reader(build, team, tile, blocks.warp(team, 0), (3, 4), left=True)

    def fragments(self, step: int) -> Fragments:
        """Four i32 for each block of rows."""
        return [self._reader.load(row, step, 4) for row in self._rows]


class _Right:
    """A right factor in shared memory: for each block of 8 columns, K 0-7 and 8-15; two blocks are read at a time."""

    def __init__(self, build: Build, team: Team, tile: SharedTile, blocks: _Blocks) -> None:
        self._columns = blocks.columns
        self._reader = _Reader(build, team, tile, blocks.warp(team, 1), (4, 3), left=False)

    def fragments(self, step: int) -> Fragments:
        """Two i32 for each block of columns."""
        found: Fragments = []
        if len(self._columns) == 1:
            return [self._reader.load(self._columns[0], step, 2)]
        for column in self._columns[::2]:
            words = self._reader.load(column, step, 4)
            found += [words[:2], words[2:]]
        return found


class _InRegisters:
    """A left factor in registers, laid out as sums are."""

    def __init__(self, build: Build, tile: RegisterTile, count: int) -> None:
        self._words = [pack(build, tile.values[n : n + 2]) for n in range(0, len(tile.values), 2)]
        self._block = len(self._words) // count
        self._count = count

    def fragments(self, step: int) -> Fragments:
        """Four i32 for each block of rows."""
        firsts = [block * self._block + step // 4 for block in range(self._count)]
        return [self._words[first : first + 4] for first in firsts]


def _left(host: Host, value: Any, layout: Layout, blocks: _Blocks) -> _Left | _InRegisters:
    if isinstance(host.env[value], SharedTile):
        return _Left(host.build, host.team, host.env[value], blocks)
    shape: tuple[int, int] = tuple(value.type.shape)  # pyright: ignore[reportAssignmentType] - a product's factor
    sideways = sum(1 for basis in layout.warps if basis and basis < layout.shape[1])
    stacked = accumulator(shape, host.team.bits - sideways)
    mine = Layout(shape, stacked.registers, stacked.lanes, _beside(stacked.warps, sideways))
    return _InRegisters(host.build, host.tile(value, mine), len(blocks.rows))


def _beside(warps: Sequence[int], count: int) -> tuple[int, ...]:
    """Warps beside each other have the same rows."""
    return (*warps, *(0,) * count)
