"""A fixed tenth of process replay: a change that means to change no code does not."""

import pytest

from replay import accepted
from replay.compile import TARGETS
from replay.run import Task, differences, perform, tenth

KNOWN = accepted.read()


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
