"""Loops and branches: values, derivatives, types, randomness, and what they refuse."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUntypedFunctionDecorator=false, reportUnknownLambdaType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessera
from support.operators import FLOATS, TARGETS, TOLERANCE, Array, close, drawn
from tessera import graph, op
from tessera.core.errors.catalog import CannotTrace, NotDifferentiable, OperandMismatch
from tessera.core.graph.verify import verify
from tessera.core.settings import overridden
from tessera.graphs.function import GraphFunction
from tessera.runtime.interpret.graph import evaluate

Step = Callable[[Any, Any], tuple[Any, Any]]


def unrolled(step: Step, carry: Array, xs: Array, *, reverse: bool = False) -> tuple[Any, Any]:
    """Do what a scan does with a Python loop over the slices of one array."""
    outputs: list[Any] = []
    for number in reversed(range(len(xs))) if reverse else range(len(xs)):
        carry, y = step(carry, xs[number])
        outputs.append(y)
    return carry, op.stack(outputs[::-1] if reverse else outputs, 0)


def rnn(W: Array, h0: Array, xs: Array) -> Array:
    def step(h: Array, x: Array) -> tuple[Array, Array]:
        h = op.tanh(h @ W + x)
        return h, op.sum(h * h)

    return op.scan(step, h0, xs)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("steps", "width"), [(1, 1), (2, 3), (5, 4), (6, 17)])
def test_a_recurrent_network(target: str, steps: int, width: int):
    W, h, xs = (
        drawn((width, width), np.float32, low=-0.5, high=0.5),
        drawn((width,), np.float32),
        drawn((steps, width), "f"),
    )
    with overridden(target=target):
        last, norms = graph.module("rnn")(rnn)(W, h, xs)
        at_once = rnn(W, h, xs)
    state, wanted = h.astype(np.float64), []
    for x in xs:
        state = np.tanh(state @ W + x)
        wanted.append((state * state).sum())
    close(last, state, 2e-5)
    close(norms, wanted, 2e-5)
    np.testing.assert_array_equal(last, at_once[0])
    np.testing.assert_array_equal(norms, at_once[1])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("reverse", [False, True])
def test_running_products_of_every_float(target: str, name: str, reverse: bool):
    xs = drawn((4, 3), FLOATS[name], low=0.5, high=1.5)
    with overridden(target=target):
        last, before = op.scan(lambda c, x: (c * x, c), xs[0] * 0 + 1, xs, reverse=reverse)
    wide = xs.astype(np.float64)
    products = np.cumprod(wide[::-1] if reverse else wide, 0)
    assert last.dtype == xs.dtype
    close(last, products[-1], 3 * TOLERANCE[name])
    shifted = np.concatenate([np.ones((1, 3)), products[:-1]])
    close(before, shifted[::-1] if reverse else shifted, 3 * TOLERANCE[name])


@pytest.mark.parametrize("target", TARGETS)
def test_steps_without_arrays(target: str):
    with overridden(target=target):
        last, counts = op.scan(lambda c, _: (c * 2 + 1, c), np.int64(0), None, length=5)
        start, none = op.scan(lambda c, _: (c + 1.0, c), np.ones(3, "f"), length=0)
    assert last == 31
    np.testing.assert_array_equal(counts, [0, 1, 3, 7, 15])
    np.testing.assert_array_equal(start, np.ones(3, "f"))
    assert none.shape == (0, 3)


def test_no_elements():
    last, ys = op.scan(lambda c, x: (c + x, x), np.zeros((2, 0), "f"), np.zeros((3, 2, 0), "f"))
    assert last.shape == (2, 0)
    assert ys.shape == (3, 2, 0)


@dataclass(frozen=True)
class State:
    h: Any
    count: Any


@pytest.mark.parametrize("target", TARGETS)
def test_nested_states_and_numbers(target: str):
    """A Python number that a state begins with takes the dtype that comes back; what is no array stays as it is."""
    xs = {"a": drawn((4, 2), np.float32), "b": np.arange(4)}

    def step(state: State, x: dict[str, Any]) -> tuple[State, tuple[Any, dict[str, Any], None]]:
        return State(state.h + x["a"] * x["b"], state.count + x["a"][0]), (state.h, {"n": x["b"] + 1}, None)

    with overridden(target=target):
        last, (hs, counts, none) = op.scan(step, State(np.zeros(2, "f"), 0), xs)
    products = xs["a"] * np.arange(4, dtype="f")[:, None]
    close(last.h, products.sum(0), 1e-6)
    close(last.count, xs["a"][:, 0].sum(), 1e-6)
    assert last.count.dtype == np.float32
    close(hs, np.cumsum(products, 0) - products, 2e-6)
    np.testing.assert_array_equal(counts["n"], [1, 2, 3, 4])
    assert none is None


@pytest.mark.parametrize("target", TARGETS)
def test_a_loop_in_a_loop(target: str):
    A = drawn((3, 4), np.float32)

    def row(total: Array, values: Array) -> tuple[Array, Array]:
        inner, partial = op.scan(lambda c, v: (c + v * total, c), values[0] * 0, values)
        return total + inner, partial

    with overridden(target=target):
        got, parts = op.scan(row, np.float32(1), A)
    total, wanted = 1.0, []
    for values in A.astype(np.float64):
        sums = np.cumsum(values * total)
        wanted.append(sums - values * total)
        total += sums[-1]
    close(got, total, 1e-5)
    close(parts, wanted, 1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_what_a_body_uses_of_the_outside_may_be_indexed_by_the_step(target: str):
    table = drawn((5, 3), np.float32)

    @graph.module("walk")
    def walk(table: Array, order: Array) -> Array:
        doubled = table * 2
        return op.scan(lambda c, i: (c + doubled[i], table[i]), table[0] * 0, order)

    order = np.array([3, 0, 3, 4])
    with overridden(target=target):
        total, rows = walk(table, order)
    close(total, 2 * table[order].sum(0), 1e-6)
    np.testing.assert_array_equal(rows, table[order])


@pytest.mark.parametrize("target", TARGETS)
def test_random_numbers_by_step_are_those_of_unrolled_code(target: str):
    def noise(key: Array, steps: Array) -> Array:
        return op.scan(lambda c, i: (c, op.uniform((3,), op.fold_in(key, i))), np.float32(0), steps)[1]

    def by_hand(key: Array) -> Array:
        return op.stack([op.uniform((3,), op.fold_in(key, number)) for number in range(4)], 0)

    with overridden(target=target):
        key = op.key(7)
        got = graph.module("noise")(noise)(key, np.arange(4))
        wanted = graph.module("by_hand")(by_hand)(key)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("target", TARGETS)
def test_routines_and_results_that_are_inputs_lie_in_their_places(target: str):
    """A routine's result is in memory of its own, and a result that is an input is a copy."""
    double = op.custom(lambda x: np.asarray(x) * 2, shape=lambda x: x.shape, name="double")
    xs = drawn((3, 2), np.float32)
    with overridden(target=target):
        last, (twice, same) = op.scan(lambda c, x: (double(c), (double(x), x)), np.ones(2, "f"), xs)
    np.testing.assert_array_equal(last, [8, 8])
    np.testing.assert_array_equal(twice, 2 * xs)
    np.testing.assert_array_equal(same, xs)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("trips", [0, 1, 2, 3])
