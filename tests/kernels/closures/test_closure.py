"""A kernel's surroundings."""

import builtins

import pytest

from tessera.kernels.closures.closure import FreeNames

HERE = 1
LATER = None


def test_closures_go_before_globals():
    HERE = 2

    def function() -> int:
        return HERE

    names = FreeNames(function)
    assert names["HERE"] == 2
    assert names["LATER"] is None
    assert "HERE" in names
    assert "NOWHERE" not in names
    assert 3 not in names
    assert {"HERE", "LATER"} <= set(names)
    assert len(names) == len(set(names))
    with pytest.raises(KeyError):
        _ = names["NOWHERE"]


def test_what_was_looked_up_and_found_is_used():
    value = 5

    def function() -> object:
        return value, HERE

    names = FreeNames(function)
    assert names.used == ()
    _ = names["value"], names["HERE"], "LATER" in names, names.get("NOWHERE")
    assert names.used == ("value", "HERE")


def test_a_closure_variable_without_a_value_yet():
    def function() -> object:
        return not_yet

    names = FreeNames(function)
    assert "not_yet" not in names
    not_yet = 1
    assert names["not_yet"] == 1


def test_what_is_no_function_has_no_names():
    assert len(FreeNames(builtins.len)) == 0
