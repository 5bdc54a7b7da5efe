"""Matrix products on the tensor cores of sm_90a: warp groups multiply tiles that lie in shared memory.

Rows are shared among the warp groups, 64 at a time.  The left factor may come from registers; what else is there is
first written to shared memory in the layout that the tensor cores read (PTX ISA, 9.7.15.5 "Matrix Descriptor").
"""

from dataclasses import dataclass
from typing import Any, Final, Protocol

from tessera.core.layouts import Layout, accumulator, coordinates, swizzled
from tessera.lowering.target.cuda.build import Build, width
from tessera.lowering.target.cuda.tiles import assembly
from tessera.lowering.target.cuda.tiles.room import Room
from tessera.lowering.target.cuda.tiles.stages import Panels, SharedTile, Stages
from tessera.lowering.target.cuda.tiles.team import Team
from tessera.lowering.target.cuda.tiles.values import RegisterTile, pack, shared_pointer

_ROWS: Final = 64
_MOST_COLUMNS: Final = 256
_STEP_BYTES: Final = 32
_GROUP_LANES: Final = 128
_SWIZZLE_MODES: Final = {128: 1, 64: 2, 32: 3}
_EIGHT_ROWS: Final = 8
_PACKED: Final = 2
_UNIT: Final = 16
_FIELD: Final = 0x3FFF


class Host(Protocol):
    """What products ask of the code around them."""

    build: Build
    env: dict[Any, Any]
    stages: Stages
    room: Room

    @property
    def team(self) -> Team:
        """The team."""
        ...

    def tile(self, value: Any, layout: Layout | None = None) -> RegisterTile:
        """A tile in a layout."""
        ...

    def define(self, value: Any, tile: RegisterTile) -> None:
        """Say what a tile is."""
        ...

    def layout(self, value: Any) -> Layout:
        """The layout that the plan gives a tile."""
        ...


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor in shared memory; `outer_major`: its rows (of the left one) or columns are contiguous, not K."""

    tile: SharedTile
    outer_major: bool

    def offset(self, outer: int, inner_bytes: int) -> int:
        """Bytes from the start to row (or column) `outer`, a multiple of 8, at K step `inner_bytes` / 32."""
        panels = self.tile.panels
        if self.outer_major:
            panel, rest = divmod(outer * panels.size, panels.swizzle)
            step = inner_bytes // panels.size
            return panel * panels.panel_bytes + rest + step * panels.swizzle
        panel, rest = divmod(inner_bytes, panels.swizzle)
        return panel * panels.panel_bytes + outer * panels.swizzle + rest

    def descriptor(self, build: Build, first: Any | None) -> Any:
        """An i64 matrix descriptor of the factor, `first` (i32; None: 0) bytes after its start."""
        panels = self.tile.panels
        leading = panels.panel_bytes if self.outer_major else _UNIT
        stride = _EIGHT_ROWS * panels.swizzle
        constant = (leading // _UNIT & _FIELD) << 16 | stride // _UNIT << 32 | _SWIZZLE_MODES[panels.swizzle] << 62
        address = self.tile.address
        if first is not None:
            address = build.value("arith.addi", [address, first], "i32")
        units = build.value("arith.shrui", [address, build.word(4)], "i32")
        wide = build.value("arith.extui", [units], "i64")
        signed = constant - (1 << 64) if constant >= 1 << 63 else constant
        return build.value("arith.ori", [wide, build.constant(signed, "i64")], "i64")


def _at(build: Build, descriptor: Any, offset: int) -> Any:
    """The descriptor of what lies `offset` bytes further on: addresses are counted in units of 16 bytes."""
    return build.add(descriptor, offset // _UNIT)


def dot(host: Host, op: Any) -> None:
    """`tessera.dot`: `a b`, or `acc + a b`."""
    build, team = host.build, host.team
    layout = host.layout(op.results[0])
    a_value, b_value, *sums = op.operands
    (m, k), n = a_value.type.shape, b_value.type.shape[1]
    element = str(a_value.type.element_type)
    right = _factor(host, b_value, left=False)
    left = _factor(host, a_value, left=True) if isinstance(host.env[a_value], SharedTile) else None
    registers = host.tile(a_value, accumulator((m, k), team.bits)) if left is None else None
    accumulators = list(host.tile(sums[0], layout).values) if sums else None
    columns = min(n, _MOST_COLUMNS)
    groups = team.lanes // _GROUP_LANES
    block = columns // 2  # registers of one product of 64 rows
    right_start = right.descriptor(build, None)
    left_start = _left_start(build, team, left) if left is not None else None
    step = _STEP_BYTES // (width(element) // 8)
    flags = (left.outer_major if left is not None else False, right.outer_major)
    assembly.wgmma_fence(build)
    results: list[Any] = []
    for number in range(layout.count // block):
        rows, first = divmod(number, n // columns)
        steps: list[tuple[list[Any], Any]] = []
        for place in range(0, k, step):
            inner = place * _STEP_BYTES // step
            if left is not None:
                a = [_at(build, left_start, left.offset(rows * groups * _ROWS, inner))]
            else:
                a = _left_registers(build, registers, rows, place)
            steps.append((a, _at(build, right_start, right.offset(first * columns, inner))))
        mine = accumulators[number * block : (number + 1) * block] if accumulators is not None else [None] * block
        results += assembly.wgmma(
            build, (_ROWS, columns, step), element, mine, steps, accumulate=accumulators is not None, transposed=flags
        )
    assembly.wgmma_commit(build)
    if host.stages.is_running(op):
        assembly.wgmma_wait(build, 1)
        host.stages.release_before(host, op)
    else:
        results = assembly.wgmma_wait(build, 0, results)
    host.define(op.results[0], RegisterTile(layout, "f32", tuple(results)))


def _factor(host: Host, value: Any, *, left: bool) -> Factor:
    """A factor in shared memory, where it is written if it is not there yet."""
    found = host.env[value]
    tile = found if isinstance(found, SharedTile) else park(host, host.tile(value))
    # The last axis of what lies there is contiguous: K of a left factor, the columns of a right one.
    return Factor(tile, tile.transposed if left else not tile.transposed)


def park(host: Host, tile: RegisterTile) -> SharedTile:
    """Write a tile into shared memory for the tensor cores; the memory is used again by the next one."""
    build, team = host.build, host.team
    rows, columns = tile.shape
    panels = Panels(rows, columns, width(tile.element) // 8)
    piece = host.room.take(panels.bytes)
    address = host.room.address(piece)
    team.wait()
    write_panels(build, team, tile, panels, address)
    assembly.fence_async_shared(build)
    team.wait()
    host.room.give_back(piece)
    return SharedTile(address, panels, tile.element)


def write_panels(build: Build, team: Team, tile: RegisterTile, panels: Panels, address: Any) -> None:
    """Store a tile's elements (or those of some of its columns) as panels, two of 16 bits at a time."""
    layout = tile.layout
    places = team.places(layout)
    pairs = panels.size == _PACKED and layout.registers[:1] == (1,)
    count = _PACKED if pairs else 1
    kind = "i32" if pairs else tile.element
    lane = _lane_offset(build, places.parts(0)[0], panels)
    with build.when(team.owns(layout)):
        for register in range(0, layout.count, count):
            row, column = coordinates(layout.element(register), layout.shape)
            panel, rest = divmod(column, panels.width)
            constant = panel * panels.panel_bytes + swizzled(row * panels.swizzle + rest * panels.size, panels.swizzle)
            # Lane and register parts share no bit before the swizzle, which is linear: combining both is exact.
            place = build.value("arith.xori", [lane, build.word(constant)], "i32") if constant else lane
            target = build.value("arith.addi", [address, place], "i32")
            value = pack(build, tile.values[register : register + 2]) if pairs else tile.values[register]
            build.store(value, shared_pointer(build, target), kind)


