"""tile-round-operands: what stands in front of a product, with the interpreter's bits."""

import numpy as np

from support.builder import Builder
from support.evaluate import run
from support.mlir import lowered, shown
from support.product_programs import matrix_product
from tessera.core.base.dtypes import f32
from tessera.core.program.program import Program
from tessera.lowering.tile.round_operands import RoundOperands
from tessera.runtime.interpret.tiles import dot


def product(compute: str) -> Program:
    """out = a b"""
    b = Builder("product")
    a, w, out = b.array("a", f32, 4, 8), b.array("b", f32, 8, 4), b.array("out", f32, 4, 4, mutable=True)
    zero = b.const(0)
    factors = b.load(a, [zero, zero], [4, 8], name="x"), b.load(w, [zero, zero], [8, 4], name="y")
    b.store(out, b.dot(*factors, name="d", compute=compute), [zero, zero], [4, 4])
    return b.program()


def test_factors_are_rounded_with_integers():
    text = shown(product("tf32"), RoundOperands())
    assert "tf32" not in text
    assert "tessera.dot %x, %y " not in text
    for operation in ("arith.bitcast", "arith.cmpf olt", "arith.select"):
        assert text.count(operation) == {"arith.bitcast": 4}.get(operation, 2)


def test_other_products_stay():
    assert shown(product(""), RoundOperands()) == shown(product(""))


def test_the_interpreters_bits():
    random = np.random.default_rng(0)
    a, w = (random.standard_normal(shape).astype(np.float32) for shape in ((4, 8), (8, 4)))
    a[0, 0], a[1, 1], a[2, 2], w[3, 3] = np.inf, np.nan, np.finfo(np.float32).max, 2.0**-140
    out = np.zeros((4, 4), np.float32)
    with np.errstate(all="ignore"):
        run(lowered(product("tf32"), RoundOperands()), {}, a, w, out)
        np.testing.assert_array_equal(out, dot(a, w, operand=f32, result=f32, compute="tf32"))


def test_sums_in_a_loop():
    program = matrix_product((4, 4, 4), f32, compute="tf32", aligned=False)
    assert "tf32" not in shown(program, RoundOperands())
