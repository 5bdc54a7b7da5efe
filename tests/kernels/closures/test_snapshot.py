"""Comparing lookups, containers and elements with what they were."""

from types import SimpleNamespace

import numpy as np

from tessera.kernels.closures.snapshot import MOST_BYTES, Elements, Guards, Identity


def test_identity():
    value: list[int] = []
    assert Identity(value) == Identity(value)
    assert Identity(value) != Identity([])
    assert hash(Identity(value)) == hash(Identity(value))
    assert Identity(value) != value


def test_lookups():
    held = SimpleNamespace(rate=1.0)
    table: dict[str, object] = {"a": held, "b": None}
    guards = Guards()
    for getter, name, value in (
        (table.get, "a", held), (table.__getitem__, "b", None), (table.get, "absent", None),
        (vars(held).__getitem__, "rate", held.rate),
    ):  # fmt: skip
        guards.getters.append(getter)
        guards.names.append(name)
        guards.values.append(value)
    unchanged = guards.comparison()
    assert unchanged()
    table["absent"] = 1
    assert not unchanged()
    del table["absent"]
    assert unchanged()
    del table["b"]  # a lookup that raises
    assert not unchanged()


def test_functions_have_the_code_that_they_had():
    def first() -> int:
        return 1

    guards = Guards(functions=[first])
    unchanged = guards.comparison()
    assert unchanged()
    first.__code__ = (lambda: 2).__code__
    assert not unchanged()


def test_containers():
    sequence: list[object] = [1.5, "a"]
    mapping: dict[object, object] = {"a": 1.5}
    numbers = {1, 2}
    guards = Guards(
        sequences=[(sequence, tuple(sequence))], mappings=[(mapping, tuple(mapping), tuple(mapping.values()))],
        sets=[(numbers, frozenset(numbers))],
    )  # fmt: skip
    unchanged = guards.comparison()
    assert unchanged()
    sequence.append(2)
    assert not unchanged()
    sequence.pop()
    mapping["b"] = 2
    assert not unchanged()
    del mapping["b"]
    numbers.add(3)
    assert not unchanged()
    numbers.remove(3)
    assert unchanged()
    mapping["a"] = 2.5
    assert not unchanged()


def test_elements():
    small, large = np.ones(4), np.ones(MOST_BYTES // 8 + 1)
    elements = Elements.of([small])
    assert elements.complete
    assert elements.unchanged()
    assert elements.equal(Elements.of([small.copy()]))
    small[0] = 2
    assert not elements.unchanged()
    assert not elements.equal(Elements.of([small]))
    assert not elements.equal(Elements.of([]))
    assert not Elements.of([large]).complete  # what took its elements cannot be known cheaply
    assert not Elements.of([large]).unchanged()