def test_while(target: str, trips: int):
    def halved(x: Array, limit: Array) -> Array:
        return op.while_(lambda c: c[0].max() > limit, lambda c: (c[0] * 0.5, c[1] + 1), (x, 0))

    x = np.array([8.0, 3.0], "f")
    with overridden(target=target):
        y, count = graph.module("halved")(halved)(x, np.float32(8 * 0.5**trips))
    np.testing.assert_array_equal(y, x * 0.5**trips)
    assert count == trips
    assert not np.shares_memory(y, x)


@pytest.mark.parametrize("target", TARGETS)
def test_newton_iteration_and_its_derivative(target: str):
    def root(x: Array) -> Array:
        return op.while_(lambda r: op.abs(r * r - x).max() > 1e-4, lambda r: 0.5 * (r + x / r), x)

    x = np.array([2.0, 3.0, 10.0], "f")
    with overridden(target=target):
        close(root(x), np.sqrt(x), 1e-5)
        value, slope = tessera.jvp(root, (x,), (np.ones(3, "f"),))
        close(value, np.sqrt(x), 1e-5)
        close(slope, 0.5 / np.sqrt(x), 1e-3)
        with pytest.raises(NotDifferentiable, match=r"op\.while_ has no derivative backwards") as refused:
            tessera.grad(lambda x: root(x).sum())(x)
    assert "use op.scan" in refused.value.hint
    assert refused.value.span.line


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("sign", [1, -1])
def test_cond(target: str, sign: int):
    scale = np.float32(3)

    @graph.module("branch")
    def branch(x: Array, w: Array) -> Array:
        return op.cond(x.sum() > 0, lambda a: (op.exp(a) * w, a), lambda a: (a - scale, w), x)

    x, w = sign * np.array([0.5, 1.5], "f"), np.array([2.0, 4.0], "f")
    with overridden(target=target):
        first, second = branch(x, w)
    close(first, np.exp(x) * w if sign > 0 else x - 3, 2e-6)
    np.testing.assert_array_equal(second, x if sign > 0 else w)


