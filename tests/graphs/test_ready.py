"""Captured functions kept for calls like earlier ones, and for functions of the same text."""

from typing import Any

import numpy as np

from support.operators import Array
from tessera.core.base.dtypes import f32
from tessera.core.graph.graph import Tensor
from tessera.graphs.function import GraphFunction
from tessera.graphs.ready import QuickCall, RecentCaptures, VaryingNumbers
from tessera.graphs.structure import Static, flatten
from tessera.kernels.closures.walk import closure_of

X = np.ones(3, np.float32)
HELD: dict[str, Any] = {"w": np.full(3, 2.0, np.float32), "scale": 1.0}


def weighted() -> GraphFunction[..., Array]:
    """Return a new function of one text."""

    def function(v: Array) -> Array:
        return v * HELD["w"] * HELD["scale"]

    return GraphFunction(function, "weighted")


def test_it_fits_calls_of_its_kind_while_its_closure_is_as_it_was():
    function = weighted()
    function(X)
    ready = function._last
    assert ready is not None
    structure, types = flatten(((X,), {}), []), (Tensor(f32, (3,)),)
    assert ready.fits(structure, types)
    assert not ready.fits(structure, (Tensor(f32, (4,)),))
    HELD["w"] = np.full(3, 5.0, np.float32)
    assert not ready.fits(structure, types)
    again = ready.now(closure_of(function))
    assert again is not None
    assert again.captured.captured[0] is HELD["w"]
    assert again.executable is ready.executable
    assert QuickCall(again).results((X[::-1],), {}) is None  # an array of another kind


def test_recent_captures_keep_no_arrays_and_no_more_than_a_few():
    recent, function = RecentCaptures(), weighted()
    function(X)
    ready = function._last
    assert ready is not None
    closure = closure_of(function)
    for number in range(70):
        recent.add((number,), ready)
    kept = [recent.find((number,), ready.structure, ready.types, closure) is not None for number in range(70)]
    assert kept == [False] * 6 + [True] * 64
    HELD["w"] = np.full(3, 7.0, np.float32)
    other = recent.find((69,), ready.structure, ready.types, closure_of(function))
    assert other is not None
    assert other.captured.captured[0] is HELD["w"]
    recent.clear()
    assert recent.find((69,), ready.structure, ready.types, closure) is None


def test_equal_text_shares_an_executable():
    first, second = weighted(), weighted()
    np.testing.assert_array_equal(np.asarray(first(X)), X * HELD["w"])
    np.testing.assert_array_equal(np.asarray(second(X)), X * HELD["w"])
    assert first.executable is second.executable


def test_numbers_become_inputs_with_their_third_value():
    numbers = VaryingNumbers()
    calls = [(0.1, 1, 5), (0.2, 0, 5), (0.3, 1, 5), (0.1, 0, 5), (0.4, 1, 6)]
    places = [numbers.varying([Static.of(each) for each in call]) for call in calls]
    assert places == [(), (), (0,), (0,), (0,)]
    numbers.refuse((0,))
    assert numbers.varying([Static.of(each) for each in (0.5, 1, 5)]) == ()
    assert numbers.varying([Static.of(each) for each in (0.5, 1, 7)]) == (0, 2)
