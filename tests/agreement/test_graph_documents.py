"""The documents' blocks on operators and graphs, word for word, on both CPU targets against NumPy."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportCallIssue=false, reportUnknownVariableType=false

from types import ModuleType
from typing import Any, Final

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import tessera
from support.operators import close, drawn
from tessera import op
from tessera.api.source_module import run_cell
from tessera.core.program.types import Tile
from tessera.core.settings import overridden

ATTENTION: Final = """\
from tessera import op, graph

@graph.module("attention")
def attention(Q, K, V):
    S = op.matmul(Q, K.T)
    A = op.softmax(S)
    return op.matmul(A, V)
"""
MATMUL: Final = """\
Y = op.matmul(A, B, tile_shape=(128, 128, 64))
"""
BLOCK: Final = """\
@jit @autodiff
def block(x, Wqkv, Wo):
    h = rmsnorm_safe(x)
    qkv = gemm(x, Wqkv)                 # TP-sharded GEMM
    q,k,v = split_qkv(qkv, heads=16)
    y = flash_attention(q, k, v)        # all_gather + reduce_scatter fused
    return gemm(y, Wo)
"""
LOSS: Final = """\
def loss_fn(W):
    y = model(x, W)  # includes tensor-parallel GEMMs
    return mse(y, y_true)

gW = tessera.grad(loss_fn)(W)  # inserts reduce_scatter/all_gather in backward pass
"""
NORM_LAYER: Final = """\
@jit
def norm_layer(X: Region[read], Y: Region[write]):
    Y[:] = rmsnorm_safe(X)
"""
STEP: Final = """\
@jit
def step(W: Region[read], X: Region[read], Y: Region[reduce_sum]):
    # Compiler schedules reduce ops safely
    Y += gemm(X, W)
"""
TRAIN_STEP: Final = """\
@jit(capture_graph=True)
def train_step(batch):
    out = model(batch)
    loss = loss_fn(out)
    return loss
"""
FP6: Final = """\
x: Tensor["B","D", fp6 @accum(fp32)]
w: Tensor["D","K", fp6 @accum(fp32)]

y = gemm(x, w)   # lowers to WGMMA + Transformer Engine configs
"""


@pytest.fixture(params=["interpret", "cpu"], autouse=True)
def target(request: pytest.FixtureRequest):
    """Run each test on both targets."""
    with overridden(target=request.param):
        yield request.param


def cell(text: str, **given: object) -> ModuleType:
    """Run a block with the names that the document has defined before it."""
    module = ModuleType("document")
    vars(module).update(given)
    run_cell(text, vars(module), name=f"<{text[:20]!r}>")
    return module


def softmax(x: NDArray[Any]) -> NDArray[Any]:
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def rmsnorm(x: NDArray[Any]) -> NDArray[Any]:
    return x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-6)


def test_attention():
    attention = cell(ATTENTION).attention
    q, k, v = (drawn((40, 16), np.float32, n) for n in range(3))
    close(attention(q, k, v), softmax(q.astype(np.float64) @ k.T) @ v, 4e-6)
    captured, scheduled = attention.inspect_ir("graph"), attention.inspect_ir("schedule")
    assert captured.startswith('"graph.module"')
    for name in ("attention/matmul", "attention/softmax", "attention/matmul.1"):
        assert f'composite = "{name}"' in captured
    assert scheduled.startswith("schedule attention: 1 kernel\n")  # "not as three sequential kernels"


def test_matmul_with_a_tile_shape():
    a, b = drawn((150, 70), np.float32, 1), drawn((70, 140), np.float32, 2)
    close(cell(MATMUL, op=op, A=a, B=b).Y, a.astype(np.float64) @ b, 2e-6)
    assert "tile_shape = [128 : i64, 128 : i64, 64 : i64]" in op.matmul.inspect_ir("graph")


def test_tiles_of_the_tile_shape():
    """What the document says of the matmul's tiles, in the program that is compiled for tensor cores."""
    a, b = drawn((300, 200), np.float16, 1), drawn((200, 260), np.float16, 2)
    cell(MATMUL, op=op, A=a, B=b)
    (kernel,) = op.matmul.kernels("cuda:sm_90a")
    (product,) = (each for each in kernel.lowered.program.body.walk() if each.opcode == "dot")
    shapes = [each.type.shape for each in product.operands[:2] if isinstance(each.type, Tile)]
    assert shapes == [(128, 64), (64, 128)]


