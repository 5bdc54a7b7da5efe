"""A fixed tenth of process replay: a change that means to change no code does not."""

from dataclasses import replace
from unittest import mock

import pytest

from replay import accepted
from replay.cases import CASES
from replay.compile import TARGETS, anonymous
from replay.run import Task, differences, perform, tenth

KNOWN = accepted.read()
CASE = "document/saxpy"


@pytest.mark.skipif(
    accepted.versions() != KNOWN.versions,
    reason=f"the accepted hashes belong to {KNOWN.versions}, and here is {accepted.versions()}",
)
@pytest.mark.parametrize("target", TARGETS)
def test_code_is_as_accepted(target: str):
    results = [result for name in tenth(target) for result in perform(Task(name, (target,)))]
    moved = differences(results, KNOWN)
    hint = "if this was meant to change code, run `make replay ACCEPT=1` and say so in the commit"
    assert moved == [], f"{hint}\n" + "\n".join(moved)


def test_the_tenth_has_every_family_for_every_target():
    families = {case.family for case in CASES.values()}
    assert {"shipped/gemm", "shipped/attention", "variant", "language", "generated"} <= families
    for target in TARGETS:
        chosen = tenth(target)
        assert {CASES[name].family for name in chosen} == families
        assert len(CASES) / 12 < len(chosen) < len(CASES) / 8
    assert len({name for target in TARGETS for name in tenth(target)}) > len(CASES) / 2


def test_code_depends_neither_on_names_nor_on_places():
    (program,) = CASES[CASE].programs()
    moved = replace(program, name="another", span=replace(program.span, line=99))
    first, second = anonymous(program), anonymous(moved)
    assert (first.name, first.span, first.source) == (second.name, second.span, second.source)
    assert {op.span for op in first.body.walk()} == {first.span}
    assert {value.span for op in first.body.walk() for value in op.results} == {first.span}


def test_what_moved_is_named():
    (result,) = perform(Task(CASE, ("cuda:sm_90a",)))
    hashes = result.units[CASE]
    known = accepted.Accepted("", {("cuda:sm_90a", CASE): replace(hashes, machine="0" * 16)})
    assert differences([result], known) == [f"cuda:sm_90a  {CASE}: machine code (Tile IR is the same)"]
    known.units["cuda:sm_90a", CASE] = hashes
    assert differences([result], known) == []


def test_a_crash_is_reported_with_its_case():
    with mock.patch("replay.run.compiled", side_effect=ZeroDivisionError("here")):
        results = perform(Task(CASE, ("cpu:avx2",)))
    (line,) = differences(results, KNOWN)
    assert line.startswith(f"cpu:avx2  {CASE}: failed\n")
    assert "ZeroDivisionError: here" in line
