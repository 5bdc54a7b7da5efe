"""Arithmetic on tensors of a mesh, with each other, with arrays of NumPy and with numbers."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

import operator
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import basic_indices

from tessera import dist, graph, op
from tessera.core.placement.mesh import Mesh
from tessera.core.settings import overridden

MESH = Mesh.of("tp", range(2))


def stored(array: np.ndarray, *dims: str) -> dist.Tensor:
    return dist.array(array, dist.ShardSpec(dims, ("tp",) * len(dims)), MESH)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32) + 3


BINARY: list[Callable[[Any, Any], Any]] = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
    operator.matmul, operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne,
]  # fmt: skip
BITS: list[Callable[[Any, Any], Any]] = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]


@pytest.mark.parametrize("compute", [*BINARY, *BITS], ids=lambda each: each.__name__)
def test_each_operator(compute: Callable[[Any, Any], Any]):
    x, y = normal(4, 4), normal(4, 4, seed=1)
    y[0] = x[0]
    if compute in BITS:
        x, y = x.astype(np.int32), y.astype(np.int32)
    with overridden(target="interpret"):
        for a, b in ((stored(x, "row"), stored(y, "row")), (stored(x, "row"), y), (x, stored(y, "row"))):
            result: object = compute(a, b)
            assert isinstance(result, dist.Tensor)
            want = compute(x, y)
            assert result.dtype == want.dtype
            np.testing.assert_allclose(np.asarray(result), want, rtol=1e-5)


def test_each_operator_of_one():
    x = normal(4, 3) - 3
    computed: list[tuple[Callable[[Any], Any], Any]] = [
        (operator.neg, -x),
        (abs, abs(x)),
        (lambda x: ~(x > 0), ~(x > 0)),
    ]
    with overridden(target="interpret"):
        for compute, want in computed:
            result: object = compute(stored(x, "col"))
            assert isinstance(result, dist.Tensor)
            np.testing.assert_array_equal(np.asarray(result), want)


METHODS: list[Callable[[Any], Any]] = [
    lambda x: x.sum(0), lambda x: x.max(), lambda x: x.min(axis=1, keepdims=True), lambda x: x.mean(-1),
    lambda x: x.var(axis=0, ddof=1), lambda x: x.std(), lambda x: x.prod(1), lambda x: (x > 3).any(0),
    lambda x: (x > 1).all(), lambda x: x.argmax(1), lambda x: x.argmin(), lambda x: x.cumsum(0),
    lambda x: x.cumprod(-1), lambda x: x.clip(2.5, 3), lambda x: x.round(), lambda x: x.T, lambda x: x.transpose(),
    lambda x: x.transpose(1, 0), lambda x: x.transpose((0, 1)), lambda x: x.reshape(2, -1), lambda x: x.reshape((8, 3)),
    lambda x: x.flatten(), lambda x: x.swapaxes(0, 1), lambda x: x.astype(np.float16), lambda x: x.astype("float64"),
    lambda x: x.astype(np.dtype(np.int32)), lambda x: (x - x.mean(0)) / x.std(0), lambda x: x.argsort(0),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(METHODS)))
@pytest.mark.parametrize("dim", ["row", "col"])
def test_methods_of_numpys_arrays(number: int, dim: str):
    x = normal(4, 6)
    want = np.asarray(METHODS[number](x))
    with overridden(target="interpret"):
        result: object = METHODS[number](stored(x, dim))
    assert isinstance(result, dist.Tensor)
    assert result.dtype == want.dtype
    np.testing.assert_allclose(np.asarray(result), want, rtol=1e-5)


@given(
    data=st.data(), kind=st.sampled_from(["set", "add", "multiply", "max", "min"]), dim=st.sampled_from(["row", "col"])
)
@settings(max_examples=20, deadline=None)
def test_updates(data: st.DataObject, kind: str, dim: str):
    x = normal(4, 6)
    index = data.draw(basic_indices(x.shape, allow_newaxis=False))
    new = np.float32(data.draw(st.integers(-9, 9)))
    want = x.copy()
    apply: dict[str, Callable[[Any, Any], Any]] = {
        "set": lambda _, b: b,
        "add": operator.add,
        "multiply": operator.mul,
        "max": np.maximum,
        "min": np.minimum,
    }
    want[index] = apply[kind](want[index], new)
    with overridden(target="interpret"):
        place = stored(x, dim).at[index]
        np.testing.assert_array_equal(np.asarray(getattr(place, kind)(new)), want)
    np.testing.assert_array_equal(place.get(), x[index])


def test_updates_by_arrays_of_indices():
    x, rows = normal(4, 6), np.array([0, 3, 0])
    want = x.copy()
    np.add.at(want, rows, np.float32(2))
    with overridden(target="interpret"):
        np.testing.assert_array_equal(np.asarray(stored(x, "row").at[rows].add(2.0)), want)
        np.testing.assert_array_equal(np.asarray(op.at(stored(x, "row"))[1:3].set(x[:2])), [x[0], x[0], x[1], x[3]])


CLOSED_OVER: list[Callable[[Any, Any], Any]] = [
    lambda x, w: x + w[1:3, :], lambda x, w: x + w[0], lambda x, w: x * (w == 1).sum(), lambda x, w: x - (-w).max(0),
    lambda x, w: x @ w.T, lambda x, w: w[:2] - x, lambda x, w: x + np.float32(2) * w[2],
]  # fmt: skip


def apply_to(compute: Callable[[Any, Any], Any], w: dist.Tensor) -> Callable[[Any], Any]:
    return lambda x: compute(x, w)


@pytest.mark.parametrize("number", range(len(CLOSED_OVER)))
def test_what_a_graph_reads_of_an_array_that_it_closes_over_is_read_at_each_call(number: int):
    x, w = normal(2, 3), stored(normal(4, 3, seed=1), "row")
    with overridden(target="interpret"):
        reading = graph.module("reading")(apply_to(CLOSED_OVER[number], w))
        for seed in range(2):
            w[...] = normal(4, 3, seed=seed + 5)
            w[1, 1] = 1
            np.testing.assert_allclose(np.asarray(reading(x)), CLOSED_OVER[number](x, np.asarray(w)), rtol=1e-5)


def test_numbers():
    x = normal(4, 6)
    made = 1.0 - stored(x, "col") * 2.0
    assert isinstance(made, dist.Tensor)
    assert str(made.type) == "f32[4, 6@tp]"
    np.testing.assert_allclose(np.asarray(made), 1.0 - x * 2.0, rtol=1e-6)


@pytest.mark.parametrize(
    "first", ["from tessera import dist", "import tessera.dist as dist", "from tessera.dist import Mesh"]
)
def test_it_is_there_however_dist_was_imported(first: str):
    """Each way of importing is tried in an interpreter that has loaded nothing."""
    lines = (
        first,
        "from tessera import dist",
        "x = dist.tensor((4,), dist.ShardSpec(('row',), ('tp',)), dist.Mesh(['tp'], range(2)))",
        "x[...] = 2",
        "print(sum(x + x * 2.0))",
    )
    command = [sys.executable, "-c", "\n".join(lines)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "24.0"
