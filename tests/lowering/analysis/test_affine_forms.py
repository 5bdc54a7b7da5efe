"""Indices as sums of values times numbers."""

from support.builder import Builder
from tessera.core.base.dtypes import f32, i64
from tessera.core.tile.dialect import shared_context
from tessera.lowering.analysis.affine_forms import affine_form
from tessera.lowering.base.ir_walk import kernel, operations
from tessera.lowering.tile.to_tile import to_tile


def test_what_is_written_differently_is_the_same():
    b = Builder("starts")
    x, i = b.array("x", f32, "n"), b.scalar("i", i64)
    y = b.array("y", f32, "n", mutable=True)
    one, three = b.const(1), b.const(3)
    a = b.value("sub", b.value("mul", b.value("add", i, one), three), one)  # 3 (i + 1) - 1
    c = b.value("add", b.value("mul", i, three), b.const(2))  # 3 i + 2
    b.store(y, b.load(x, [a], [8]), [c], [8])
    with shared_context():
        module = to_tile(b.program())
        load, store = operations(kernel(module), "tessera.load", "tessera.store")
        first, second = affine_form(load.operands[1]), affine_form(store.operands[2])
        assert first == second
        assert first.constant == 2
        assert (affine_form("n") - first).constant_difference(affine_form("n") - second - affine_form(4)) == 4
        assert affine_form("n").constant_difference(first) is None
