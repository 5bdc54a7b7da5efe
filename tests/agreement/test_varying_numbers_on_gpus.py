"""Python numbers that change from call to call, on GPUs: numbers travel to the arrays of each library, on its stream."""

# Arrays of other libraries have no types here.
# pyright: reportArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

from typing import Any, TypeAlias

import numpy as np
import pytest

from tessera import graph, op
from tessera.runtime.memory.owned import to_device

Array: TypeAlias = Any  # of any library
module: Any = graph.module  # its overloads keep what it decorates from being seen as a function


def adam(w: Array, g: Array, rate: float, step: int) -> Array:
    moment = 0.9 * w + (1 - 0.9) * g
    return op.where(moment > rate, w - rate * moment / (1 - 0.9**step) * 0.5, op.exp(w * rate) - g / step)


def arrays(library: str, *values: np.ndarray) -> list[Array]:
    if library == "numpy":
        return list(values)
    if library == "tessera":
        return [to_device(value) for value in values]
    other = pytest.importorskip(library)
    return [other.asarray(v, device="cuda") if library == "torch" else other.asarray(v) for v in values]


def host(value: Array) -> np.ndarray:
    if hasattr(value, "cpu"):
        return value.cpu().numpy()
    return value.get() if hasattr(value, "get") else np.asarray(value)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("library", ["numpy", "tessera", "torch", "cupy"])
def test_the_bits_are_those_of_literals_on_the_host(library: str, dtype: type):
    rng = np.random.default_rng(5)
    w, g = (rng.standard_normal((1000, 257)).astype(dtype) for _ in range(2))
    function = module(target="cuda")(adam)
    given = arrays(library, w, g)
    for step in range(1, 9):
        got = host(function(*given, 0.7 / step, step))
        want = module(target="cpu")(adam)(w, g, 0.7 / step, step)
        assert got.tobytes() == want.tobytes(), step


@pytest.mark.gpu
def test_numbers_follow_the_stream_of_their_arrays():
    """Many launches that wait on a stream for another kernel: each has the number that it was called with."""
    torch = pytest.importorskip("torch")
    function = module(lambda x, s: x * s)
    x = torch.ones(1 << 20, device="cuda")
    for n in range(4):
        function(x, float(n))
    stream, results = torch.cuda.Stream(), list[Array]()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)
        results += [function(x, n + 0.5) for n in range(50)]
    stream.synchronize()
    for n, result in enumerate(results):
        assert bool((result == n + 0.5).all()), n


@pytest.mark.gpu
def test_a_captured_call_keeps_its_number():
    torch = pytest.importorskip("torch")
    function = module(lambda x, s: x * s)
    x = torch.ones(1000, device="cuda")
    for n in range(5):
        function(x, float(n))
    function(x, 7.5)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        y = function(x, 7.5)
    x.fill_(2.0)
    function(x, 9.0)
    captured.replay()
    torch.cuda.synchronize()
    assert bool((y == 15.0).all())


@pytest.mark.gpu
def test_gradients_of_torch_pass_through():
    torch = pytest.importorskip("torch")
    function = module(lambda x, s: op.sin(x * s))
    x = torch.linspace(0, 1, 1000, device="cuda", requires_grad=True)
    for n in range(1, 8):
        x.grad = None
        function(x, 0.5 * n).sum().backward()
        torch.testing.assert_close(x.grad, torch.cos(x.detach() * 0.5 * n) * 0.5 * n)
