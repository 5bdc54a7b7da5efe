"""Sums over the work of a launch."""

import numpy as np
import pytest

from tessera.core.work import Dot, Work


def test_sums():
    work = Work(np.array([1.0, 2.0]), np.array([3.0, 4.0]), np.array([5.0, 6.0]), {"a": 10.0, "b": 1.0}, 2.5, 1.5, 7.0)
    assert (work.groups, work.total_flops, work.requested_bytes, work.least_bytes) == (2, 11.0, 10.0, 4.0)


@pytest.mark.parametrize(("dtype", "size"), [("f64", 8), ("f32", 4), ("i32", 4), ("bf16", 2), ("f16", 2), ("i8", 1)])
def test_bytes_of_operands(dtype: str, size: int):
    assert Dot(3, 5, 7, dtype).operand_bytes == (3 + 5) * 7 * size
