import pytest

from tessera.lowering.cuda.simt.barrier_insertion import GROUP, LANE, LEADER, BarrierInsertion

X, Y = 0, 1


class Recorder(BarrierInsertion):
    def __init__(self) -> None:
        self.barriers = 0
        super().__init__(self.count)

    def count(self) -> None:
        self.barriers += 1


@pytest.mark.parametrize(
    ("before", "after", "barriers"),
    [
        ((LANE, "w"), (LANE, "r"), 0),  # the user's own barriers order lanes
        ((LANE, "w"), (GROUP, "r"), 1),
        ((LANE, "r"), (GROUP, "r"), 0),
        ((GROUP, "r"), (GROUP, "w"), 1),
        ((GROUP, "w"), (GROUP, "w"), 1),
        ((LEADER, "w"), (LEADER, "r"), 0),  # one lane keeps its own order
        ((LEADER, "w"), (LANE, "r"), 1),
        ((LANE, "r"), (LEADER, "w"), 1),
        ((GROUP, "r"), (LEADER, "w"), 1),
    ],
)
def test_two_accesses_of_one_memory(before: tuple[str, str], after: tuple[str, str], barriers: int):
    hazards = Recorder()
    for agent, kind in (before, after):
        hazards.access(agent, *(((X,), ()) if kind == "r" else ((), (X,))))
    assert hazards.barriers == barriers


def test_different_memories_do_not_meet():
    hazards = Recorder()
    hazards.access(GROUP, writes=(X,))
    hazards.access(GROUP, reads=(Y,))
    assert hazards.barriers == 0


def test_a_barrier_settles_everything():
    hazards = Recorder()
    hazards.access(GROUP, writes=(X, Y))
    hazards.access(GROUP, reads=(X,))
    hazards.access(GROUP, reads=(Y,))
    assert hazards.barriers == 1


def test_branches_join():
    hazards = Recorder()
    start = hazards.snapshot()
    hazards.access(GROUP, writes=(X,))
    written = hazards.snapshot()
    hazards.restore(start)
    hazards.access(GROUP, reads=(X,))
    assert hazards.barriers == 0
    hazards.join(written)
    hazards.access(GROUP, reads=(X,))
    assert hazards.barriers == 1


def test_nothing_happens_while_suspended():
    hazards = Recorder()
    hazards.access(GROUP, writes=(X,))
    with hazards.suspended():
        hazards.access(GROUP, reads=(X,))
        hazards.settle()
    assert hazards.barriers == 0
    hazards.settle()
    assert hazards.barriers == 1


def test_recycled_memory_waits_for_its_last_users():
    hazards = Recorder()
    hazards.access(GROUP, reads=(X,))
    hazards.recycle((Y,))
    assert hazards.barriers == 0
    hazards.recycle((X, Y))
    assert hazards.barriers == 1
