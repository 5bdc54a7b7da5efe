"""Every pure opcode has an evaluator, and tile reshuffling is NumPy's."""

import numpy as np

from support.builder import Builder
from tessera.core.base.dtypes import f16, f32, i64
from tessera.core.program.program import Value
from tessera.core.program.spec import SPEC
from tessera.core.program.types import Scalar, Tile
from tessera.runtime.interpret.values import PURE, prepare


def test_the_table_covers_the_specification() -> None:
    pure = {name for name, row in SPEC.items() if row.effect == ""}
    assert set(PURE) == pure - {"id", "dim"}


def last(b: Builder, *operands: np.ndarray) -> np.ndarray:
    return np.asarray(prepare(b.blocks[0][-1])(*operands))


def test_shapes() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    tile = Value(Tile(f32, (2, 3)))
    b = Builder("k")
    b.reshape(tile, 3, 2)
    assert np.array_equal(last(b, x), x.reshape(3, 2))
    b.transpose(tile, 1, 0)
    assert np.array_equal(last(b, x), x.T)
    b.broadcast(Value(Tile(f32, (2, 1))), 2, 4)
    assert np.array_equal(last(b, x[:, :1]), np.repeat(x[:, :1], 4, axis=1))
    b.full(Value(Scalar(f16)), 2, 2)
    assert last(b, np.array(0.5, np.float16)).dtype == np.float16
    b.arange(Value(Scalar(i64)), 4)
    assert last(b, np.array(3)).tolist() == [3, 4, 5, 6]


def test_choices_and_reductions() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    tile = Value(Tile(f32, (2, 3)))
    b = Builder("k")
    condition = b.compare("gt", tile, tile)
    assert last(b, x, x[::-1]).tolist() == [[False] * 3, [True] * 3]
    b.select(condition, tile, tile)
    assert last(b, x > 2, x, -x).tolist() == [[0, -1, -2], [3, 4, 5]]
    b.reduce(tile, "sum", axis=1)
    assert last(b, x).tolist() == [3, 12]
    b.reduce(tile, "max")
    assert last(b, x).tolist() == 5
    b.cast(tile, i64)
    assert last(b, x + 0.9).tolist() == x.astype(int).tolist()
    b.value("fma", tile, tile, tile)
    assert np.array_equal(last(b, x, x, x), x * x + x)