def test_transformer_block():
    block = cell(BLOCK).block
    x = drawn((12, 64), np.float64, 1)
    wqkv, wo = drawn((64, 192), np.float64, 2, -0.2, 0.2), drawn((64, 64), np.float64, 3)
    q, k, v = (each.reshape(12, 16, 4).swapaxes(0, 1) for each in np.split(x @ wqkv, 3, -1))
    y = softmax(q @ k.swapaxes(1, 2) / 2) @ v
    want = y.swapaxes(0, 1).reshape(12, 64) @ wo
    close(block(x, wqkv, wo), want, 1e-12)
    value, pullback = block.vjp(x, wqkv, wo)
    close(value, want, 1e-12)
    seed = drawn((12, 64), np.float64, 4)
    by_x, by_wqkv, by_wo = pullback(seed)
    close(by_wo, y.swapaxes(0, 1).reshape(12, 64).T @ seed, 1e-12)
    for given, slope in ((x, by_x), (wqkv, by_wqkv)):
        direction, h = drawn(given.shape, np.float64, 5), 1e-6
        ends = [
            block(*(each + side * h * direction if each is given else each for each in (x, wqkv, wo)))
            for side in (1, -1)
        ]
        np.testing.assert_allclose((slope * direction).sum(), ((ends[0] - ends[1]) * seed).sum() / (2 * h), rtol=1e-6)


def test_gradient_of_a_loss():
    x, w, wanted = drawn((6, 5), np.float64, 1), drawn((5, 3), np.float64, 2), drawn((6, 3), np.float64, 3)
    module = cell(LOSS, tessera=tessera, model=op.matmul, x=x, W=w, y_true=wanted)
    close(module.gW, 2 * x.T @ (x @ w - wanted) / wanted.size, 1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_norm_layer(dtype: type):
    x, y = drawn((6, 40), dtype), np.full((6, 40), np.nan, dtype)
    assert cell(NORM_LAYER).norm_layer(x, y) is None
    close(y, rmsnorm(x), 2e-3 if dtype is np.float16 else 4e-6)


def test_step_adds_into_a_region():
    step = cell(STEP).step
    w, x, y = drawn((7, 5), np.float32, 1), drawn((4, 7), np.float32, 2), drawn((4, 5), np.float32, 3)
    want = y + 2 * (x.astype(np.float64) @ w)
    step(w, x, y)
    step(w, x, Y=y)
    close(y, want, 4e-6)


def test_train_step():
    w, wanted, batch = drawn((7, 3), np.float32, 1), drawn((4, 3), np.float32, 2), drawn((4, 7), np.float32, 3)
    module = cell(TRAIN_STEP, model=lambda batch: op.matmul(batch, w), loss_fn=lambda out: op.mse(out, wanted))
    for _ in range(3):
        close(module.train_step(batch), ((batch.astype(np.float64) @ w - wanted) ** 2).mean(), 2e-6)
        batch += 1
    assert len(module.train_step.graphs) == 1


def test_fp6_matmul_with_f32_accumulation():
    x, w = drawn((20, 33), np.float32, 1), drawn((33, 7), np.float32, 2)
    module = cell(FP6, x=x, w=w)
    x6, w6 = (each.astype(ml_dtypes.float6_e3m2fn).astype(np.float64) for each in (x, w))
    assert module.y.dtype == np.float32
    close(module.y, x6 @ w6, 2e-6)
    assert (module.x.codes.nbytes, module.w.codes.nbytes) == (20 * 27, 33 * 6)
    assert '"fp6_e3m2 @accum(f32), 4 codes in 3 bytes"' in op.gemm.inspect_ir("graph")