@pytest.mark.parametrize("target", TARGETS)
def test_branches_of_other_kinds(target: str):
    """A Python bool chooses now, a number counts as its truth, and functions need no operands."""
    x = np.array([1.0, 2.0], "f")
    with overridden(target=target):
        np.testing.assert_array_equal(op.cond(True, lambda a: a * 2, lambda a: a, x), 2 * x)
        np.testing.assert_array_equal(op.cond(x.sum(), lambda: x * 2, lambda: x), 2 * x)
        np.testing.assert_array_equal(op.cond(np.array([0], np.int32), lambda: x * 2, lambda: x - 1), x - 1)
        count = op.cond(x[:1] > 0, lambda: 1.5, lambda: 0)
    assert count == np.float32(1.5)
    assert count.dtype == np.float32


def loss_of(scan: Callable[..., Any]) -> Callable[..., Any]:
    def loss(W: Array, h0: Array, xs: Array) -> Array:
        def step(state: Array, x: Array) -> Array:
            h, count = state
            h = op.tanh(h @ W + x * W.sum())
            return (h, count + 1), h * x

        (h, _), ys = scan(step, (h0, 0), xs)
        return (h * h).sum() + op.sin(ys).sum()

    return loss


LOSS = drawn((3, 3), np.float32, low=-0.6, high=0.6), drawn((3,), np.float32), drawn((4, 3), np.float32)


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_derivatives_are_those_of_unrolled_code(recompute: bool, reverse: bool):
    """Gradients, directional derivatives, products with second derivatives, and gradients of gradients."""
    looped = loss_of(lambda step, c, xs: op.scan(step, c, xs, reverse=reverse, recompute=recompute))
    flat = loss_of(lambda step, c, xs: unrolled(step, c, xs, reverse=reverse))
    assert tessera.check_adjoint(looped, *LOSS).within(1e-6)
    tangents = tuple(drawn(each.shape, np.float32, seed=3) for each in LOSS)

    def squared(loss: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: sum((each * each).sum() for each in tessera.grad(loss, (0, 1, 2))(*given))

    with overridden(target="cpu"):
        results = [
            (*tessera.grad(loss, (0, 1, 2))(*LOSS), *tessera.jvp(loss, LOSS, tangents),
             *tessera.hvp(loss, LOSS, tangents), *tessera.grad(squared(loss), (0, 1, 2))(*LOSS))
            for loss in (looped, flat)
        ]  # fmt: skip
    for got, want in zip(*results, strict=True):
        close(got, want, 2e-5)


def test_gradients_through_branches():
    def loss(x: Array, w: Array) -> Array:
        return op.cond(x.sum() > 0, lambda a: op.exp(a) * w, lambda a: op.sin(a) * a, x).sum()

    for sign in (1, -1):
        x, w = sign * np.array([0.5, 1.5], "f"), np.array([2.0, 4.0], "f")
        assert tessera.check_adjoint(loss, x, w).within(1e-6)
        by_x, by_w = tessera.grad(loss, (0, 1))(x, w)
        close(by_x, np.exp(x) * w if sign > 0 else np.cos(x) * x + np.sin(x), 2e-6)
        close(by_w, np.exp(x) if sign > 0 else 0 * w, 2e-6)
        second = tessera.hvp(loss, (x, w), (x, 0 * w))[0]
        close(second, np.exp(x) * w * x if sign > 0 else (2 * np.cos(x) - x * np.sin(x)) * x, 5e-6)


def test_gradients_through_branches_and_loops_in_loops():
    def loss(x: Array) -> Array:
        def step(c: Array, v: Array) -> Array:
            inner, _ = op.scan(lambda a, b: (a * b + v, None), c, op.stack([v, c], 0))
            return op.cond(inner.sum() > 0.5, lambda: op.sin(inner), lambda: inner * c), inner

        last, all_of = op.scan(step, x[0], x)
        return last.sum() + (all_of * all_of).sum()

    x = drawn((3, 2), np.float32, low=-1, high=1)
    assert tessera.check_adjoint(loss, x).within(1e-6)
    assert tessera.check_adjoint(tessera.grad(loss), x).within(1e-5)


_UNARY: dict[str, Callable[[Any], Any]] = {
    "tanh": op.tanh,
    "sin": op.sin,
    "half": lambda x: x * 0.5,
    "same": lambda x: x,
}
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b, "mul": lambda a, b: a * b * 0.5, "max": op.maximum, "sub": lambda a, b: a - b,
}  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(
    steps=st.integers(1, 4), shape=st.sampled_from([(), (1,), (3,), (2, 3), (0,)]), carried=st.integers(1, 3),
    moves=st.lists(st.tuples(st.sampled_from(sorted(_UNARY)), st.sampled_from(sorted(_BINARY)), st.integers(0, 9),
                             st.integers(0, 9)), min_size=1, max_size=5),
    reverse=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
def test_random_scans_are_their_unrolled_form(
    steps: int, shape: tuple[int, ...], carried: int, moves: list[tuple[str, str, int, int]], reverse: bool, seed: int
):
    def program(scan: Callable[..., Any]) -> Callable[..., Any]:
        def run(outside: Array, xs: Array, *init: Array) -> Array:
            def step(state: tuple[Array, ...], x: Array) -> Array:
                values = [*state, x, outside]
                for one, two, first, second in moves:
                    picked = _UNARY[one](values[first % len(values)])
                    values.append(_BINARY[two](picked, values[second % len(values)]))
                return tuple(values[-1 - n] for n in range(carried)), values[-1] * x

            return scan(step, init, xs)

        return run

    looped = program(lambda f, c, xs: op.scan(f, c, xs, reverse=reverse))
    flat = program(lambda f, c, xs: unrolled(f, c, xs, reverse=reverse))
    given_arrays = [drawn(each, np.float32, seed + n, -1, 1)
                    for n, each in enumerate((shape, (steps, *shape), *[shape] * carried))]  # fmt: skip
    graphs = [GraphFunction(each).graph_for(*given_arrays).graph for each in (looped, flat)]
    verify(graphs[0])
    wanted = evaluate(graphs[1], given_arrays)
    for got, want in zip(evaluate(graphs[0], given_arrays), wanted, strict=True):
        np.testing.assert_array_equal(got, want)
    executable = GraphFunction(looped).executable_for(*given_arrays)
    verify(executable.graph)
    for got, want in zip(evaluate(executable.graph, given_arrays), wanted, strict=True):
        np.testing.assert_array_equal(got, want)
    with overridden(target="cpu"):
        for got, want in zip(executable(*given_arrays), wanted, strict=True):
            close(got, want, 2e-5)


def test_carries_that_change_are_named():
    with pytest.raises(OperandMismatch, match=r"comes in as carry: f32\[3\] and goes out as carry: f32\[2\]") as wrong:
        op.scan(lambda c, x: (c[:2], x), np.zeros(3, "f"), np.zeros((2, 1), "f"))
    assert "shape must stay the same" in wrong.value.hint
    assert wrong.value.span.line
    with pytest.raises(OperandMismatch, match=r"carry_0: f16\[3\], carry_1: f32\[\] and goes out as") as wrong:
        op.scan(lambda c, x: ((c[0] * x, c[1]), x), (np.zeros(3, np.float16), np.float32(0)), np.zeros((2, 1), "f"))
    assert ".astype('f16')" in wrong.value.hint
    with pytest.raises(OperandMismatch, match=r"comes in as carry_0: f32\[3\] and goes out as carry: f32\[3\]"):
        op.scan(lambda c, x: (c[0], x), (np.zeros(3, "f"),), np.zeros((2, 1), "f"))
    with pytest.raises(OperandMismatch, match="the carry of body_fun"):
        op.while_(lambda c: c.sum() > 0, lambda c: c.astype("f16"), np.zeros(3, "f"))


def test_branches_that_differ_are_named_with_both_places():
    with pytest.raises(OperandMismatch, match=r"true_fun result: f32\[3\], false_fun result: f32\[2\]") as wrong:
        op.cond(
            np.array(True),
            lambda x: x * 2,
            lambda x: x[:2] * 3,
            np.zeros(3, "f"),
        )
    (note,) = wrong.value.notes
    assert note.span.line == wrong.value.span.line + 1
    assert "false_fun returns f32[2]" in note.message
    with pytest.raises(OperandMismatch, match="return different types"):
        op.cond(np.array(True), lambda x: (x, x), lambda x: x, np.zeros(3, "f"))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: op.scan(lambda c, v: c, x, x), "returns no pair"),
        (lambda x: op.scan(lambda c, v: (c, v), x, (x, x[:2])), "the first extents are 2, 3"),
        (lambda x: op.scan(lambda c, v: (c, v), x, x, length=4), "the first extents are 3, 4"),
        (lambda x: op.scan(lambda c, v: (c, v), x), "there is nothing to scan"),
        (lambda x: op.scan(lambda c, v: (c, v), x, length=-1), "less than 0"),
        (lambda x: op.scan(lambda c, v: (c, v), x, np.float32(1)), "a number without axes"),
        (lambda x: op.while_(lambda c: c, lambda c: c, x), "a condition is one bool"),
        (lambda x: op.while_(lambda c: c, lambda c: c, ()), "carries no array"),
        (lambda x: op.cond(x, lambda: x, lambda: x), "a condition is one bool"),
    ],
)  # fmt: skip
def test_what_they_refuse(call: Callable[[Any], Any], message: str):
    with pytest.raises(OperandMismatch, match=rf"^[^\n]*(?:{message})"):
        call(np.zeros(3, "f"))


