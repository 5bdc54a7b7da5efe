"""The inverse of the normal distribution function, against Python's own."""

import statistics

import numpy as np
import pytest

from tessera.core.base.dtypes import DType, f32, f64, u32, u64
from tessera.core.graph.graph import Graph, Tensor
from tessera.graphs.trace import tracing
from tessera.graphs.tracer import Tracer
from tessera.ops.definitions.normal import normal
from tessera.runtime.interpret.graph import evaluate

DISTRIBUTION = statistics.NormalDist()


def graph_of(words: DType, count: int) -> Graph:
    with tracing() as trace:
        bits = Tracer(trace, trace.input(Tensor(words, (count,)), "bits"))
        return trace.finish("normal", [normal(bits).value])


def reference(bits: int, width: int) -> float:
    """Return the exact place of a word, in f64."""
    place = ((bits << 1) | 1) & ((1 << width) - 1)
    size = -DISTRIBUTION.inv_cdf(place / 2 ** (width + 1))
    return -size if bits >> (width - 1) else size


@pytest.mark.parametrize(("words", "kind", "tolerance"), [(u32, f32, 5e-7), (u64, f64, 4e-16)])
def test_every_part_of_the_distribution(words: DType, kind: DType, tolerance: float):
    width = words.bits
    top = 1 << (width - 1)
    rng = np.random.default_rng(0)
    words_of = [*(int(each) for each in rng.integers(0, 1 << 32, 500)), *(1 << n for n in range(width - 1))]
    words_of = [each << (width - 32) if number < 500 else each for number, each in enumerate(words_of)]
    edges = [0, 1, top - 1, top, top + 1, 2 * top - 1, int(0.075 * top), int(0.15 * top)]
    bits = np.array([*words_of, *edges], words.numpy)
    (got,) = evaluate(graph_of(words, len(bits)), [bits])
    want = np.array([reference(int(each), width) for each in bits])
    assert got.dtype == kind.numpy
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
