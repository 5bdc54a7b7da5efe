"""Codes that are made and used in one graph: derivatives, and what the calls are over real numbers."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportCallIssue=false, reportUnknownVariableType=false, reportArgumentType=false
# pyright: reportUnknownMemberType=false

import numpy as np
import pytest

import tessera
from support.operators import TARGETS, Array, close, drawn
from support.quantized import restored
from tessera import op
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.numerics import FORMATS, fp4, fp6, i4, numerics_of, rounding, scale
from tessera.core.settings import overridden
from tessera.graphs.function import GraphFunction
from tessera.lowering.autodiff.in_f64 import in_f64
from tessera.runtime.interpret.graph import evaluate

fp8 = FORMATS["fp8_e4m3"]
ROWS, COLUMNS = fp8 @ scale(block=(1, 0)), fp4 @ scale(block=(0, 1))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("left", "right"), [((4, 24), (24, 5)), ((24,), (24, 5)), ((2, 4, 24), (24, 5)), ((4, 24), (24,))]
)
def test_straight_through(target: str, left: tuple[int, ...], right: tuple[int, ...]):
    """The derivative of a product is that of the numbers that were multiplied, and goes to those before rounding."""
    x, w = drawn(left, np.float32, 1), drawn(right, np.float32, 2)
    a = fp8 @ scale(block=(0,))
    b = COLUMNS if len(right) > 1 else fp4 @ scale(block=(0,))
    with overridden(target=target):
        made, back = tessera.vjp(lambda x, w: op.matmul(op.quantize(x, a), op.quantize(w, b)), x, w)
        seed = drawn(made.shape, np.float32, 3)
        by_x, by_w = back(seed)
    xr, wr = restored(x, a).astype(np.float64), restored(w, b).astype(np.float64)
    close(made, xr @ wr, 3e-6)
    wide, ws = seed.astype(np.float64), wr if wr.ndim > 1 else wr[:, None]
    rows = wide.reshape(-1, ws.shape[1])
    close(by_x, (rows @ ws.T).reshape(x.shape), 3e-6)
    close(by_w, (xr.reshape(-1, 24).T @ rows).reshape(w.shape), 3e-6)


def test_what_is_cut_has_no_slope():
    x = np.array([0.3, 5.9, 6.9, 7.5, -40.0, -6.0], np.float32)
    slope = tessera.grad(lambda x: op.sum(op.cast(x + 0.0, fp4) * 3.0))(x)
    np.testing.assert_array_equal(slope, [3, 3, 3, 0, 0, 3])
    weights = np.ones((6, 1), np.float32)
    slope = tessera.grad(lambda x: op.sum(op.matmul(op.quantize(x, fp4), weights)))(x)
    np.testing.assert_array_equal(slope, [1, 1, 1, 0, 0, 1])
    scaled = tessera.grad(lambda x: op.sum(op.dequantize(op.quantize(x, i4 @ scale()))))(x)
    np.testing.assert_array_equal(scaled, np.ones(6))


def test_by_the_other_operand_alone():
    x, w = drawn((3, 8), np.float32, 1), drawn((8, 2), np.float16, 2)
    held = op.quantize(x, ROWS)
    slope = tessera.grad(lambda w: op.sum(op.matmul(held, w)))(w)
    assert slope.dtype == np.float16
    close(slope, np.repeat(restored(x, ROWS).sum(0)[:, None], 2, 1), 2e-3)


@pytest.mark.parametrize("target", TARGETS)
def test_casts(target: str):
    x = drawn((3, 7), np.float64, 1, -9, 9)
    with overridden(target=target):
        for numerics in (numerics_of(fp6), fp4 @ scale(block=(1, 0)), i4 @ scale(block=(), dtype="e8m0")):
            made = op.cast(x, numerics)
            assert made.dtype == np.float64
            np.testing.assert_array_equal(made, restored(x, numerics))
        np.testing.assert_array_equal(op.cast(x, "fp4"), restored(x, numerics_of(fp4)))
        assert op.cast(x, "f16").dtype == np.float16


def test_over_real_numbers_nothing_is_rounded():
    def function(x: Array, w: Array) -> Array:
        return op.matmul(op.quantize(x, ROWS), op.quantize(op.cast(w, fp4), COLUMNS))

    x, w = drawn((3, 8), np.float32, 1), drawn((8, 2), np.float32, 2)
    captured = GraphFunction(function).graph_for(x, w).graph
    (made,) = evaluate(in_f64(captured), [x.astype(np.float64), w.astype(np.float64)])
    np.testing.assert_allclose(made, x.astype(np.float64) @ w, rtol=1e-13)
    (typed,) = evaluate(captured, [x, w])
    assert np.abs(typed - made).max() > 1e-3


def test_one_kernel_makes_codes_of_what_is_normalised():
    @GraphFunction
    def norm(x: Array) -> Array:
        return op.quantize(op.rmsnorm(op.relu(x)), ROWS)

    norm(drawn((6, 64), np.float32, 1))
    assert norm.inspect_ir("schedule").count("  kernel ") == 1
    assert 'tensor<6x64xf8E4M3FN, "fp8_e4m3 @accum(f32) @scale(block=(1, 0), dtype=\\"f32\\")">' in norm.inspect_ir(
        "graph"
    )


def test_what_is_used_in_the_graph_is_not_packed():
    @GraphFunction
    def used(x: Array, w: Array) -> Array:
        return op.matmul(op.quantize(x, fp6), w)

    used(drawn((4, 6), np.float32, 1), op.quantize(drawn((6, 3), np.float32, 2), fp6))
    simplified = used.inspect_ir("schedule")
    assert simplified.count(" << 18") == 0
    assert used.inspect_ir("graph").count("4 codes in 3 bytes") >= 2


@pytest.mark.parametrize("target", TARGETS)
def test_stochastic_rounding_is_a_function_of_the_key(target: str):
    x, mode = np.full((400, 10), 0.3, np.float32), fp4 @ rounding("stochastic")
    with overridden(target=target):
        made = op.cast(x, mode, key=op.key(7))
        np.testing.assert_array_equal(made, op.dequantize(op.quantize(x, mode, key=op.key(7))))
        assert set(np.unique(made)) == {0, 0.5}
        assert abs(made.mean() - 0.3) < 0.02
        assert (made != op.cast(x, mode, key=op.key(8))).any()
    with overridden(target="interpret"):
        np.testing.assert_array_equal(made, op.cast(x, mode, key=op.key(7)))
    with pytest.raises(OperandMismatch, match="stochastic rounding takes a key"):
        op.quantize(x, mode)
    with pytest.raises(OperandMismatch, match="nearest rounding takes no key"):
        op.quantize(x, fp4, key=op.key(1))


def test_products_of_bytes_are_products_of_the_hardware():
    """In the graph two fp8 are multiplied as they are, and fp4 is widened to bf16; on sm_90 both are for wgmma."""
    x, w = drawn((128, 128), np.float32, 1), drawn((128, 128), np.float32, 2)

    @GraphFunction
    def product(x: Array, w: Array) -> Array:
        return op.matmul(x, w)

    for numerics, name in ((fp8, "fp8_e4m3"), (fp4, "bf16")):
        product(op.quantize(x, numerics @ scale(block=(1, 0))), op.quantize(w, numerics @ scale(block=(0, 1))))
        (node,) = [node for node in product.executable.graph.nodes if node.op == "contract"]
        assert [value.type.dtype.name for value in node.operands] == [name] * 2
        assert node.result.type.dtype.name == "f32"
        (kernel,) = [each for each in product.kernels("cuda:sm_90a") if each.group.kind == "product"]
        assert kernel.compiled is not None
        assert "wgmma.mma_async.sync.aligned" in kernel.compiled.ir("ptx")
