"""Sums into one place as reductions over trips: what is turned, what is not, and the values of the oracle."""

import numpy as np
import pytest

from frontend.kernels import array, build
from tessera.core.base.dtypes import f16, f32, i32
from tessera.core.base.reductions import tree_sum
from tessera.core.program.program import Program, find
from tessera.runtime.launch.interpreter import Interpreter

HEAD = "@kernel\ndef k(x: f32[n, m], s: mut f32[8], y: mut f32[n, m], h: mut f16[4], c: mut i32[4]):\n"


def program(body: str, n: int = 300, m: int = 8) -> Program:
    text = HEAD + "".join(f"    {line}\n" for line in body.splitlines())
    return build(text, array(f32, n, m), array(f32, 8), array(f32, n, m), array(f16, 4), array(i32, 4))


def turned(found: Program) -> bool:
    """Whether sums became loops that the compiler made."""
    return bool(found.workspaces)


TURNED = {
    "an element": "for r in tile.range(n):\n    s[0] += x[r, 0]",
    "written out": "for r in tile.range(n):\n    s[0] = x[r, 0] + s[0]",
    "a tile": "for r in tile.range(n):\n    s[:] += x[r, :]",
    "two places": "for r in tile.range(n):\n    s[0] += x[r, 0]\n    s[1] += x[r, 1]",
    "the largest": "for r in tile.range(n):\n    s[0] = max(s[0], x[r, 0])",
    "in a nest": "for r in tile.range(n):\n    for j in tile.range(m, step=2):\n        s[0] += tile.sum(x[r, j:j+2])",
    "beside other work": "for r in tile.range(n):\n    y[r, :] = x[r, :]\n    s[:] += x[r, :]",
    "from a row on": "for r in tile.range(3, n, step=2):\n    s[0] += x[r, 0]",
    "short floats": "for r in tile.range(n):\n    h[0] += f16(x[r, 0])",
    "integers": "for r in tile.range(n):\n    c[1] += i32(r)",
    "where the place is computed": "for r in tile.range(n):\n    s[n - n + 2] += x[r, 0]",
}
LEFT = {
    "independent": "for r in tile.range(n):\n    y[r, 0] += x[r, 0]",
    "asked for order": "for r in tile.range(n, parallel=False):\n    s[0] += x[r, 0]",
    "read for something else": "for r in tile.range(n):\n    s[0] += x[r, 0]\n    y[r, 0] = s[0]",
    "another place read": "for r in tile.range(n):\n    s[0] = s[1] + x[r, 0]",
    "in a branch": "for r in tile.range(n):\n    if x[r, 0] > 0:\n        s[0] += x[r, 0]",
    "a place that moves": "for r in tile.range(n):\n    s[r % 4] += x[r, 0]",
    "places that overlap": "for r in tile.range(n):\n    s[0:4] += x[r, 0:4]\n    s[2:6] += x[r, 2:6]",
    "trips that meet besides": "for r in tile.range(n):\n    s[0] += x[r, 0]\n    y[0, 0] = x[r, 0]",
    "a difference": "for r in tile.range(n):\n    s[0] = x[r, 0] - s[0]",
    "a plain range": "for r in range(n):\n    s[0] += x[r, 0]",
}


@pytest.mark.parametrize("body", TURNED.values(), ids=TURNED)
def test_turned(body: str):
    assert turned(program(body))


@pytest.mark.parametrize("body", LEFT.values(), ids=LEFT)
def test_left_in_order(body: str):
    found = program(body)
    assert not turned(found)
    assert find(found.body, lambda op: op.opcode == "while") is None


def results(body: str, n: int, sanitize: bool = False) -> tuple[np.ndarray, ...]:
    x = np.random.default_rng(n).standard_normal((n, 8)).astype(np.float32)
    arrays = (x, np.ones(8, np.float32), np.zeros((n, 8), np.float32), np.ones(4, np.float16), np.ones(4, np.int32))
    Interpreter(program(body, n), sanitize=sanitize)(*arrays)
    return arrays


@pytest.mark.parametrize("n", [1, 127, 300, 4097, 13000])
def test_the_association_is_that_of_every_sum(n: int):
    x, s, y, _, c = results(
        "for r in tile.range(n):\n    y[r, :] = x[r, :]\n    s[:] += x[r, :]\n    c[1] += i32(r)", n
    )
    np.testing.assert_array_equal(s, np.float32(1) + tree_sum(x, 0))
    np.testing.assert_array_equal(y, x)
    assert c.tolist() == [1, 1 + n * (n - 1) // 2, 1, 1]


def test_no_trips_change_nothing():
    assert results("for r in tile.range(5, n):\n    s[0] += x[0, 0]", 3)[1].tolist() == [1] * 8


def test_trips_of_a_nest_are_counted_in_order():
    body = "for r in tile.range(1, n):\n    for j in tile.range(0, m, step=2):\n        s[3] += tile.sum(x[r, j:j+2])"
    x, s, *_ = results(body, 2000)
    pairs = tree_sum(x[1:].reshape(-1, 2), 1)
    assert s[3] == np.float32(1) + tree_sum(pairs, 0)


def test_short_floats_are_rounded_once():
    x, _, _, h, _ = results("for r in tile.range(n):\n    h[0] += f16(x[r, 0])", 3000)
    wide = tree_sum(x[:, 0].astype(np.float16).astype(np.float32), 0)
    assert h[0] == (np.float32(1) + wide).astype(np.float16)


def test_the_sanitizer_finds_nothing():
    x, s, *_ = results("for r in tile.range(n):\n    y[r, :] = x[r, :]\n    s[:] += x[r, :]", 200, sanitize=True)
    np.testing.assert_array_equal(s, np.float32(1) + tree_sum(x, 0))
