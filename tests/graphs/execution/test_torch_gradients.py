"""Gradients of PyTorch through graphs: with PyTorch where it is installed, and with what a node asks of it everywhere."""

# Tensors and operators have no types that can be told.
# pyright: reportArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownParameterType=false
# pyright: reportAttributeAccessIssue=false

import sys
from collections.abc import Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tessera
from support.operators import TARGETS, Array, close, drawn
from tessera import graph, op
from tessera.core.settings import overridden
from tessera.graphs.execution import torch_gradients


class Tensor:
    """As much of a tensor as a node asks for."""

    def __init__(self, value: float, *, requires_grad: bool = False, floating: bool = True) -> None:
        self.value, self.requires_grad, self.floating = value, requires_grad, floating

    def is_floating_point(self) -> bool:
        return self.floating


class Function:
    """As much of `torch.autograd.Function` as there is to a forward pass."""

    made: Any = None

    @classmethod
    def apply(cls, *inputs: object) -> tuple[Tensor, ...]:
        context = SimpleNamespace(plain=())
        context.save_for_backward = lambda *tensors: setattr(context, "saved_tensors", tensors)
        context.mark_non_differentiable = lambda *tensors: setattr(context, "plain", tensors)
        context.needs_input_grad = tuple(getattr(each, "requires_grad", False) for each in inputs)
        results = cls.forward(context, *inputs)  # type: ignore[attr-defined]
        Function.made = (cls, context)
        return results


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    torch: Any = ModuleType("torch")
    torch.Tensor, torch.autograd = Tensor, SimpleNamespace(Function=Function)
    torch.is_grad_enabled = lambda: True
    monkeypatch.setitem(sys.modules, "torch", torch)
    return torch


def test_which_arrays_are_recorded(stand_in: ModuleType):
    constant, parameter = Tensor(1.0), Tensor(2.0, requires_grad=True)
    assert torch_gradients.requires_gradients([np.ones(3), parameter])
    assert not torch_gradients.requires_gradients([np.ones(3), constant])
    stand_in.is_grad_enabled = lambda: False  # type: ignore[attr-defined]
    assert not torch_gradients.requires_gradients([parameter])


@pytest.mark.usefixtures("stand_in")
def test_a_node_pulls_what_is_needed_and_nothing_else():
    x, w, table = Tensor(3.0), Tensor(5.0, requires_grad=True), np.ones(2)
    calls: list[tuple[list[object], list[object], tuple[int, ...]]] = []

    def run(*arrays: object) -> tuple[object, ...]:
        assert arrays == (x, table, w)
        return Tensor(15.0), Tensor(4.0, floating=False)

    def pull(arrays: Sequence[object], cotangents: Sequence[object], numbers: tuple[int, ...]) -> tuple[object, ...]:
        calls.append((list(arrays), list(cotangents), numbers))
        return ("gradient of w",)

    results = torch_gradients.recorded(run, pull, [x, table, w])
    node, context = Function.made
    assert context.plain == (results[1],)
    assert context.saved_tensors == (x, w)
    assert node.backward(context, "cotangent", "zeros") == (None, None, None, None, "gradient of w")
    assert calls == [([x, table, w], ["cotangent", "zeros"], (2,))]


def _torch() -> Any:  # noqa: ANN401
    return pytest.importorskip("torch")


def _device(target: str) -> str:
    return "cuda" if target == "cuda" else "cpu"


@pytest.mark.parametrize("target", TARGETS)
def test_gradients_of_tensors(target: str):
    """Parameters as arguments and closed over, several outputs, an integer one, and what PyTorch does around."""
    torch, device = _torch(), _device(target)
    x = torch.tensor(drawn((5, 7), np.float64, 1), device=device)
    w = torch.tensor(drawn((7, 3), np.float64, 2), device=device, requires_grad=True)
    b = torch.nn.Parameter(torch.tensor(drawn((3,), np.float64, 3), device=device))

    def layered(x: Array, w: Array) -> tuple[Array, Array, Array]:
        y = op.tanh(op.matmul(x, w) + b)
        return y, op.argmax(y), op.sum(y * y, -1)

    layer = graph.module("layer")(layered)
    with overridden(target=target):
        for _ in range(3):  # the first call, and quick ones
            w.grad = b.grad = None
            y, index, total = layer(x * 2.0, w)
            assert y.grad_fn is not None
            assert not index.requires_grad
            ((y**2).sum() + total.sum() * 3.0).backward()
            want_w, want_b = (each.detach().clone().requires_grad_() for each in (w, b))
            wanted = torch.tanh(x * 2.0 @ want_w + want_b)
            (4.0 * (wanted**2)).sum().backward()
            close(w.grad.cpu(), want_w.grad.cpu(), 1e-12)
            close(b.grad.cpu(), want_b.grad.cpu(), 1e-12)
        with torch.no_grad():
            assert layer(x, w)[0].grad_fn is None
        assert layer(x.detach(), w.detach())[2].requires_grad  # b is closed over


@pytest.mark.parametrize("target", TARGETS)
def test_second_derivatives_of_tensors(target: str):
    torch = _torch()
    x = torch.tensor(drawn((6,), np.float64, 1), device=_device(target), requires_grad=True)
    with overridden(target=target):
        (slope,) = torch.autograd.grad(op.sum(op.tanh(x) * x), x, create_graph=True)
        (curve,) = torch.autograd.grad(slope.sum(), x)
    values = x.detach().cpu().numpy()
    t = np.tanh(values)
    d = 1 - t * t
    close(slope.detach().cpu(), t + values * d, 1e-12)
    close(curve.cpu(), 2 * d - 2 * values * t * d, 1e-12)


def test_gradcheck():
    torch = _torch()
    x, w = (torch.tensor(drawn(s, np.float64, 4), requires_grad=True) for s in ((1, 2, 5, 6), (3, 2, 3, 3)))
    assert torch.autograd.gradcheck(lambda x, w: op.gelu(op.conv2d(x, w, padding=1)), (x, w))


def test_arrays_of_numpy_are_no_matter_of_torch():
    x = drawn((3,), np.float64, 1)
    np.testing.assert_array_equal(tessera.grad(lambda x: op.sum(x * x))(x), 2 * x)
