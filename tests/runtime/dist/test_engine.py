"""What engines count, and what is done already."""

import numpy as np

from tessera.runtime.dist.engine import Done, Exchange, Move, ReducesByLibrary, Stats
from tessera.runtime.dist.gpus import GpuEngine
from tessera.runtime.dist.simulated import SimulatedEngine


def test_exchanges_are_counted_by_kind_and_by_who_sends():
    stats, x = Stats(), np.zeros(4, np.float32)
    stats.note(Exchange("permute", (0, 1, 2), 16, (Move(0, 1, x), Move(0, 2, x[:1]))))
    stats.note(Exchange("permute", (0, 1, 2), 16))
    stats.note(Exchange("send", (1, 2), 16, (Move(1, 2, x),)))
    assert stats.counts == {"permute": 2, "send": 1}
    assert stats.sent == {0: 20, 1: 16}
    assert stats.transfers == 3


def test_what_is_done_is_there_at_once():
    assert Done([3, 4]).result() == [3, 4]


def test_engines_whose_library_reduces():
    assert isinstance(GpuEngine([0]), ReducesByLibrary)
    assert not isinstance(SimulatedEngine(1), ReducesByLibrary)
