"""Methods of values, as NumPy's arrays and PyTorch's tensors have them, with the operators' meaning and hints."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportCallIssue=false

import inspect
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from support.operators import Array, close, drawn
from tessera import graph, op
from tessera.core.arrays.array_methods import OPERATORS, ArrayMethods
from tessera.core.errors.catalog import ArgumentCount, CannotTrace, OperandMismatch
from tessera.core.placement.mesh_array import MeshArray
from tessera.core.settings import overridden
from tessera.graphs.tracer import Tracer

X = drawn((1, 3, 4), np.float64, 0, 0.5, 2.0)
NUMPY: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum((0, 2)), "max": lambda x: x.max(-1, keepdims=True), "min": lambda x: x.min(),
    "mean": lambda x: x.mean(axis=1), "var": lambda x: x.var(-1, ddof=1), "std": lambda x: x.std(axis=(1, 2)),
    "prod": lambda x: x.prod(2), "any": lambda x: (x > 1.8).any(-1), "all": lambda x: (x > 0.6).all(axis=1),
    "argmax": lambda x: x.argmax(), "argmax of an axis": lambda x: x.argmax(1), "argmin": lambda x: x.argmin(axis=2),
    "cumsum": lambda x: x.cumsum(), "cumsum of an axis": lambda x: x.cumsum(1), "cumprod": lambda x: x.cumprod(-1),
    "clip": lambda x: x.clip(0.75, 1.5), "round": lambda x: x.round(), "squeeze": lambda x: x.squeeze(),
    "squeeze of an axis": lambda x: x.squeeze(0), "flatten": lambda x: x.flatten(),
    "swapaxes": lambda x: x.swapaxes(0, -1), "argsort": lambda x: x.argsort(),
    "ravel": lambda x: x.ravel(), "take": lambda x: x.take([2, -1, 0]), "take along an axis": lambda x: x.take([[2], [0]], axis=1),
    "dot": lambda x: x[0].dot(x[0, 1]), "dot of a number": lambda x: x.dot(2.0), "mT": lambda x: x.mT,
    "argsort of an axis": lambda x: x.argsort(axis=1), "T": lambda x: x.T if isinstance(x, Tracer) else x.swapaxes(-1, -2),
}  # fmt: skip
"""Methods that NumPy's arrays have, with the same arguments."""
OTHERS: dict[str, tuple[Callable[[Array], Array], Callable[[NDArray[Any]], NDArray[Any]]]] = {
    "abs": (lambda x: (-x).abs(), np.abs), "exp": (lambda x: x.exp(), np.exp), "log": (lambda x: x.log(), np.log),
    "sqrt": (lambda x: x.sqrt(), np.sqrt), "tanh": (lambda x: x.tanh(), np.tanh),
    "unsqueeze": (lambda x: x.unsqueeze(-1), lambda x: x[..., None]),
    "permute": (lambda x: x.permute(2, 0, 1), lambda x: x.transpose(2, 0, 1)),
    "permute by a sequence": (lambda x: x.permute((-1, 0, 1)), lambda x: x.transpose(2, 0, 1)),
    "flip": (lambda x: x.flip(), np.flip), "flip an axis": (lambda x: x.flip(1), lambda x: np.flip(x, 1)),
    "roll": (lambda x: x.roll(2, -1), lambda x: np.roll(x, 2, -1)), "tril": (lambda x: x.tril(), np.tril),
    "triu": (lambda x: x.triu(k=1), lambda x: np.triu(x, 1)), "sort": (lambda x: x.sort(), np.sort),
    "sort falling": (lambda x: x.sort(1, descending=True), lambda x: -np.sort(-x, 1)),
    "flatten two": (lambda x: x.flatten(1, -1), lambda x: x.reshape(1, 12)),
    "unfold": (lambda x: x.unfold(2, 2, 1), lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, 2)),
}  # fmt: skip
"""Methods of PyTorch's tensors, and what they give in NumPy."""


def interpreted(function: Callable[..., Any], *arrays: NDArray[Any]) -> NDArray[Any]:
    with overridden(target="interpret"):
        return np.asarray(graph.module("f")(function)(*arrays))


@pytest.mark.parametrize("name", NUMPY)
def test_methods_of_numpys_arrays(name: str):
    want = np.asarray(NUMPY[name](X))
    got = interpreted(NUMPY[name], X)
    assert got.dtype == want.dtype
    close(got, want, 1e-13)


