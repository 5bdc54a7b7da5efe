"""Every operator of `tessera.op`, by one table: NumPy in f64, strides, nothing, 16 bits, batches, derivatives, mistakes."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import DTypeLike, NDArray

import tessera
from support.operator_cases import CASES, Case, Spec
from support.operators import COLLECTIVES, FLOATS, TARGETS, TOLERANCE, close
from tessera import op
from tessera.core.errors.base import TesseraError
from tessera.core.settings import overridden


def made(specs: Sequence[Spec], dtype: DTypeLike, *, strided: bool = False) -> list[NDArray[Any]]:
    """Return random operands; strided: each axis in steps of two, or backwards, of a larger array."""
    rng = np.random.default_rng(7)
    found: list[NDArray[Any]] = []
    for spec in specs:
        shape = [2 * extent for extent in spec.shape] if strided else spec.shape
        if spec.kind == "f":
            x = rng.uniform(spec.low, spec.high, shape).astype(dtype)
        else:
            x = (
                rng.integers(0, 2, shape) > 0
                if spec.kind == "b"
                else rng.integers(int(spec.low), int(spec.high), shape)
            )
        if strided:
            x = x[tuple(slice(None, None, 2 if n % 2 == 0 else -2) for n in range(len(shape)))]
        found.append(x)
    return found


def parts(result: object) -> list[NDArray[Any]]:
    return [np.asarray(each) for each in (result if isinstance(result, tuple) else (result,))]


def wide(x: NDArray[Any]) -> NDArray[Any]:
    return x.astype(np.float64) if x.dtype.kind not in "iub" else x


def agree(case: Case, arrays: Sequence[NDArray[Any]], tolerance: float) -> None:
    want = parts(case.want(*map(wide, arrays)))
    for target in TARGETS:
        with overridden(target=target):
            got = parts(case.call(*arrays))
        assert len(got) == len(want)
        for mine, theirs in zip(got, want, strict=True):
            close(mine, theirs, tolerance)


def with_a_row_each(*wanted: str) -> pytest.MarkDecorator:
    """Parametrize by the operators whose rows have what is wanted."""
    found = [name for name, case in sorted(CASES.items()) if all(getattr(case, each) for each in wanted)]
    return pytest.mark.parametrize("name", found)


def test_the_table_has_every_operator():
    assert sorted((*CASES, *COLLECTIVES)) == sorted(op.__all__)


@with_a_row_each()
def test_numpy_in_f64_with_strides(name: str):
    case = CASES[name]
    agree(case, made(case.specs, np.float64, strided=True), TOLERANCE["f64"] * case.slack)


@with_a_row_each("empty")
def test_arrays_without_elements(name: str):
    case = CASES[name]
    assert case.empty is not None
    agree(case, made(case.empty, np.float64), 0)


@with_a_row_each("short")
def test_floats_of_16_bits(name: str):
    case = CASES[name]
    for short in ("f16", "bf16"):
        agree(case, made(case.specs, FLOATS[short]), 2 * TOLERANCE[short] * min(case.slack, 4))


@with_a_row_each("batched")
def test_leading_axes_are_a_batch(name: str):
    case = CASES[name]
    assert case.batched is not None
    arrays = made(case.batched, np.float64)
    agree(case, arrays, TOLERANCE["f64"] * case.slack)
    whole = parts(case.call(*arrays))
    for number in range(2):
        for one, all_of in zip(parts(case.call(*(x[number] for x in arrays))), whole, strict=True):
            close(one, all_of[number], TOLERANCE["f64"] * case.slack)


@with_a_row_each("smooth")
def test_derivatives(name: str):
    case = CASES[name]
    floats = [n for n, spec in enumerate(case.specs) if spec.kind == "f"]
    arrays = made(case.specs, np.float64)

    def of_floats(*given: object) -> object:
        filled = list[object](arrays)
        for n, each in zip(floats, given, strict=True):
            filled[n] = each
        return case.call(*filled)

    assert tessera.check_adjoint(of_floats, *(arrays[n] for n in floats)).within(1e-5)


@with_a_row_each()
def test_mistakes_have_a_place(name: str):
    for call, message in CASES[name].wrong:
        with pytest.raises(TesseraError) as caught:
            call()
        first, _, rest = str(caught.value).partition("\n")
        assert message in first
        assert "^^^" in rest
    assert CASES[name].wrong
