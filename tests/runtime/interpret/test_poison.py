"""Reads outside arrays are found where their values are used: guards of every kind, and every kind of use."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessera
from tessera.core.errors import catalog
from tessera.core.errors.base import TesseraError
from tessera.core.settings import overridden

N = 6
HEAD = "@kernel tile[(32,)]\ndef k(x: f32[n], out: mut f32[n]):\n    i = tile.linear_id()\n"
SHARED = "    s = tshared.alloc[f32](32)\n    if i < n:\n        s[i] = x[i]\n    tbarrier()\n"

GUARDED = {
    "and": "    if i < n and x[i] > 2.0:\n        out[i] = x[i]\n",
    "and of three": "    if i >= 0 and i < n and x[i] > 2.0:\n        out[i] = x[i]\n",
    "or": "    if not (i >= n or x[i] <= 2.0):\n        out[i] = x[i]\n",
    "the other way round": "    if x[i] > 2.0 and i < n:\n        out[i] = x[i]\n",
    "if expression": "    v = x[i] if i < n else 0.0\n    if v > 2.0:\n        out[i] = v\n",
    "where": "    v = tile.where(i < n, x[i] * 2.0, 0.0)\n    if v > 4.0:\n        out[i] = v / 2.0\n",
    "while": "    j = i\n    while j < n and x[j] <= 2.0:\n        j += 32\n    if j < n:\n        out[j] = x[j]\n",
    "carried by a loop": (
        "    v = 0.0\n    for j in range(2):\n        v = x[i + j]\n    v = x[i] if i < n else 0.0\n"
        "    if v > 2.0:\n        out[i] = v\n"
    ),
    "out of a branch": "    if i < 32:\n        v = x[i]\n    else:\n        v = 0.0\n    if i < n and v > 2.0:\n        out[i] = v\n",
    "never used": "    v = x[i + 7]\n    if i < n and x[i] > 2.0:\n        out[i] = x[i]\n",
    "of shared memory": SHARED + "    v = s[i] if i < n else 0.0\n    if v > 2.0:\n        out[i] = v\n",
    "outside shared memory": SHARED + "    v = s[i + n] if i < 0 else s[min(i, n - 1)]\n    if i < n and v > 2.0:\n        out[i] = v\n",
    "of a tile": SHARED + "    t = tile.where(tile.arange(32) < n, s[0:32], 0.0)\n    v = tile.sum(t)\n    if i < n and x[i] > 2.0:\n        out[i] = x[i] if v == 15.0 else 0.0\n",
}  # fmt: skip

# What uses the value of a read outside, and what is said of it.
USED = {
    "stored": ("    if i < n:\n        out[i] = x[i + 1]\n", "lane 5 reads x[6]", "if i + 1 < n:"),
    "stored later": ("    v = x[i] + 1.0\n    w = v * 2.0\n    if w > 0.0:\n        if i < n:\n            out[i] = w\n", "lane 6 reads x[6]", "if i < n:"),
    "wrong guard": ("    v = x[i + 1] if i < n else 0.0\n    if i < n:\n        out[i] = v\n", "lane 5 reads x[6]", "if i + 1 < n:"),
    "wrong side": ("    v = tile.where(i < n, 0.0, x[i])\n    if v > 0.0:\n        out[0] = v\n", "lane 6 reads x[6]", "if i < n:"),
    "branch": ("    if x[i] > 2.0:\n        out[0] = 1.0\n", "lane 6 reads x[6]", "if i < n:"),
    "and that does not decide": ("    if i < 10 and x[i] > 2.0:\n        out[0] = 1.0\n", "lane 6 reads x[6]", "if i < n:"),
    "while": ("    j = i\n    while x[j] > -1.0 and j < 7:\n        j += 1\n    if i < n:\n        out[i] = 1.0\n", "lane 6 reads x[6]", "if j < n:"),
    "index of a use": ("    out[i64(x[i])] = 1.0\n", "lane 6 reads x[6]", "if i < n:"),
    "bounds of a loop": ("    v = 0.0\n    for j in range(i64(x[i])):\n        v += 1.0\n    if i < n:\n        out[i] = v\n", "lane 6 reads x[6]", "if i < n:"),
    "shuffle": ("    v = tile.warp_shuffle_down(x[i], 1)\n    if i < n:\n        out[i] = v\n", "lane 6 reads x[6]", "if i < n:"),
    "by the group": ("    v = x[n]\n    out[0] = v\n", "the group reads x[6]", "if index < n:"),
    "from a tile": ("    t = tile.full((32,), x[-n - 1])\n    out[0] = tile.sum(t)\n", "the group reads x[-7]", "if -n - 1 >= 0:"),
    "from the end of shared memory": (SHARED + "    s[i] = 1.0\n    tbarrier()\n    t = s[8:40]\n    out[0] = tile.sum(t)\n", "the group reads s[32]", None),
    "never written": (SHARED + "    if i < n:\n        out[i] = s[i + 1]\n", "lane 5 reads s[6] here, which nothing has written", None),
}  # fmt: skip


def sanitized(body: str, n: int = N) -> np.ndarray:
    x, out = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
    text = (HEAD + body).replace("@kernel tile[(32,)]", "@kernel(tile=(32,), sanitize=True)")
    tessera.compile_source(text).k(x, out)
    return out


@pytest.mark.parametrize("case", GUARDED)
def test_a_guarded_read_is_no_mistake(case: str):
    want = np.where(np.arange(N) > 2, np.arange(N), 0)
    assert np.array_equal(sanitized(GUARDED[case]), want)
    for target in ("interpret", "cpu"):
        x, out = np.arange(N, dtype=np.float32), np.zeros(N, np.float32)
        with overridden(target=target):
            tessera.compile_source(HEAD + GUARDED[case]).k[1, 32](x, out)
        assert np.array_equal(out, want), target


@pytest.mark.parametrize("case", USED)
def test_what_is_used_is_found_where_it_was_read(case: str):
    body, message, remedy = USED[case]
    with pytest.raises(TesseraError) as caught:
        sanitized(body)
    assert message in caught.value.message
    assert isinstance(caught.value, catalog.OutOfBounds | catalog.UninitialisedRead)
    line = (HEAD + body).splitlines()[caught.value.span.line - 1]
    shown = line[caught.value.span.column - 1 : caught.value.span.end_column - 1]
    assert "x[" in shown or "s[" in shown
    if remedy is not None:
        assert f"guard it: `{remedy}`" in caught.value.hint


@given(st.integers(-3, 3), st.integers(-3, 3), st.sampled_from(["if", "and", "or", "where"]))
def test_a_read_is_a_mistake_exactly_where_its_guard_lets_it_through(read: int, guard: int, form: str):
    """`x[i + read]` in the lanes for which `0 <= i + guard < n`, in each of the forms."""
    inside, value = f"0 <= i + {guard} < n", f"x[i + {read}]"
    body = {
        "if": f"v = {value} if {inside} else -1.0",
        "where": f"v = tile.where({inside}, {value}, -1.0)",
        "and": f"v = 1.0 if {inside} and {value} > -9.0 else -1.0",
        "or": f"v = -1.0 if not ({inside}) or {value} < -9.0 else 1.0",
    }[form]
    body = f"    {body}\n    if i < n:\n        out[i] = v\n"
    lanes = np.arange(N)
    through = (lanes + guard >= 0) & (lanes + guard < N)
    wrong = through & ((lanes + read < 0) | (lanes + read >= N))
    if wrong.any():
        with pytest.raises(catalog.OutOfBounds, match=f"lane {np.flatnonzero(wrong)[0]} reads"):
            sanitized(body)
        return
    got = sanitized(body)
    chosen = np.where(through, 1.0 if form in ("and", "or") else np.clip(lanes + read, 0, N - 1), -1.0)
    assert np.array_equal(got, chosen)