@pytest.mark.parametrize("name", OTHERS)
def test_methods_of_pytorchs_tensors(name: str):
    method, want = OTHERS[name]
    close(interpreted(method, X), want(X), 1e-13)


RENAMED = {"unsqueeze": "expand_dims", "permute": "transpose", "ravel": "flatten", "take": "gather", "dot": "matmul"}
"""Operators under other names than those of the methods, which have parameters of their own."""


def methods() -> list[str]:
    functions = [name for name, method in vars(ArrayMethods).items() if inspect.isfunction(method)]
    return [name for name in functions if name[0] != "_" and name not in ArrayMethods.__abstractmethods__]


def test_every_method_is_an_operator_and_tested():
    assert OPERATORS["squeeze"] is op.squeeze
    for name in methods():
        assert RENAMED.get(name, name) in op.__all__, name
        assert name in {title.split()[0] for title in (*NUMPY, *OTHERS)}, name
        assert (getattr(ArrayMethods, name).__doc__ or "").strip(), name
    assert issubclass(Tracer, ArrayMethods)
    assert issubclass(MeshArray, ArrayMethods)


@pytest.mark.parametrize("name", methods())
def test_parameters_are_those_of_the_operators(name: str):
    if name in RENAMED:
        return
    own = list(inspect.signature(getattr(ArrayMethods, name)).parameters)[1:]
    assert own == list(inspect.signature(OPERATORS[name]).parameters)[1:]


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        (lambda x: x.sum(dim=0), "sum has no parameter dim", "did you mean axis=?"),
        (lambda x: x.mean(keepdim=True), "mean has no parameter keepdim", "did you mean keepdims=?"),
        (lambda x: x.squeeze(dim=0), "squeeze has no parameter dim", "did you mean axis=?"),
        (lambda x: x.unsqueeze(dim=0), "unsqueeze has no parameter dim", "did you mean axis=?"),
        (lambda x: x.std(correction=0), "std has no parameter correction", "did you mean ddof=?"),
        (lambda x: x.flatten(start_dim=1), "flatten has no parameter start_dim", "did you mean start=?"),
        (lambda x: x.clip(min=0), "clip has no parameter min", "did you mean low=?"),
        (lambda x: x.roll(1, dims=0), "roll has no parameter dims", "did you mean axis=?"),
        (lambda x: x.sort(order="x"), "sort has no parameter order", "its parameters are axis, descending"),
    ],
)
def test_keywords_of_other_libraries(call: Callable[[Array], Array], message: str, hint: str):
    with pytest.raises(ArgumentCount, match=rf"^[^\n]*(?:{message})") as caught:
        interpreted(call, X)
    assert hint in str(caught.value)
    assert "test_array_methods.py, line" in str(caught.value)


def test_mistakes_are_those_of_the_operators():
    with pytest.raises(OperandMismatch, match="axis 1 of") as caught:
        interpreted(lambda x: x.squeeze(1), X)
    assert "test_array_methods.py, line" in str(caught.value)
    with pytest.raises(OperandMismatch, match="is no order of the axes"):
        interpreted(lambda x: x.permute(), X)
    with pytest.raises(ValueError, match=r"matrices have two axes or more, and \(4,\) has 1"):
        interpreted(lambda x: x[0, 0].mT, X)
    with pytest.raises(TypeError, match=r"round\(x, 2\) is op\.round\(x \* 1e2\) / 1e2"):
        interpreted(lambda x: round(x, 2), X)
    with pytest.raises(AttributeError, match=r"has no attribute 'view': write op\.reshape\(x, shape\)"):
        interpreted(lambda x: x.view(12), X)
    kept: list[Tracer] = []
    interpreted(lambda x: kept.append(x) or x * 1.0, X)
    with pytest.raises(CannotTrace, match="no graph is being captured"):
        kept[0].squeeze()


def test_pythons_functions_of_numbers():
    np.testing.assert_array_equal(interpreted(lambda x: round(x * 3), X), np.round(X * 3))
    for function in (lambda x: divmod(x, 0.75), lambda x: divmod(7.0, x)):
        for n in range(2):
            np.testing.assert_array_equal(interpreted(lambda x, n=n, f=function: f(x)[n], X), function(X)[n])


def test_operators_are_loaded_by_the_first_method():
    script = (
        "import numpy as np; from tessera.graphs.function import GraphFunction; import sys;"
        "assert 'tessera.ops.op' not in sys.modules;"
        "graph = GraphFunction(lambda x: x.squeeze()).graph_for(np.ones((1, 2))).graph;"
        "print(graph.outputs[0].type)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "f64[2]\n"
