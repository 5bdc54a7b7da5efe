"""`op.cast`, `op.quantize` and `op.dequantize` as people call them; what they compute is tested with `graphs`."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportCallIssue=false, reportUnknownVariableType=false, reportArgumentType=false

import numpy as np
import pytest

from support.operators import drawn, everywhere
from support.quantized import restored
from tessera import fp4, op, rounding, scale
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.numerics import Numerics, numerics_of
from tessera.core.mlir import ir
from tessera.graphs.function import GraphFunction
from tessera.graphs.scaled import Scaled

X = drawn((3, 8), np.float32, 1)


def test_casts_everywhere():
    np.testing.assert_array_equal(everywhere(lambda x: op.cast(x, "fp6_e2m3"), X), restored(X, numerics_of("fp6_e2m3")))
    np.testing.assert_array_equal(everywhere(lambda x: op.cast(x, "f16"), X), X.astype(np.float16))


@pytest.mark.parametrize("numerics", ["fp4", "int4", "fp8_e5m2", fp4 @ scale(), "bf16"])
def test_numerics_by_name(numerics: str | Numerics):
    made = op.quantize(X, numerics)
    assert isinstance(made, Scaled)
    assert made.numerics == numerics_of(numerics)
    np.testing.assert_array_equal(op.dequantize(made), restored(X, made.numerics))


def test_results_of_a_graph():
    made = GraphFunction(lambda x: {"held": op.quantize(x * 2.0, fp4), "same": x})(X)
    np.testing.assert_array_equal(op.dequantize(made["held"]), restored(X * 2, numerics_of(fp4)))


def test_the_text_is_mlir():
    op.quantize(X, fp4 @ scale(block=(1, 4), dtype="e8m0"))
    text = op.quantize.inspect_ir("graph")
    assert 'tensor<3x4xui8, "fp4_e2m1 @accum(f32) @scale(block=(1, 4), dtype=\\"e8m0\\"), 2 codes in 1 byte">' in text
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(text)
    assert "2 codes in 1 byte" in str(module)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: op.quantize(X, "fp7"), "no array is stored in 'fp7'"),
        (lambda: op.quantize(X, "f64"), "no array is stored in 'f64'"),
        (lambda: op.quantize(X, fp4 @ rounding("stochastic")), "takes a key"),
        (lambda: op.quantize(X, fp4 @ rounding("stochastic"), key=X), "is no key|key is u32"),
        (lambda: op.quantize(X, fp4 @ scale(block=(1, 3))), "do not divide an axis of 8"),
        (lambda: op.cast(X, "fp5"), "no array is stored in 'fp5'"),
        (lambda: op.dequantize(X), "has no codes"),
    ],
)
def test_mistakes(wrong: object, message: str):
    with pytest.raises(OperandMismatch, match=rf"^[^\n]*(?:{message})") as caught:
        wrong()  # type: ignore[operator]  # pyright: ignore[reportCallIssue]
    assert "test_quantization.py" in str(caught.value)
