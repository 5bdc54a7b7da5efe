"""Questions to a trace: marks, users, contents."""

import numpy as np
import pytest

from support import stepped_kernels as kernels
from tessera.viz.tile_debugger.recording import Launch, record


def test_marks_users_and_contents_of_saxpy():
    x, y = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    trace = record(Launch.of(kernels.saxpy, (x, y, 10.0), {}, None))
    assert trace.marks(0).tolist() == [1, 1, 1, 1]
    assert trace.marks(1).tolist() == [3, 3, 3, 3]
    assert [(touch.writes, lane) for _, touch, lane in trace.users(1, 2)] == [(False, 2), (True, 2)]
    assert trace.marks("y").tolist() == trace.marks(1).tolist()
    assert len(trace.users("y", (2,))) == len(trace.users(1, 2)) == 2
    with pytest.raises(ValueError, match=r"saxpy has no array 'z' \(arrays: x, y\)"):
        trace.users("z", 2)
    with pytest.raises(ValueError, match="y has 4 elements, and no element 4"):
        trace.users("y", 4)
    with pytest.raises(ValueError, match="invalid entry in coordinates array"):
        trace.users("y", (4,))
    last = len(trace.steps) - 1
    before, after = trace.contents(1, last - 1), trace.contents(1, last)
    assert before is not None
    assert after is not None
    assert before.tolist() == [1, 1, 1, 1]
    assert after.tolist() == [1, 11, 21, 31]


def test_shared_memory_is_unwritten_before_it_is_written():
    trace = record(Launch.of(kernels.staged, (np.ones(32, np.float32), np.zeros(32, np.float32)), {}, None))
    number = next(n for n, array in enumerate(trace.arrays) if array.shared)
    first = trace.contents(number, 0)
    assert first is not None
    assert np.isnan(first).all()
