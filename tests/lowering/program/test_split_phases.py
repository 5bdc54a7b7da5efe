"""Where kernels are cut into phases, what each computes again, and what goes through a workspace."""

import numpy as np
import pytest

from frontend.kernels import array, build
from tessera.core.base.dtypes import f32
from tessera.core.program.program import Program
from tessera.core.program.types import Array
from tessera.lowering.program.split_phases import phases
from tessera.runtime.interpret.run import run

HEAD = "@kernel\ndef k(x: f32[n, 8], w: f32[8], y: mut f32[n, 8], z: mut f32[n, 8], s: mut f32[8]):\n"
N = 6


def program(body: str) -> Program:
    text = HEAD + "".join(f"    {line}\n" for line in body.splitlines())
    return build(text, array(f32, N, 8), array(f32, 8), array(f32, N, 8), array(f32, N, 8), array(f32, 8))


def arrays() -> list[np.ndarray]:
    random = np.random.default_rng(1)
    return [random.integers(-4, 4, shape).astype(np.float32) for shape in ((N, 8), 8, (N, 8), (N, 8), 8)]


def interpreted(parts: tuple[Program, ...], values: list[np.ndarray]) -> list[np.ndarray]:
    kinds = [kind for s in parts[0].given if isinstance(kind := s.value.type, Array)]
    spaces = [np.full([4096 if isinstance(e, str) else e for e in kind.shape], 7, kind.dtype.numpy) for kind in kinds]
    names = {e: 4096 for kind in kinds for e in kind.shape if isinstance(e, str)}
    for part in parts:
        run(part, (*values, *spaces), symbols={"n": N, **names})
    return values


COPY = "for r in tile.range(n):\n    y[r, :] = x[r, :] * 2.0\n"
READ = "for r in tile.range(n):\n    z[r, :] = y[n - 1 - r, :]"
CASES = {
    "one loop": (COPY, 1, 0),
    "two loops": (COPY + READ, 2, 0),
    "computed again": ("v = w[:] * 2.0\n" + COPY + "for r in tile.range(n):\n    z[r, :] = y[r, :] + v", 2, 0),
    "read before it is written": ("v = y[0, :]\n" + COPY + "for r in tile.range(n):\n    z[r, :] = y[r, :] + v", 3, 1),
    "read between": (COPY + "v = y[0, :]\nfor r in tile.range(n):\n    z[r, :] = y[r, :] + v", 2, 0),
    "of an array that may be the written one": ("v = x[0, 0]\nfor r in tile.range(n):\n    y[r, :] = x[r, :] - v", 2, 1),
    "a loop in order before": (
        "t = 0.0\nfor r in range(n):\n    t += x[r, 0]\nfor r in tile.range(n):\n    y[r, :] = x[r, :] * t", 2, 1,
    ),
    "a product before": (
        "p = tile.dot(x[0:1, :], tile.zeros((8, 8)))\nfor r in tile.range(n):\n    y[r, :] = x[r, :] + tile.sum(p, axis=0)", 2, 1,
    ),
    "tiles that may have absent elements": (
        "p = tile.dot(x[0:4, :], x[0:8, :].T)\nfor r in tile.range(n):\n    y[r, :] = x[r, :] + tile.sum(p, axis=0)", 1, 0,
    ),
    "statements of one group together": ("s[0] = 1.0\n" + COPY + "s[1] = 2.0", 2, 0),
    "statements that the loop parts": ("s[0] = 1.0\nfor r in tile.range(n):\n    y[r, :] = s[0]\ns[0] = 2.0", 3, 0),
    "what reads a statement's array keeps it in front":
        ("s[0] = 5.0\nv = s[0]\nfor r in tile.range(n):\n    y[r, :] = x[r, :] * v\nz[0, 0] = 1.0", 3, 0),
    "what is computed of a result between": (
        "t = 0.0\nfor r in range(n):\n    t += x[r, 0]\nu = t * 2.0\nfor r in tile.range(n):\n    y[r, :] = w[:] * u\ns[0] = t",
        3, 1,
    ),
    "no loop over tiles": ("y[:, :] = x[:, :]\nz[:, :] = y[:, :]", 1, 0),
    "loops in order": ("for r in tile.range(n, parallel=False):\n    y[r, :] = x[r, :]\n" + READ, 2, 0),
    "only loops in order": ("for r in range(n):\n    y[r, :] = x[r, :]\nz[0, :] = y[0, :]", 1, 0),
    "ids": ("y[group_linear_id(), 0] = 1.0\n" + COPY, 1, 0),
}  # fmt: skip


@pytest.mark.parametrize(("body", "count", "spaces"), CASES.values(), ids=CASES)
def test_phases(body: str, count: int, spaces: int):
    whole = program(body)
    parts = phases(whole)
    assert (len(parts), len(parts[0].given)) == (count, spaces)
    if count == 1:
        assert parts == (whole,)
        return
    for mine, want in zip(interpreted(parts, arrays()), interpreted((whole,), arrays()), strict=True):
        np.testing.assert_array_equal(mine, want)


def test_phases_take_the_workspaces_behind_the_users_parameters():
    first, *_ = phases(program("s[:] += 1.0\nfor r in tile.range(n):\n    s[:] += x[r, :]"))
    names = [parameter.name for parameter in first.parameters]
    assert names == ["x", "w", "y", "z", "s", "$sums0", "$sums1"]
    assert all(isinstance(space.value.type, Array) for space in first.given)
    assert first.workspaces == ()
