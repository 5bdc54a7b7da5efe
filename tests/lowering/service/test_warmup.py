"""The kernel the worker practises on is a good one: the interpreter runs it."""

import numpy as np

from tessera.lowering.service.warmup import trivial_program
from tessera.runtime.interpret.run import run


def test_it_scales():
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    run(trivial_program(), (x, y, 3.0), symbols={"n": 4})
    np.testing.assert_array_equal(y, 3 * x)
