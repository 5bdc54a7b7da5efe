"""Integers become floats in one rounding on every target, against exact arithmetic; two casts in a row are two."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tessera
from support import tile_machine
from support.simulate import simulate
from tessera.core.settings import overridden

INTEGERS = {"i16": np.int16, "u16": np.uint16, "i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64}
FLOATS: dict[str, tuple[Any, int, int]] = {
    "bf16": (ml_dtypes.bfloat16, 8, 127), "f16": (np.float16, 11, 15), "f32": (np.float32, 24, 127), "f64": (np.float64, 53, 1023),
}  # fmt: skip
"""By name: NumPy's type, bits of the mantissa with the one that is not stored, and the largest exponent."""
FORMS = {
    "lanes": "    i = tile.linear_id()\n    if i < n:\n        y[i] = {}\n",
    "tiles": "    for t in tile.range(n, step=64):\n        y[t:t+64] = {}\n",
}
TARGETS = ("interpret", "cpu", "cuda:sm_80", "cuda:sm_90a", "cuda_tile")
CHAINS = (("f64", "f32"), ("f64", "bf16"), ("f32", "bf16"), ("f32", "f16"))


def nearest(value: int, kind: str) -> np.generic:
    """The float nearest to an integer, to even between two, by integer arithmetic."""
    dtype, precision, most = FLOATS[kind]
    size = abs(value)
    places = max(0, size.bit_length() - precision)
    kept, rest, half = size >> places, size & ((1 << places) - 1), 1 << places >> 1
    kept += rest > half or (places > 0 and rest == half and kept & 1)
    exact = kept << places
    number = np.inf if exact.bit_length() - 1 > most else float(exact)
    return np.float64(number if value >= 0 else -number).astype(dtype)


def near_middles(source: str, kind: str) -> np.ndarray:
    """Limits, and integers next to the middle of two neighbouring floats, of every size."""
    info, precision = np.iinfo(INTEGERS[source]), FLOATS[kind][1]
    found = {0, 1, int(info.max), int(info.min), int(info.max) - 1}
    for places in range(1, info.bits - precision + 1):
        for leading in (1 << (precision - 1), (1 << (precision - 1)) + 1, (1 << precision) - 1):
            middle = (leading << places) + (1 << (places - 1))
            found |= {sign * (middle + step) for sign in (1, -1) for step in (-1, 0, 1)}
    return np.array(sorted(v for v in found if info.min <= v <= info.max), INTEGERS[source])


def stored(form: str, source: str, kinds: tuple[str, ...], values: np.ndarray, target: str) -> np.ndarray:
    """What a kernel stores that casts `values` to one type after the other."""
    expression = "x[i]" if form == "lanes" else "x[t:t+64]"
    for kind in kinds:
        expression = f"tile.cast({expression}, {kind})"
    head = f"@kernel\ndef k(x: {source}[n], y: mut {kinds[-1]}[n]):\n"
    kernel = tessera.compile_source(head + FORMS[form].format(expression)).k
    result = np.zeros(len(values), FLOATS[kinds[-1]][0])
    if target.startswith("cuda:"):
        simulate(kernel.program((values, result)), [values, result], arch=target.partition(":")[2])
    elif target == "cuda_tile":
        tile_machine.simulate(kernel.program((values, result)), [values, result])
    else:
        with overridden(target=target):
            kernel(values, result)
    return result


def same(got: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(got.view(f"u{got.itemsize}"), expected.view(f"u{got.itemsize}"))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("source", INTEGERS)
def test_a_cast_rounds_once(source: str, kind: str, form: str, target: str) -> None:
    if target == "cuda_tile" and form == "lanes":
        return  # which it refuses
    values = near_middles(source, kind)
    expected = np.array([nearest(int(value), kind) for value in values])
    same(stored(form, source, (kind,), values, target), expected)


@pytest.mark.parametrize("target", TARGETS[1:])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kinds", CHAINS, ids="-".join)
@pytest.mark.parametrize("source", ["i32", "u64"])
def test_two_casts_round_twice(source: str, kinds: tuple[str, str], form: str, target: str) -> None:
    if target == "cuda_tile" and form == "lanes":
        return
    values = near_middles(source, kinds[-1])
    same(stored(form, source, kinds, values, target), stored(form, source, kinds, values, "interpret"))
