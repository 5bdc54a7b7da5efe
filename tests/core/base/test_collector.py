"""Pauses of the garbage collector: it is on again afterwards, however they end, and stays off where it was off."""

import gc

import pytest

from tessera.core.base.collector import collector_paused


def test_it_goes_on_afterwards():
    assert gc.isenabled()
    with collector_paused():
        assert not gc.isenabled()
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(KeyError), collector_paused():
        raise KeyError
    assert gc.isenabled()


def test_it_stays_off():
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_functions_are_paused():
    @collector_paused()
    def enabled() -> bool:
        return gc.isenabled()

    assert not enabled()
    assert not enabled()
    assert gc.isenabled()
