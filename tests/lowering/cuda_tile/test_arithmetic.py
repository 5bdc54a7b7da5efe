"""Element-wise operations on tiles: the interpreter's bits, or the CPU target's."""

from dataclasses import replace

import numpy as np
import pytest

from lowering.cuda_tile.compare import agree, agree_with_cpu, names
from support.tile_cases import Case, cases, element_wise
from support.tile_machine import lowered
from tessera.core.base.dtypes import boolean, f32, f64

ELEMENT_WISE = [c for c in cases() if c.program.name.startswith("tile_") and c.program.name != "tile_copy"]
EXACT = [c for c in ELEMENT_WISE if c.tolerance == 0]
FUNCTIONS = [c for c in ELEMENT_WISE if c.tolerance and c.name != "sin f64"]


@pytest.mark.parametrize("case", EXACT, ids=lambda c: c.name)
def test_operations(case: Case):
    agree(case.program, case.fresh())


@pytest.mark.parametrize("case", FUNCTIONS, ids=lambda c: c.name)
def test_functions_have_the_bits_of_the_other_targets(case: Case):
    agree_with_cpu(case.program, case.fresh())


SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, 3e38, -2.5, 0.5, 1.5], np.float32)


@pytest.mark.parametrize("opcode", ["add", "mul", "div", "min", "max", "mod", "floordiv"])
def test_special_numbers(opcode: str):
    a, b = (v.ravel().copy() for v in np.meshgrid(SPECIAL, SPECIAL))
    agree(element_wise(opcode, f32), [a, b, np.zeros_like(a)])


@pytest.mark.parametrize("predicate", ["lt", "le", "gt", "ge", "eq", "ne"])
def test_comparisons(predicate: str):
    a, b = (v.ravel().copy() for v in np.meshgrid(SPECIAL, SPECIAL))
    agree(element_wise("cmp", f32, 2, boolean, predicate=predicate), [a, b, np.zeros(a.shape, np.bool_)])


def test_the_users_leave_gives_the_machines_own_functions():
    def found(**options: bool) -> list[str]:
        program = element_wise("exp", f32, 1)
        return names(lowered(replace(program, options=options))[1])

    assert "exp" in found(fast=True)
    assert "exp" not in found()
    assert "sin" in names(lowered(element_wise("sin", f64, 1))[1])
    assert "sin" not in names(lowered(element_wise("sin", f32, 1))[1])
