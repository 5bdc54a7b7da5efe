"""The course: all puzzles in their order."""

from typing import Final

from tessera_magics.puzzles import lanes, tiles
from tessera_magics.puzzles.exercise import Exercise

COURSE: Final[tuple[Exercise, ...]] = (
    lanes.MAP,
    lanes.ZIP,
    lanes.GUARD,
    lanes.MAP_2D,
    lanes.BROADCAST,
    tiles.BLOCKS,
    lanes.STENCIL,
    tiles.REVERSED_ROWS,
    tiles.DOT,
    tiles.ROW_SUMS,
    tiles.SOFTMAX,
    lanes.CONVOLUTION,
    lanes.RUNNING_SUMS,
    lanes.MATMUL,
    tiles.MATMUL_TILES,
    tiles.TRANSPOSE,
    tiles.QUANTISE,
    tiles.LAYER_NORM,
    tiles.ONLINE_SOFTMAX,
    tiles.ATTENTION,
)
