"""Which trips of a loop meet, by the form of their indices; `test_distribute_ranges.py` runs random ones."""

import pytest

from frontend.kernels import array, build
from tessera.core.base.dtypes import f32, i64
from tessera.core.program.dependences import CARRIED, KEPT, MEETS, Dependences
from tessera.core.program.expressions import to_text
from tessera.core.program.program import find

HEAD = "@kernel\ndef k(x: f32[n, 64], i: i64[n], y: mut f32[n, 64], s: mut f32[n]):\n"


def first_loop(body: str):
    """The dependence and the length of the first loop of `body`, as text."""
    text = HEAD + "".join(f"    {line}\n" for line in body.splitlines())
    program = build(text, array(f32, 100, 64), array(i64, 100), array(f32, 100, 64), array(f32, 100))
    loop = find(program.body, lambda op: op.opcode == "for")
    assert loop is not None
    dependences = Dependences(program)
    length = dependences.length(loop)
    return dependences.of(loop), None if length is None else to_text(length)


APART = {
    "rows": "for r in tile.range(n):\n    y[r, :] = x[r, :]",
    "in place": "for r in tile.range(n):\n    y[r, :] += x[r, :]",
    "blocks": "for r in tile.range(n, step=8):\n    y[r:r+8, :] = x[r:r+8, :]",
    "reversed": "for r in tile.range(n):\n    y[n - 1 - r, :] = x[r, :]",
    "from a place the loop does not change": "b = i[0]\nfor r in tile.range(n):\n    y[b + r, :] = x[r, :]",
    "rows of a block": "for m in tile.range(n, step=32):\n    for r in range(m, m + 32):\n        y[r, :] = x[r, :]",
    "every other row of a block":
        "for m in tile.range(n, step=32):\n    for r in range(m, m + 31, 3):\n        y[r:r+2, :] = x[r:r+2, :]",
    "a ragged block": "for g in tile.range((n + 31) // 32):\n"
        "    for r in range(g * 32, min(n, (g + 1) * 32)):\n        y[r, :] = x[r, :]",
    "from the larger": "for g in tile.range(n // 4):\n    for r in range(max(1, g * 4), g * 4 + 4):\n        s[r] = 1.0",
    "a remainder": "for g in tile.range(n):\n    for r in range(9):\n        s[g * 4 + r % 4] = 1.0",
    "a quotient": "for g in tile.range(n):\n    for r in range(9):\n        s[g * 3 + r // 4] = 1.0",
    "another axis": "for c in tile.range(64):\n    for r in range(n):\n        y[r, c] = x[r, c]",
    "two arrays": "for r in tile.range(n):\n    y[r, :] = x[r, :]\n    s[n - r] = 1.0",
    "asserted": "for r in tile.range(n, parallel=True):\n    y[i[r], :] = x[r, :]",
}  # fmt: skip


@pytest.mark.parametrize("body", APART.values(), ids=APART)
def test_apart(body: str):
    assert first_loop(body)[0] is None


MEET = {
    "one place": "for r in tile.range(n):\n    s[0] = 1.0",
    "wider than a step": "for r in tile.range(n, step=8):\n    y[r:r+9, :] = 1.0",
    "the next block": "for r in tile.range(n, step=8):\n    y[r:r+8, :] = y[r+8:r+16, :]",
    "read where another trip writes": "for r in tile.range(n):\n    y[n - 1 - r, :] = y[r, :]",
    "indices from memory": "for r in tile.range(n):\n    y[i[r], :] = x[r, :]",
    "bounds from memory": "for r in tile.range(n - 1):\n    for k in range(i[r], i[r + 1]):\n        s[k] = 1.0",
    "every fourth twice": "for r in tile.range(n):\n    s[r % 4] = 1.0",
    "a place that a branch chooses":
        "for r in tile.range(n):\n    a, b = r, r\n    if x[r, 0] > 0:\n        a, b = 0, 1\n    s[a + b] = 1.0",
    "a place that an inner loop carries":
        "for r in tile.range(n):\n    p = r\n    for j in range(3):\n        p += i[j]\n    s[p] = 1.0",
    "in steps of what is in memory": "for r in tile.range(n):\n    s[r * i[r]] = 1.0",
    "integers that wrap": "for r in tile.range(n):\n    s[i64(u8(r) + u8(1))] = 1.0",
}  # fmt: skip


@pytest.mark.parametrize("body", MEET.values(), ids=MEET)
def test_may_meet(body: str):
    found, _ = first_loop(body)
    assert found is not None
    assert found.kind == MEETS
    assert found.first is not None
    assert found.first.opcode in ("write", "store")


def test_the_two_accesses_are_named():
    found, _ = first_loop("for r in tile.range(n, step=8):\n    t = y[r+8:r+16, :]\n    y[r:r+8, :] = t")
    assert found is not None
    assert (found.name, found.first.span.line, found.second.span.line) == ("y", 5, 4)


def test_carried():
    found, _ = first_loop("total = 0.0\nfor r in tile.range(n):\n    total += s[r]\ns[0] = total")
    assert (found.kind, found.name) == (CARRIED, "total")


@pytest.mark.parametrize(
    ("bounds", "length"),
    [("n", "n"), ("3, n", "n - 3"), ("1, n - 1, step=8", "n - 2"), ("(n + 31) // 32", "(n + 31) // 32"),
     ("7, 20", "13"), ("n, n + 5", "5"), ("min(n, 64) - 2", "min(n, 64) - 2"), ("i[0]", None)],
)  # fmt: skip
def test_lengths(bounds: str, length: str | None):
    assert first_loop(f"for r in tile.range({bounds}):\n    y[r, :] = x[r, :]")[1] == length


def test_long_expressions_take_no_recursion():
    sums = " + ".join(f"i[{k}]" for k in range(60)) + " + 1" * 300
    assert first_loop(f"b = {sums}\nfor r in tile.range(n):\n    s[b + r] = 1.0")[0] is None


KEEPS = """
@kernel(tile=(32,), shared=4096)
def k(x: f32[n], y: mut f32[n]):
    buffer = tshared.alloc[f32](32)
    for t in tile.range(n, step=32):
        y[t:t+32] = buffer[:]
        cp_async.shared.global_(buffer, x[t:t+32])
        tbarrier()
"""


def test_a_buffer_that_keeps_what_was_in_it():
    program = build(KEEPS, array(f32, 96), array(f32, 96), group=(32,), shared_limit=4096)
    loop = find(program.body, lambda op: op.opcode == "for")
    assert loop is not None
    found = Dependences(program).of(loop)
    assert (found.kind, found.name) == (KEPT, "buffer")
