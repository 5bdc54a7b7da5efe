"""Random kernels with all kinds of control flow around barriers: compiled code and interpreter agree in every bit."""

import numpy as np
import pytest

from support.cpu import LARGE, SMALL, compiled
from support.random_lanes import Kernel
from tessera.runtime.interpret.run import run
from tessera.runtime.launch.cpu import CpuLauncher

GROUPS = (128,), (100,), (32,), (8,), (48,), (16, 8), (32, 4), (4, 4, 4), None
FEATURES = None, SMALL, LARGE


def launch_both(seed: int) -> None:
    group = GROUPS[seed % len(GROUPS)]
    kernel = Kernel(seed, group)
    program = kernel.build()
    n = 77 + seed % 50
    size = int(np.prod(group)) if group else n
    groups = 2 if group else 1
    lanes = groups * size - (seed * 7 % size if group else 0)
    expected = kernel.arguments(lanes, groups, n, seed)
    found = kernel.arguments(lanes, groups, n, seed)
    symbols = {s.name: expected[s.parameter].shape[s.axis] for s in program.symbols}
    run(program, expected, symbols=symbols)
    artifact = compiled(program, passes=seed % 2 == 0, features=FEATURES[seed % 3])
    CpuLauncher(artifact)(*found)
    for parameter, one, other in zip(program.parameters, expected, found, strict=True):
        if isinstance(one, np.ndarray):
            np.testing.assert_array_equal(other, one, err_msg=f"{parameter.name} of seed {seed}")


@pytest.mark.parametrize("seed", range(18))
def test_random_kernel(seed: int):
    launch_both(seed)
