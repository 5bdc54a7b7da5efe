"""Writing tiles from registers into shared memory, as the tensor cores and the copy engine read them there."""

from typing import Any, Final

from tessera.core.layouts import coordinates, swizzled
from tessera.lowering.target.cuda.build import Build
from tessera.lowering.target.cuda.tiles.stages import Panels
from tessera.lowering.target.cuda.tiles.team import Team
from tessera.lowering.target.cuda.tiles.values import RegisterTile, pack, shared_pointer

_PACKED: Final = 2


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
