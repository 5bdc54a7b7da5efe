"""A left factor in registers whose K follows the order that the right one's rows have in shared memory.

See `interleaving` for where that order comes from.
"""

from typing import Any, Final

from tessera.core.layouts import accumulator
from tessera.lowering.target.cuda.build import Build
from tessera.lowering.target.cuda.tiles.assembly_warp import load_shared
from tessera.lowering.target.cuda.tiles.interleaving import APART, DEPTH
from tessera.lowering.target.cuda.tiles.shared_access import Cursor
from tessera.lowering.target.cuda.tiles.stages import SharedTile
from tessera.lowering.target.cuda.tiles.team import Team

_STEPS: Final = 4
_HALVES: Final = (0, 8)
_BLOCK: Final = 64
_GROUP_LANES: Final = 128


def gathered_words(build: Build, team: Team, tile: SharedTile) -> tuple[Any, ...]:
    """A left factor of 64 columns in registers, two elements in each, its K in the order of the right one's rows.

    Step j has rows 2 j and 2 j + 1 modulo 8 of the right factor: lane l needs K = 16 (l % 4) + 2 j, the next one, and
    those 8 further on; for all four steps they are 16 bytes each, side by side.
    """
    rows = tile.panels.rows
    layout = accumulator((rows, DEPTH), team.bits)
    row, column = team.places(layout).parts(0)[0]
    cursor = Cursor(build, tile, row, build.mul(column, APART))
    words: list[Any] = []
    for block in range(0, rows, team.lanes // _GROUP_LANES * _BLOCK):
        near, far = (
            [load_shared(build, *cursor.at(block + half, offset), _STEPS, "i32") for half in _HALVES]
            for offset in (0, APART)
        )
        for step in range(_STEPS):
            for pick in (_low, _high):
                words += [pick(build, near[half][step], far[half][step]) for half in range(len(_HALVES))]
    # Lanes may have come out of a wait at different times; what follows is for whole warps.
    build.create("nvvm.bar.warp.sync", [build.word(-1)])
    return tuple(words)


def _low(build: Build, a: Any, b: Any) -> Any:
    """The low halves of two i32, that of `a` first."""
    upper = build.value("arith.shli", [b, build.word(16)], "i32")
    return build.value("arith.ori", [build.value("arith.andi", [a, build.word(0xFFFF)], "i32"), upper], "i32")


def _high(build: Build, a: Any, b: Any) -> Any:
    """The high halves of two i32, that of `a` first."""
    upper = build.value("arith.andi", [b, build.word(-0x10000)], "i32")
    return build.value("arith.ori", [build.value("arith.shrui", [a, build.word(16)], "i32"), upper], "i32")
