"""Arguments of a profiled call, held weakly."""

import gc

import numpy as np

from tessera.profiling.origin import ArgumentReferences


def test_arrays_are_not_kept_alive():
    array = np.ones(3)
    held = ArgumentReferences((array, 2.0, None))
    values = held.values()
    assert values is not None
    assert values[0] is array
    assert values[1:] == (2.0, None)
    del array, values
    gc.collect()
    assert held.values() is None
