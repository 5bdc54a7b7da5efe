"""`tile.fma` of 16-bit floats rounds once: against exact fractions, on lanes and tiles, from random bits and near ties."""

from bisect import bisect_left
from fractions import Fraction
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tessera
from tessera.core.settings import overridden

DTYPES: dict[str, Any] = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
FORMS = {
    "lanes": "    i = tile.linear_id()\n    if i < n:\n        o[i] = tile.fma(a[i], b[i], c[i])\n",
    "tiles": "    for t in tile.range(n, step=64):\n        o[t:t+64] = tile.fma(a[t:t+64], b[t:t+64], c[t:t+64])\n",
    "ones": "    for t in tile.range(n, step=1):\n        o[t:t+1] = tile.fma(a[t:t+1], b[t:t+1], c[t:t+1])\n",
}


@cache
def numbers(name: str) -> list[Fraction]:
    """Every finite number that is not negative, by its bits."""
    count = int(np.array(np.inf, DTYPES[name]).view(np.uint16))  # the infinity comes after the last one
    values = np.arange(count, dtype=np.uint16).view(DTYPES[name]).astype(np.float64)
    return [Fraction(float(v)) for v in values]


def rounded(name: str, exact: Fraction) -> int:
    """The bits of |exact| to nearest even."""
    values = numbers(name)
    size = abs(exact)
    top = len(values)
    place = bisect_left(values, size)
    if place == 0:
        return 0
    above = values[place] if place < top else values[-1] + (values[-1] - values[-2])
    below = values[place - 1]
    if above - size == size - below:
        return place if place % 2 == 0 else place - 1
    return place if above - size < size - below else place - 1


def expected(name: str, a: float, b: float, c: float) -> int:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        product_negative = np.signbit(a) != np.signbit(b)
        both = product_negative and bool(np.signbit(c)) if Fraction(a) * Fraction(b) == 0 else False
        return 0x8000 if both else 0
    return rounded(name, exact) | (0x8000 if exact < 0 else 0)


def triples(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random bits; products near the middle of two numbers with something small added; results below the smallest."""
    random, dtype = np.random.default_rng(7), DTYPES[name]
    bits = random.integers(0, 1 << 16, (3, 1500)).astype(np.uint16)
    a, b = random.integers(0, 1 << 16, (2, 200_000)).astype(np.uint16).view(dtype)
    with np.errstate(all="ignore"):
        product = a.astype(np.float64) * b.astype(np.float64)
        near = product.astype(dtype).astype(np.float64)
        gap = np.abs(np.spacing(product.astype(dtype)).astype(np.float64)) / 2
        ties = np.flatnonzero(
            np.isfinite(product) & (product != 0) & (np.abs(np.abs(product - near) - gap) < gap / 64)
        )[:1500]
    small = np.array([2.0**-24, -(2.0**-24), 2.0**-14, -(2.0**-130), 2.0**-133, -0.0], dtype)
    parts = np.stack([a[ties], b[ties], random.choice(small, len(ties))]).view(np.uint16)
    together = np.concatenate([bits, parts], axis=1)
    with np.errstate(invalid="ignore"):  # signalling NaN
        finite = np.isfinite(together.view(dtype).astype(np.float64)).all(axis=0)
    return tuple(np.ascontiguousarray(row[finite]).view(dtype) for row in together)  # type: ignore[return-value]


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("target", ["cpu", "interpret"])
@pytest.mark.parametrize("form", FORMS)
def test_one_rounding(form: str, target: str, name: str):
    if target == "interpret" and form == "ones":
        return  # as `tiles`, a thousand times slower
    a, b, c = triples(name)
    assert len(a) > 2000
    out = np.zeros_like(a)
    head = f"@kernel\ndef k(a: {name}[n], b: {name}[n], c: {name}[n], o: mut {name}[n]):\n"
    with overridden(target=target):
        tessera.compile_source(head + FORMS[form]).k(a, b, c, out)
    want = np.array([expected(name, *map(float, three)) for three in zip(a, b, c, strict=True)], np.uint16)
    wrong = np.flatnonzero(out.view(np.uint16) != want)
    assert not len(wrong), [(a[i], b[i], c[i], out[i], want[i : i + 1].view(DTYPES[name])[0]) for i in wrong[:5]]


@pytest.mark.parametrize("name", DTYPES)
def test_infinities_and_nan(name: str):
    dtype = DTYPES[name]
    a = np.array([np.inf, np.inf, np.nan, 1, 3e38 if name == "bf16" else 6e4, np.inf], dtype)
    b = np.array([1, 0, 1, 1, 3e38 if name == "bf16" else 6e4, 1], dtype)
    c = np.array([1, 1, 1, np.nan, -1, -np.inf], dtype)
    out = np.zeros_like(a)
    head = f"@kernel\ndef k(a: {name}[n], b: {name}[n], c: {name}[n], o: mut {name}[n]):\n"
    tessera.compile_source(head + FORMS["lanes"]).k(a, b, c, out)
    np.testing.assert_array_equal(out.astype(np.float32), [np.inf, np.nan, np.nan, np.nan, np.inf, np.nan])


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", DTYPES)
def test_gpus_have_an_instruction_that_rounds_once(name: str, arch: str):
    head = f"@kernel\ndef k(a: {name}[n], b: {name}[n], c: {name}[n], o: mut {name}[n]):\n"
    arrays = [np.zeros(64, DTYPES[name]) for _ in range(4)]
    for form in ("lanes", "tiles"):
        ptx = str(tessera.compile_source(head + FORMS[form]).k.compile(*arrays, target=f"cuda:{arch}").ir("ptx"))
        assert f"fma.rn.{name}" in ptx
        assert "fma.rn.f32" not in ptx
