"""Random programs as people write them (`tests/fuzz/programs.py`): a fixed part of what `make fuzz WHAT=programs` runs."""

# pyright: reportUnknownMemberType=false, reportUnknownLambdaType=false

from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest

import tessera
from fuzz.check import Outcome
from fuzz.program_arrays import LAYOUTS, Tree, laid, mapped
from fuzz.program_check import check_program, compile_program
from fuzz.program_reference import REFERENCE, Value, valued
from fuzz.program_statements import STATEMENTS
from fuzz.programs import Call, Program, arrays_of, program_of


@pytest.mark.parametrize("block", range(30))
def test_programs_agree_with_numpy_and_with_differences(block: int) -> None:
    for seed in range(10 * block, 10 * block + 10):
        program = program_of(seed)
        outcome = check_program(program, "interpret")
        assert outcome.kind == "agrees", f"make fuzz WHAT=programs; seed {seed}\n{outcome.detail}\n{program.script()}"


def test_the_cpu_agrees() -> None:
    for seed in range(1000, 1010):
        program = program_of(seed)
        outcome = check_program(program, "cpu")
        assert outcome.kind == "agrees", f"{outcome.detail}\n{program.script()}"


@pytest.mark.parametrize("target", ["cuda:sm_90a", "cuda_tile:sm_90"])
def test_gpu_targets_compile_them(target: str) -> None:
    for seed in range(1100, 1104):
        outcome = compile_program(program_of(seed), target)
        assert not outcome.bad, f"{outcome.detail}\n{program_of(seed).script()}"


def test_a_seed_gives_one_program_and_every_statement_is_drawn() -> None:
    programs = [program_of(seed) for seed in range(1500)]
    assert programs[:20] == [program_of(seed) for seed in range(20)]
    assert {each.dtype for each in programs} == {"f32", "f64"}
    assert {call.layout for each in programs for call in each.calls} == set(LAYOUTS)
    text = "".join(each.text for each in programs)
    begins = [template.split("{")[0] for templates, _ in STATEMENTS for template in templates]
    assert [each for each in begins if each not in text] == []


def _call(**differing: object) -> Call:
    return Call(**{"changes": (), "seed": 3, "batch": 2, "layout": "plain", "rate": "0.5", "n": 1, **differing})  # type: ignore[arg-type]


def _program(expression: str, *calls: Call) -> Program:
    text = f"def f(p, x, y, m, rate, n):\n    return {{'a': {expression}}}\n"
    return Program(seed=0, text=text, dtype="f64", decorator="tessera.jit", calls=calls or (_call(),), smooth=True)


def test_wrong_values_are_reported() -> None:
    assert check_program(_program("op.exp(x) * rate"), "interpret").kind == "agrees"
    wrong = SimpleNamespace(**(vars(REFERENCE) | {"exp": lambda x: np.exp(x) + 1e-12}))
    with mock.patch("fuzz.program_check.REFERENCE", wrong):
        outcome = check_program(_program("op.exp(x) * rate"), "interpret")
    assert outcome.kind == "differs"
    assert "call 0: a[" in outcome.detail


def test_wrong_derivatives_are_reported() -> None:
    right = tessera.value_and_grad

    def halved(function: object, argnums: object) -> object:
        gradient = right(function, argnums)  # type: ignore[arg-type]

        def call(*arguments: object) -> tuple[object, ...]:
            value, (by_parameters, by_x) = gradient(*arguments)
            return value, (by_parameters, by_x * 0.999)

        return call

    with mock.patch("fuzz.program_check.tessera.value_and_grad", halved):
        outcome = check_program(_program("op.tanh(x)"), "interpret")
    assert outcome.kind == "differs"
    assert "grad: " in outcome.detail


def test_a_stale_closure_is_reported() -> None:
    calls = _call(), _call(changes=("scale = 7.0",))
    assert check_program(_program("x * scale", *calls), "interpret").kind == "agrees"
    with mock.patch("tessera.kernels.closures.snapshot.Guards.comparison", return_value=lambda: True):
        outcome = check_program(_program("x * scale", *calls), "interpret")
    assert outcome.kind == "differs"
    assert outcome.detail.startswith("call 1")


def test_kinks_are_not_compared() -> None:
    def zeros(call: Call, dtype: str) -> dict[str, Tree]:
        return {name: mapped(np.zeros_like, tree) for name, tree in arrays_of(call, dtype).items()}

    assert check_program(_program("abs(x)"), "interpret") == Outcome("agrees", "1 derivatives")
    with mock.patch("fuzz.program_check.arrays_of", zeros):
        assert check_program(_program("abs(x)"), "interpret") == Outcome("agrees", "0 derivatives")


def test_errors_are_reported() -> None:
    with mock.patch("fuzz.program_check.REFERENCE.nothing", lambda x: x, create=True):
        outcome = check_program(_program("op.nothing(x)"), "interpret")
    assert outcome.kind == "fails"
    assert "AttributeError" in outcome.detail
    with mock.patch("fuzz.program_check.REFERENCE.outer", lambda a, b: a * b):
        assert check_program(_program("op.outer(x, x)"), "interpret").kind == "refused"


def test_layouts_hold_the_same_elements() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    for layout in LAYOUTS:
        np.testing.assert_array_equal(laid(x, layout), x)


def test_the_reference_disturbs_each_step() -> None:
    x = valued(np.ones(5))
    x.noise, x.size_of_errors = np.random.default_rng(0), 1e-3
    for result in (
        x + 1,
        REFERENCE.where(x > 0, x, 0.0),
        REFERENCE.matmul(x[None], x[:, None]),
        x.at[1].add(2.0),
        x.sum(),
    ):
        assert isinstance(result, Value)
        assert result.noise is x.noise
        assert not np.array_equal(np.asarray(result), np.round(np.asarray(result)))