def _lane_offset(build: Build, bases: list[Any], panels: Panels) -> Any:
    """An i32: the byte offset of register 0 of this lane."""
    row, column = bases
    panel = build.divide(column, panels.width)
    rest = build.mul(build.remainder(column, panels.width), panels.size)
    line = build.add(build.mul(row, panels.swizzle), rest)
    units = panels.swizzle // 16
    spread = build.mul(build.bits(build.divide(line, 128), units - 1), 16)
    return build.to_word(build.add(build.xor(line, spread), build.mul(panel, panels.panel_bytes)))


def _group_number(build: Build, team: Team) -> Any:
    """An i32: the warp group of this lane, known to be the same throughout a warp."""
    number = build.to_word(build.divide(team.thread, _GROUP_LANES))
    operands = [build.word(-1), number, build.word(0), build.word(31)]
    return build.value("nvvm.shfl.sync", operands, "i32", {"kind": "#nvvm<shfl_kind idx>"})


def _left_start(build: Build, team: Team, left: Factor) -> Any:
    """The descriptor of this warp group's first 64 rows."""
    if team.lanes <= _GROUP_LANES:
        return left.descriptor(build, None)
    mine = build.value("arith.muli", [_group_number(build, team), build.word(left.offset(_ROWS, 0))], "i32")
    return left.descriptor(build, mine)


def _left_registers(build: Build, tile: RegisterTile | None, rows: int, place: int) -> list[Any]:
    """The four registers of 64 x 16 elements of the left factor."""
    if tile is None:
        message = "no left factor"
        raise AssertionError(message)
    per_block = tile.shape[1] // 2
    first = rows * per_block + place // 2
    return [pack(build, tile.values[first + 2 * n : first + 2 * n + 2]) for n in range(4)]
