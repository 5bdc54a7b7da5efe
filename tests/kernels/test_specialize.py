"""From a call's arguments to a kernel made ready for them."""

import numpy as np

import tessera
from tessera.core.program.arguments import ArrayArgument
from tessera.core.program.program import Attribute
from tessera.core.targets import TARGETS, Target
from tessera.kernels.options import Options
from tessera.kernels.specialize import Specializer
from tessera.session.session import session

TEXT = """
@kernel
def scale(x: f32[n], y: mut f32[n]):
    i = tile.linear_id()
    if i < n:
        y[i] = FACTOR * x[i]
"""
ORACLE = Target("interpret", "")
NO_OPTIONS = Options()


def specializer(options: Options = NO_OPTIONS) -> Specializer:
    made = tessera.compile_source("FACTOR = 2.0\n" + TEXT).scale
    return Specializer(made.function, made.source, options, session())


def arrays(n: int):
    return np.ones(n, np.float32), np.zeros(n, np.float32)


def untuned(values: tuple[object, ...], grid: object) -> dict[str, Attribute]:
    raise AssertionError(f"{values} on {grid} were searched")


def test_one_plan_for_arguments_of_one_kind_and_target():
    found = specializer()
    first = found.plan(arrays(8), None, ORACLE, untuned)
    assert found.plan(arrays(9), None, ORACLE, untuned) is first
    assert first.compiled is None
    assert first.program.parameters[0].name == "x"


def test_parameters_are_searched_for_each_class_of_shapes():
    asked: list[int] = []

    def tuned(values: tuple[object, ...], grid: object) -> dict[str, Attribute]:
        assert isinstance(values[0], np.ndarray)
        asked.append(values[0].size)
        return {"FACTOR": 3.0}

    found = specializer(Options(space={"FACTOR": (2.0, 3.0)}))
    for n in (8, 7, 9):
        plan = found.plan(arrays(n), None, ORACLE, tuned)
        x, y = arrays(n)
        plan.launcher(x, y)
        assert (y == 3.0).all()
    assert asked == [8, 9]


def test_alignment_tells_arrays_apart_on_gpus_alone():
    found = specializer()
    x = np.zeros(64, np.float32)
    pair = (x[1:33], x[32:])
    kinds = [found.described(pair, Target(name, "")).arguments for name in TARGETS]
    assert kinds[0] == kinds[1] != kinds[2] == kinds[3]
    arrays_there = [argument for argument in kinds[0] if isinstance(argument, ArrayArgument)]
    assert len(arrays_there) == 2
    assert not any(array.aligned for array in arrays_there)


def test_a_program_before_the_first_call_and_after_it():
    found = specializer()
    known = found.known_program(ORACLE, None)
    assert {symbol.name for symbol in known.symbols} == {"n"}
    plan = found.plan(arrays(8), None, ORACLE, untuned)
    assert found.known_program(ORACLE, plan) is plan.program
