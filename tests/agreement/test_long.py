"""Kernels of hundreds and thousands of operations: every target compiles them, and computes what NumPy does."""

import numpy as np
import pytest

import tessera
from tessera.core.mistakes import SyntaxMistake
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
def test_six_hundred_operations(target, kind, form):
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
def test_thousands(form):
    x, y = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    kernel(form, "tiles", 2500)(x, y)
    assert (y == x + 2500).all()


def test_a_value_used_twice_in_every_step_is_computed_once():
    text = "@kernel\ndef k(x: f32[n], y: mut f32[n]):\n    a = x[:]\n" + "    a = a + a\n" * 100 + "    y[:] = a\n"
    x, y = np.ones(50, np.float32), np.zeros(50, np.float32)
    tessera.compile_source(text).k(x, y)
    assert (y == np.float32(2.0) ** 100).all()


def test_what_python_cannot_parse_is_a_mistake():
    text = "@kernel\ndef k(y: mut f32[n]):\n    y[0] = 1.0" + " + 1.0" * 100_000 + "\n"
    with pytest.raises(SyntaxMistake, match="nested too deeply"):
        tessera.compile_source(text)


@pytest.mark.parametrize("branches", [100, 300])
def test_a_long_chain_of_branches(branches):
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
