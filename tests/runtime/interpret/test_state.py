"""Values that differ between lanes, and who executes what."""

import numpy as np

from support.builder import Builder
from tessera.core.base.dtypes import f32, i64
from tessera.core.program.program import Op, Value
from tessera.core.program.types import Scalar, Shared
from tessera.runtime.interpret.findings import GROUP
from tessera.runtime.interpret.geometry import Geometry, Window
from tessera.runtime.interpret.memory import Choice, fresh_shared
from tessera.runtime.interpret.state import Launch, State, choose

SCALAR = Value(Scalar(i64), "v")


def state(lanes: int = 4, first: int = 0) -> State:
    geometry = Geometry((1, 1, 1), (lanes, 1, 1))
    launch = Launch(Builder("k").program(), geometry, {}, {}, frozenset({SCALAR}), None, lambda: False)
    return State(launch, Window(geometry, 0, first, lanes))


def test_merge_keeps_the_old_value_in_other_active_lanes() -> None:
    s = state()
    chosen = np.array([True, False, True, False])
    assert s.merge(chosen, np.int64(1), np.int64(2), SCALAR).tolist() == [1, 2, 1, 2]
    new = np.int64(1)
    s.mask = chosen
    assert s.merge(chosen, new, np.int64(2), SCALAR) is new


def test_agents() -> None:
    s = state(6, first=2)
    assert s.agents() == [GROUP]
    s.mask = np.array([False, True, True, True])
    assert s.agents() == [3, 4]
    s.mask = np.array([False, False, False, True])
    assert s.agents() == [5]


def test_varying_and_spread() -> None:
    s = state()
    assert s.is_varying(Op("neg", (SCALAR,)))
    assert not s.is_varying(Op("neg", (Value(Scalar(i64)),)))
    assert s.per_lane(np.array(3)).tolist() == [3, 3, 3, 3]
    assert s.per_lane(np.arange(4)).tolist() == [0, 1, 2, 3]


def test_choices_of_choices_name_each_buffer_once() -> None:
    a, b, c = (fresh_shared(name, f32, (2,)) for name in "abc")
    first = choose(np.array([True, True, False, False]), a, b)
    second = choose(np.array([True, False, True, False]), first, c)
    assert isinstance(second, Choice)
    assert [second.buffers[k].name for k in map(int, second.which)] == ["a", "c", "b", "c"]
    s = state()
    s.mask = np.array([True, True, False, False])
    parts = [(buffer.name, mask.tolist()) for buffer, mask in s.parts(second)]
    assert parts == [("a", [True, False, False, False]), ("c", [False, True, False, False])]
    kind = Value(Shared(f32, (2,)))
    assert s.merge(np.array([True, False, False, False]), a, b, kind).buffers == (a, b)
