"""Whether a closure is as it was: what counts, and what does not."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

import dataclasses
import functools
import math
import types
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tessera.kernels.closures import walk
from tessera.kernels.closures.walk import closure_of

Number = Any
HERE: Any = types.ModuleType("settings_of_this_test")


class Layer:
    """An object with weights."""

    scale = 2.0

    def __init__(self) -> None:
        self.rate, self.steps, self.parts = 1.0, 0, [1.0]

    def __call__(self, v: float) -> float:
        return self.apply(v) * self.scale

    def apply(self, v: float) -> float:
        """Return v times the rate."""
        return v * self.rate * self.parts[0] * self.offset

    @property
    def offset(self) -> float:
        """What a global says."""
        return HERE.offset


@dataclasses.dataclass
class Config:
    """Settings."""

    rate: float = 1.0
    other: object = None


class Slots:
    """An object without a dict."""

    __slots__ = ("rate",)

    def __init__(self) -> None:
        self.rate = 1.0


class Computed:
    """An object that looks attributes up elsewhere, as torch's modules do."""

    def __init__(self) -> None:
        self.held = {"rate": 1.0}

    def __getattr__(self, name: str) -> float:
        return self.held[name]


class World:
    """What functions of this test read, and a function."""

    def __init__(self) -> None:
        HERE.offset = 1.0
        scale = 1.0
        layer, config, slots, computed = Layer(), Config(), Slots(), Computed()
        table, names, queue, flags = [1.0, [2.0]], {"w": 1.0, "n": 0, "inner": {"a": 1.0}}, deque([1.0]), {1, 2}
        ordered = OrderedDict(a=1.0)
        bound = functools.partial(lambda a, v: a * v, table)
        array = np.ones(3)
        log: list[float] = []
        self.__dict__.update(
            layer=layer, config=config, slots=slots, computed=computed, table=table, names=names, queue=queue,
            flags=flags, ordered=ordered, array=array, log=log, helper=lambda v: v * scale,
        )  # fmt: skip

        def set_scale(value: float) -> None:
            nonlocal scale
            scale = value

        def helper(v: float) -> float:
            return v * scale

        def function(v: Number) -> object:
            log.append(v)
            for each in table:
                v = v * each
            return (
                layer(helper(v)), config, slots.rate, computed.rate, names["w"], names["inner"], queue, flags, ordered,
                bound, array, math.pi,
            )  # fmt: skip

        self.function: Callable[..., object] = function
        self.set_scale = set_scale


CHANGES: dict[str, Callable[..., object]] = {
    "a variable of a helper": lambda w: w.set_scale(3.0),
    "an attribute": lambda w: setattr(w.layer, "rate", 3.0),
    "an element of an attribute": lambda w: w.layer.parts.__setitem__(0, 3.0),
    "a class attribute that an object hides": lambda w: setattr(w.layer, "scale", 3.0),
    "a global that a property reads": lambda w: setattr(HERE, "offset", 3.0),
    "a field": lambda w: setattr(w.config, "rate", 3.0),
    "a field that no code names": lambda w: setattr(w.config, "other", 3.0),
    "a slot": lambda w: setattr(w.slots, "rate", 3.0),
    "a computed attribute": lambda w: w.computed.held.update(rate=3.0),
    "an element": lambda w: w.table.__setitem__(0, 3.0),
    "an element of an element": lambda w: w.table[1].__setitem__(0, 3.0),
    "one element more": lambda w: w.table.append(3.0),
    "one element less": lambda w: w.table.pop(),
    "an entry": lambda w: w.names.update(w=3.0),
    "an entry of an entry": lambda w: w.names["inner"].update(a=3.0),
    "a new entry of an entry": lambda w: w.names["inner"].update(b=3.0),
    "a deque": lambda w: w.queue.append(3.0),
    "a set": lambda w: w.flags.add(3),
    "an ordered dict": lambda w: w.ordered.update(b=3.0),
    "the dtype of an array": lambda w: w.names.update(w=np.ones(3, np.float32)),
    "an int that was a float": lambda w: w.names.update(w=1),
    "a negative zero": lambda w: w.names.update(w=-0.0),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_counts(change: str):
    world = World()
    if change == "a negative zero":
        world.__dict__["names"]["w"] = 0.0
    before = closure_of(world.function)
    assert before.complete
    assert before.unchanged()
    assert closure_of(world.function).key == before.key
    CHANGES[change](world)
    assert not before.unchanged()
    assert closure_of(world.function).key != before.key


@pytest.mark.parametrize(
    "change",
    [
        lambda w: setattr(w.layer, "steps", 3),
        lambda w: w.names.update(n=3),
        lambda w: w.log.append(3.0),
        lambda w: setattr(HERE, "other", 3.0),
    ],
)
def test_what_does_not_count(change: Callable[[object], object]):
    world = World()
    before = closure_of(world.function)
    change(world)
    assert before.unchanged()


def test_equal_values_have_an_equal_key():
    """As when a cell is run again: other objects, the same program."""
    world = World()
    before = closure_of(world.function)
    world.set_scale(float("1.0"))
    world.__dict__["names"]["inner"] = {"a": float("1.0")}
    assert not before.unchanged()
    assert closure_of(world.function).key == before.key
    assert closure_of(World().function).key == before.key


def test_methods_of_a_class(monkeypatch: pytest.MonkeyPatch):
    world = World()
    before = closure_of(world.function)
    monkeypatch.setattr(Layer, "apply", lambda self, v: v)
    assert not before.unchanged()
    assert closure_of(world.function).key != before.key


def test_new_code_in_a_function():
    """What IPython's autoreload does."""

    def helper(v: float) -> float:
        return v * 2

    def function(v: float) -> float:
        return helper(v)

    before = closure_of(function)
    helper.__code__ = (lambda v: v * 3).__code__
    assert not before.unchanged()
    assert closure_of(function).key != before.key


def test_arrays_are_told_apart_by_type_and_by_who_else_has_them():
    arrays = [np.ones(3), np.ones(3)]

    def function(v: float) -> object:
        return [v * each for each in arrays]

    before = closure_of(function)
    assert [id(each) for each in before.arrays] == [id(each) for each in arrays]
    arrays[1] = np.zeros(3)
    after = closure_of(function)
    assert after.key == before.key
    arrays[1] = arrays[0]
    assert closure_of(function).key != before.key
    arrays[1] = np.zeros(4)
    assert closure_of(function).key != before.key


def test_more_than_is_looked_at(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(walk, "MOST_VALUES", 20)
    many = [[n] for n in range(30)]
    assert not closure_of(lambda: many).complete
    assert not closure_of(lambda: many).unchanged()
    deep: list[object] = []
    for _ in range(3000):
        deep = [deep]
    monkeypatch.setattr(walk, "MOST_VALUES", 10000)
    assert not closure_of(lambda: deep).complete


def test_cycles_and_functions_that_call_themselves():
    ring: list[object] = [1.0]
    ring.append(ring)

    def again(n: int) -> object:
        return again(n - 1) if n else ring

    before = closure_of(again)
    assert before.unchanged()
    ring[0] = 2.0
    assert not before.unchanged()


def test_a_variable_that_is_not_assigned_yet():
    def function() -> object:
        return later

    assert not closure_of(function).unchanged()
    later = 1
    assert closure_of(function).unchanged()


def test_a_builtin_that_a_global_hides():
    names: dict[str, object] = {}
    exec("def f(v):\n    return max(v, 0)\n", names)
    before = closure_of(names["f"])
    names["max"] = lambda *_: 0
    assert not before.unchanged()
