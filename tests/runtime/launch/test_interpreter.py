"""The interpreter behind the launcher's interface."""

import dataclasses

import numpy as np
import pytest

from tessera.api.source_module import compile_source
from tessera.core.base import dtypes
from tessera.core.errors.catalog import BadGrid, ExtentMismatch, MissingSchedule, ScalarRange
from tessera.core.program.program import Domain
from tessera.lowering.service.warmup import trivial_program
from tessera.runtime.binding.grid import Grid
from tessera.runtime.launch.interpreter import Interpreter, interpreted_artifact


def arrays(n: int = 5) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(n, dtype=np.float32), np.zeros(n, np.float32)


def test_runs_in_place():
    x, y = arrays()
    interpreter = Interpreter(trivial_program())
    interpreter(x, y, 2.0)
    np.testing.assert_array_equal(y, 2 * x)
    assert interpreter.report.lanes == 5


def test_sanitizer_runs_too():
    x, y = arrays()
    Interpreter(trivial_program(), sanitize=True)(x, y, 2.0)
    np.testing.assert_array_equal(y, 2 * x)


def test_an_explicit_grid():
    x, y = arrays(300)
    Interpreter(trivial_program())(x, y, 1.0, grid=Grid((2,), (100,)))
    np.testing.assert_array_equal(y[:200], x[:200])
    assert not y[200:].any()


def test_empty():
    x, y = arrays(0)
    assert Interpreter(trivial_program()).run((x, y, 1.0))


def test_arguments_are_checked():
    x, y = arrays()
    with pytest.raises(ExtentMismatch, match="x has n = 5 but y has n = 4"):
        Interpreter(_with_symbols())(x, y[:4], 1.0)
    assert not Interpreter(trivial_program()).run((x, y))


@pytest.mark.parametrize("name", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("value", [1e300, np.float64(1e300), 2**1030])
def test_numbers_too_large_for_their_float(name: str, value: float):
    k = compile_source(f"@kernel(target='interpret')\ndef k(x: {name}, y: mut {name}[1]):\n    y[0] = x\n").k
    with pytest.raises(ScalarRange, match=f"too large for {name}"):
        k(value, np.zeros(1, getattr(dtypes, name).numpy))


def test_numbers_bind_however_numpy_treats_underflow():
    k = compile_source("@kernel(target='interpret')\ndef k(x: f16, y: mut f16[1]):\n    y[0] = x\n").k
    y = np.ones(1, np.float16)
    with np.errstate(all="raise"):
        k(1e-300, y)
    assert y[0] == 0


def _with_symbols():
    program = trivial_program()
    first = program.symbols[0]
    return dataclasses.replace(program, symbols=(first, dataclasses.replace(first, parameter=1)))


def test_a_grid_is_needed_where_nothing_tells():
    x, y = arrays()
    program = dataclasses.replace(trivial_program(), domain=Domain("lanes"))
    with pytest.raises(MissingSchedule):
        Interpreter(program)(x, y, 1.0)
    Interpreter(program)(x, y, 1.0, grid=Grid((1,), (5,)))
    np.testing.assert_array_equal(y, x)


def test_a_wrong_block():
    x, y = arrays()
    program = dataclasses.replace(trivial_program(), group=(32,))
    with pytest.raises(BadGrid):
        Interpreter(program)(x, y, 1.0, grid=Grid((1,), (64,)))


@pytest.mark.parametrize(
    ("domain", "group", "kind"),
    [(Domain("single"), None, "single"), (Domain("lanes", ("n",)), None, "lanes"), (Domain("lanes", ("n",)), (8,), "groups"),
     (Domain("groups", ("n",)), (8,), "groups")],
)  # fmt: skip
def test_rules(domain: Domain, group: tuple[int, ...] | None, kind: str):
    program = dataclasses.replace(trivial_program(), domain=domain, group=group)
    assert interpreted_artifact(program).launch.kind == kind
