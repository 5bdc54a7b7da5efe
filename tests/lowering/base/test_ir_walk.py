"""Questions about operations and values."""

from support import programs
from support.mlir import lowered
from tessera.lowering.analysis.memory_accesses import accesses
from tessera.lowering.base.ir_walk import (
    ancestors,
    body,
    constant,
    element_of,
    extent,
    kernel,
    operations,
    shape_of,
    symbol,
)
from tessera.lowering.tile.simplify import Simplify


def test_outer_before_inner():
    module = lowered(programs.tile_copy(), Simplify())
    names = [op.name for op in operations(kernel(module)) if op.name != "arith.constant"]
    assert names == ["func.func", "tessera.dim", "scf.for", "tessera.load", "arith.mulf", "tessera.store", "scf.yield",
                     "func.return"]  # fmt: skip


def test_what_values_are():
    module = lowered(programs.tile_copy(), Simplify())
    (loop,) = operations(module, "scf.for")
    lower, upper, step = list(loop.operands)
    assert (constant(lower), constant(step), symbol(upper)) == (0, 128, "n")
    assert (extent(lower), extent(upper), extent(step)) == (0, "n", 128)
    assert constant(upper) is None
    assert symbol(lower) is None
    assert extent(body(loop).arguments[0]) is None


def test_the_operations_around():
    module = lowered(programs.matmul(), Simplify())
    (dot,) = operations(module, "tessera.dot")
    assert [op.name for op in ancestors(dot)] == ["scf.for"] * 3 + ["func.func", "builtin.module"]


def test_accesses():
    module = lowered(programs.pipeline())
    found = accesses(module)
    assert [(a.op.name, a.writes, a.shared, a.whole) for a in found] == [
        ("tessera.copy", False, False, False),
        ("tessera.copy", True, True, True),
        ("tessera.load", False, True, False),
        ("tessera.load", False, False, False),
        ("tessera.load", False, False, False),
        ("tessera.store", True, False, False),
    ]
    assert [a.extents for a in found[:2]] == [(128, 128), (128, 128)]
    assert found[1].starts == ()


def test_shapes_of_tiles_and_arrays():
    module = lowered(programs.tile_copy(), Simplify())
    (load,) = operations(module, "tessera.load")
    assert (shape_of(load.results[0]), element_of(load.results[0])) == ([128], "f32")
    assert element_of(load.operands[0]) == "f32"
    assert len(shape_of(load.operands[0])) == 1
