"""What is fuzzed, how a seed becomes a case, and what is done with that."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from fuzz.cascades import CascadeCase, cascade_case_of, check_cascade, check_emitted
from fuzz.check import Outcome, check
from fuzz.graph_check import check_graph, compile_graph
from fuzz.graph_reduce import reduced_graph
from fuzz.graph_steps import graph_case_of
from fuzz.graphs import GraphCase
from fuzz.kernels import Case, case_of
from fuzz.meshes import check_on_mesh
from fuzz.meshes import describe as describe_on_mesh
from fuzz.program_check import check_program, compile_program
from fuzz.programs import Program, program_of
from fuzz.reduce import reduced

RUN_HERE: Final = ("cpu", "interpret")
"""Targets whose kernels run here; for others graphs are compiled only."""
EMITTED: Final = 25
"""Of so many cascades one is also computed by kernels."""


@dataclass(frozen=True)
class Subject:
    """case: of a seed, large or not; check: on a target; describe: to be read, or run; reduced: made small, in time."""

    case: Callable[[int, bool], Any]
    check: Callable[[Any, str], Outcome]
    describe: Callable[[Any], str]
    reduced: Callable[[Any, Callable[[Any], bool], float], Any]


def describe_kernel(case: Case) -> str:
    """A kernel and its arguments, to be read."""
    arrays = "\n".join(f"#   {a.annotation()}: {a.view}, {a.values}" for a in case.arrays)
    return f"{case.text}# extents {case.extents}\n{arrays}"


def _graph(case: GraphCase, target: str) -> Outcome:
    return check_graph(case, target) if target in RUN_HERE else compile_graph(case, target)


def _program(program: Program, target: str) -> Outcome:
    return check_program(program, target) if target in (*RUN_HERE, "cuda") else compile_program(program, target)


def _smaller_graph(case: GraphCase, fails: Callable[[GraphCase], bool], seconds: float) -> GraphCase:
    return reduced_graph(case, fails, seconds)


def _cascade(case: CascadeCase, target: str) -> Outcome:
    outcome = check_cascade(case)
    if outcome.bad or case.seed % EMITTED or target not in RUN_HERE:
        return outcome
    return check_emitted(case.seed, target)


def _describe_cascade(case: CascadeCase) -> str:
    return f"from fuzz.cascades import cascade_case_of, check_cascade\nprint(check_cascade(cascade_case_of({case.seed})))\n"


SUBJECTS: Final[dict[str, Subject]] = {
    "kernels": Subject(lambda seed, large: case_of(seed, large=large), check, describe_kernel, reduced),
    "graphs": Subject(lambda seed, _: graph_case_of(seed), _graph, GraphCase.script, _smaller_graph),
    "meshes": Subject(lambda seed, _: graph_case_of(seed), check_on_mesh, describe_on_mesh, _smaller_graph),
    "programs": Subject(lambda seed, _: program_of(seed), _program, Program.script, lambda case, *_: case),
    "cascades": Subject(lambda seed, _: cascade_case_of(seed), _cascade, _describe_cascade, lambda case, *_: case),
}
