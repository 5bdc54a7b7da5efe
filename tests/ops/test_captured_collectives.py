"""Collectives in graphs of launches: from what values hold when the graph is launched, into the same results."""

import numpy as np
import pytest

import tessera
from tessera import dist, op
from tessera.core.errors.catalog import BadCapture


def test_values_of_ranks():
    x = [np.full(3, rank, np.float32) for rank in range(4)]
    mesh = dist.Mesh("dp", range(4))
    with tessera.graph.capture() as graph:
        total = op.all_reduce(x, mesh=mesh)
        parts = op.all_gather(x, mesh=mesh)
    for scale in (1, 5):
        for rank, each in enumerate(x):
            each[:] = rank * scale
        tessera.graph.launch(graph)
        for rank in range(4):
            np.testing.assert_array_equal(total[rank], np.full(3, 6 * scale, np.float32))
            np.testing.assert_array_equal(parts[rank], np.repeat(np.arange(4, dtype=np.float32) * scale, 3))
    assert graph.kernels == ("all_reduce", "all_gather")


def test_arrays_on_a_mesh():
    x = dist.tensor((4, 3), dist.Block("dp"), dist.Mesh("dp", range(4)))
    x[...] = 1
    with tessera.graph.capture() as graph:
        total, whole = op.all_reduce(x), op.all_gather(x)
    for scale in (1, 5):
        values = np.arange(12, dtype=np.float32).reshape(4, 3) * scale
        x[...] = values
        tessera.graph.launch(graph)
        np.testing.assert_array_equal(np.asarray(total), values.sum(0, keepdims=True))
        np.testing.assert_array_equal(np.asarray(whole), values)


def test_what_is_no_array():
    with tessera.graph.capture(), pytest.raises(BadCapture, match="check_replicas of such values"):
        op.check_replicas([np.ones(2), np.ones(2)])
