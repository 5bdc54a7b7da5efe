"""Kernels of hundreds and thousands of operations: every target compiles them, and computes what NumPy does."""

import numpy as np
import pytest

import tessera
from tessera.core.errors.catalog import SyntaxMistake
from tessera.core.settings import overridden

TARGETS = ("interpret", "cpu", "cuda:sm_90a", "cuda_tile:sm_90")


def kernel(form: str, kind: str, operations: int):
    """`x` with 1 added so many times: in one expression, or in as many statements."""
    place = "t:t+64" if kind == "tiles" else "i"
    head = "    for t in tile.range(n, step=64):\n" if kind == "tiles" else "    i = tile.linear_id()\n    if i < n:\n"
    if form == "expression":
        body = f"        y[{place}] = x[{place}]" + " + 1.0" * operations + "\n"
    else:
        body = f"        a = x[{place}]\n" + "        a = a + 1.0\n" * operations + f"        y[{place}] = a\n"
    return tessera.compile_source("@kernel\ndef k(x: f32[n], y: mut f32[n]):\n" + head + body).k


@pytest.mark.parametrize("form", ["expression", "statements"])
@pytest.mark.parametrize("kind", ["tiles", "lanes"])
@pytest.mark.parametrize("target", TARGETS)
def test_six_hundred_operations(target: str, kind: str, form: str):
    if kind == "lanes" and target.startswith("cuda_tile"):
        return  # it has no lanes
    x, y = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    made = kernel(form, kind, 600)
    if "cuda" in target:
        made.compile(x, y, target=target)
    else:
        with overridden(target=target):
            made(x, y)
        assert (y == x + 600).all()


@pytest.mark.parametrize("form", ["expression", "statements"])
def test_thousands(form: str):
    x, y = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    kernel(form, "tiles", 2500)(x, y)
    assert (y == x + 2500).all()


def test_a_value_used_twice_in_every_step_is_computed_once():
    text = "@kernel\ndef k(x: f32[n], y: mut f32[n]):\n    a = x[:]\n" + "    a = a + a\n" * 100 + "    y[:] = a\n"
    x, y = np.ones(50, np.float32), np.zeros(50, np.float32)
    tessera.compile_source(text).k(x, y)
    assert (y == np.float32(2.0) ** 100).all()


@pytest.mark.parametrize("target", TARGETS[1:])
def test_a_thousand_statements_on_a_whole_array(target: str):
    """Rows are cut, and values placed, without recursion."""
    text = "@kernel\ndef k(y: mut f32[m, n]):\n    a = y[:]\n" + "    a = a + 1.0\n" * 1000 + "    y[:] = a\n"
    y = np.ones((40, 8), np.float32)
    made = tessera.compile_source(text).k
    made.compile(y, target=target)
    if target == "cpu":
        made(y)
        assert (y == 1001).all()


CHOICES = {
    "of itself": "    a = tile.where(a > 0.5, a * 0.9, 0.25)\n",
    "by another": "    a = tile.where(d > 0.0, a * 0.9, 0.25)\n",
    "of choices": "    a = tile.where(d > 0.0, tile.where(d > 0.5, a, 0.25), tile.where(d < -0.5, a, 0.5))\n",
    "turned": "    a = tile.where(d > 0.0, a, 0.25).T\n",
}


@pytest.mark.parametrize("step", CHOICES.values(), ids=CHOICES)
def test_a_hundred_choices_of_tiles_that_may_not_exist(step: str):
    """What exists after each choice depends on what existed before, several times over."""
    head = "@kernel\ndef k(x: f32[m, n], c: f32[p, q], y: mut f32[r, s]):\n    a, d = x[0:8, 3:11], c[0:8, 1:9]\n"
    made = tessera.compile_source(head + step * 100 + "    y[0:8, 0:8] = a\n    y[8, 0] = tile.sum(a)\n").k
    rng = np.random.default_rng(0)
    x, c = rng.standard_normal((7, 9), np.float32), rng.standard_normal((6, 8), np.float32)
    results = [np.full((9, 8), 7, np.float32) for _ in range(2)]
    for target, y in zip(("interpret", "cpu"), results, strict=True):
        with overridden(target=target):
            made(x, c, y)
    assert np.array_equal(results[0], results[1])
    assert (results[0] == 7).any()  # what is absent was not stored


def test_what_python_cannot_parse_is_a_mistake():
    text = "@kernel\ndef k(y: mut f32[n]):\n    y[0] = 1.0" + " + 1.0" * 100_000 + "\n"
    with pytest.raises(SyntaxMistake, match="nested too deeply"):
        tessera.compile_source(text)


@pytest.mark.parametrize("branches", [100, 300])
def test_a_long_chain_of_branches(branches: int):
    lines = ["    if i == 0:\n        y[i] = 5.0\n"]
    lines += [f"    elif i == {number}:\n        y[i] = {number}.0\n" for number in range(1, branches)]
    text = "@kernel\ndef k(y: mut f32[n]):\n    i = tile.linear_id()\n" + "".join(lines)
    y = np.zeros(64, np.float32)
    if branches > 100:
        with pytest.raises(SyntaxMistake, match="nested too deeply"):
            tessera.compile_source(text).k(y)
    else:
        tessera.compile_source(text).k(y)
        assert (y == [5, *range(1, 64)]).all()
