"""Functions with symbolic extents: one plan for all of them, and that plan is the one that each would get alone."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessera import graph, op
from tessera.core.base.dtypes import f32
from tessera.core.errors.catalog import OperandMismatch, UnknownLevel
from tessera.core.graph.graph import Tensor
from tessera.core.settings import overridden
from tessera.graphs.function import GraphFunction
from tessera.graphs.symbolic import ArrayOf, SymbolicExecutable, SymbolicPlan, bound, declared_arrays

Array: TypeAlias = Any
RANDOM = np.random.default_rng(3)


def elements(x: Array, y: Array) -> Array:
    return op.tanh(x * y[:, None]) + 1


def rows(x: Array, y: Array) -> Array:
    return op.softmax(x - op.max(y)) / op.sum(op.exp(x), axis=0)


def products(x: Array, y: Array) -> Array:
    return op.gelu(op.matmul(x.T, x)) + op.sum(y)


def attention(x: Array, y: Array) -> Array:
    scores = op.matmul(x, x.T) * 0.125 + y
    return op.matmul(op.softmax(scores), x)


def parts(x: Array, y: Array) -> Array:
    return op.concat([op.reshape(x, (x.shape[0] * x.shape[1],)), y]), op.pad(x, ((1, 2), (0, 3))), x[1:, ::2]


def masked(x: Array, y: Array) -> Array:
    seen = op.arange(x.shape[0])[:, None] >= op.arange(x.shape[0])
    return op.matmul(op.softmax(op.where(seen, op.matmul(x, x.T), -np.inf)), x) * y[:, None]


FUNCTIONS: tuple[Callable[[Array, Array], Array], ...] = (elements, rows, products, attention, parts, masked)
EXTENTS = st.one_of(st.integers(1, 40), st.sampled_from((64, 128, 129, 300)))


def made(function: Callable[..., Array], **annotations: str) -> "GraphFunction[..., Array]":
    """Return a graph of a function whose parameters are declared so."""

    def declared(*arguments: Array) -> Array:
        return function(*arguments)

    names = ", ".join(f"{name}: {text!r}" for name, text in annotations.items())
    space: dict[str, Any] = {"declared": declared}
    exec(f"def {function.__name__}({names}): return declared({', '.join(annotations)})", space)
    return graph.module(function.__name__, algebra="real")(space[function.__name__])


SYMBOLIC = [made(function, x="f32[n, m]", y="f32[n]") for function in FUNCTIONS]
STATIC = [made(function, x="", y="") for function in FUNCTIONS]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(FUNCTIONS) - 1), EXTENTS, EXTENTS)
def test_the_plan_is_that_of_the_extents(number: int, n: int, m: int):
    arrays = [RANDOM.standard_normal(shape).astype(np.float32) for shape in ((n, m), (n,))]
    symbolic, static = SYMBOLIC[number], STATIC[number]
    one, other = symbolic.executable_for(*arrays), static.executable_for(*arrays)
    assert isinstance(one, SymbolicExecutable) or number == len(FUNCTIONS) - 1 or min(n, m) < 17 or n == m
    places = 'loc("'  # texts are those of two functions
    texts = [[line.split(places)[0] for line in each.inspect_ir("rewritten", *arrays).split("\n")]
             for each in (symbolic, static)]  # fmt: skip
    assert texts[0] == texts[1]
    assert one.schedule() == other.schedule()


@pytest.mark.parametrize("number", range(len(FUNCTIONS)))
@pytest.mark.parametrize("target", ["interpret", "cpu"])
def test_bits_are_those_of_the_extents(number: int, target: str):
    for n, m in ((70, 33), (24, 40), (129, 17)):
        arrays = [RANDOM.standard_normal(shape).astype(np.float32) for shape in ((n, m), (n,))]
        with overridden(target=target):
            found, wanted = SYMBOLIC[number](*arrays), STATIC[number](*arrays)
        for a, b in zip(*(each if isinstance(each, tuple) else (each,) for each in (found, wanted)), strict=True):
            np.testing.assert_array_equal(a, b)


def test_extents_share_a_plan():
    run = made(attention, x="f32[n, 64]", y="f32[n]")
    plans = {id(plan_of(run, np.ones((n, 64), np.float32), np.ones(n, np.float32))) for n in (300, 301, 999, 2048)}
    assert len(plans) == 1


def plan_of(run: "GraphFunction[..., Array]", *arrays: Array) -> SymbolicPlan:
    found = run.executable_for(*arrays)
    assert isinstance(found, SymbolicExecutable)
    return found.symbolic


def test_a_rule_that_depends_on_an_extent_divides_them():
    """A row of more than 16384 elements is no tile: there are two plans, and each says for what it is."""
    run = made(softmax, x="f32[3, n]")
    short, long = (plan_of(run, np.ones((3, n), np.float32)) for n in (5000, 20000))
    assert short is not long
    assert plan_of(run, np.ones((3, 16384), np.float32)) is short
    assert plan_of(run, np.ones((3, 16385), np.float32)) is long
    assert "//   n <= 16384\n" in short.text()
    assert "//   n > 16384\n" in long.text()
    text = run.inspect_ir("symbolic", np.ones((3, 6000), np.float32))
    assert text == short.text()
    assert '%x: tensor<3x?xf32, "n">' in text
    assert "[rows] over i=3 j=n*" in text


def softmax(x: Array) -> Array:
    return op.softmax(x)


def test_a_loop_over_an_extent_is_captured_for_each():
    def unrolled(x: Array) -> Array:
        total = x[0]
        for row in range(1, x.shape[0]):
            total = total + x[row]
        return total

    run = made(unrolled, x="f32[n, 4]")
    for n in (3, 5, 2):
        x = RANDOM.standard_normal((n, 4)).astype(np.float32)
        np.testing.assert_allclose(run(x), x.sum(0), rtol=1e-5, atol=1e-5)
        assert not isinstance(run.executable, SymbolicExecutable)
    with pytest.raises(UnknownLevel, match="has no level 'symbolic'"):
        run.inspect_ir("symbolic")


def test_a_mean_is_planned_for_each_extent():
    run = made(average, x="f32[n, 4]")
    for n in (3, 5, 7, 3):
        x = RANDOM.standard_normal((n, 4)).astype(np.float32)
        np.testing.assert_allclose(run(x), x.mean(0), rtol=1e-5, atol=1e-6)
        assert not isinstance(run.executable, SymbolicExecutable)


def average(x: Array) -> Array:
    return op.mean(x, axis=0)


def test_loops_calls_and_closed_over_arrays_are_planned_for_each_extent():
    held = np.ones(4, np.float32)

    def scanned(x: Array) -> Array:
        return op.scan(lambda carry, row: (carry + row, carry), op.zeros((4,)), x)[0]

    def closing(x: Array) -> Array:
        return x + held

    for function, wanted in ((scanned, lambda x: x.sum(0)), (closing, lambda x: x + 1)):
        run = made(function, x="f32[n, 4]")
        for n in (3, 5):
            x = RANDOM.standard_normal((n, 4)).astype(np.float32)
            np.testing.assert_allclose(run(x), wanted(x), rtol=1e-5, atol=1e-5)
            assert not isinstance(run.executable, SymbolicExecutable)


def test_arrays_have_to_be_as_declared():
    run = made(elements, x="f32[n, 4]", y="f32[n]")

    def refused(x: Array, y: Array) -> str:
        with pytest.raises(OperandMismatch) as mistake:
            run(x, y)
        return mistake.value.message

    x, y = np.ones((3, 4), np.float32), np.ones(3, np.float32)
    run(x, y)
    assert refused(x, y[:2]) == "n is 3 in x and 2 in y"
    assert refused(x[:, :3], y) == "x is f32[3, 3], and is declared with an extent of 4"
    assert refused(x.astype(np.float64), y) == "x is f64[3, 4], and is declared as f32[n, 4]"
    assert refused(x, y[:, None]) == "y is f32[3, 1], and is declared as f32[n]"


def test_declarations():
    space: dict[str, Any] = {}
    exec(
        'def f(a: "f32[n, 4]", b: "f32 [ n ]", c: "f16[3]", d: "nothing[n]", e: int, g: "f32[n + 1]") -> "f32[n]": ...',
        space,
    )
    assert declared_arrays(space["f"]) == {"a": ArrayOf("f32", ("n", 4)), "c": ArrayOf("f16", (3,))}
    exec('def f(c: "f16[3]"): ...', space)
    assert declared_arrays(space["f"]) == {}
    assert declared_arrays(print) == {}
    kinds = [Tensor(f32, (5, 4)), Tensor(f32, (6,))]
    assert bound([("a", ArrayOf("f32", ("n", 4))), ("b", None)], kinds) == {"n": 5}