def test_python_branches_name_the_remedy():
    with pytest.raises(CannotTrace) as refused:
        graph.module("g")(lambda x: x if x.sum() > 0 else -x)(np.ones(3, "f"))
    assert all(name in refused.value.hint for name in ("op.where", "op.cond", "op.while_"))
    with pytest.raises(CannotTrace, match="return no array"):
        op.cond(np.array(True), lambda: None, lambda: None)


def test_values_of_a_body_that_has_ended_are_refused():
    kept: list[Any] = []

    def step(c: Array, x: Array) -> Array:
        kept.append(x)
        return c, x

    @graph.module("leaking")
    def leaking(xs: Array) -> Array:
        op.scan(step, xs[0], xs)
        return kept[-1] * 2

    with pytest.raises(CannotTrace, match="not being captured any more"):
        leaking(np.ones((2, 3), "f"))


def test_captured_launches_hold_loops_and_branches():
    """A recording holds the launches of each trip, and decides by values whenever it is launched."""
    xs = drawn((3, 4), np.float32)
    start = np.zeros(4, "f")
    with overridden(target="cpu"):
        with graph.capture() as captured:
            last, _ = op.scan(lambda c, x: (c + x, c), start, xs)
        graph.launch(captured)
        close(last, xs.sum(0), 1e-6)
        flag, count = np.array(True), np.array(2.0, "f")
        with graph.capture() as captured:
            chosen = op.cond(flag, lambda: xs + 1, lambda: xs * 2)
            halved = op.while_(lambda v: op.max(v) > 1, lambda v: v / count, op.abs(start + 8))
        for value in (True, False):
            flag[...] = value
            graph.launch(captured)
            close(chosen, xs + 1 if value else xs * 2, 1e-6)
            close(halved, np.ones(4), 1e-6)
