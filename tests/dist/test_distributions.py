"""Distributions of domains: where each element of a small one lies."""

import numpy as np
import pytest

from tessera import dist
from tessera.core.errors.catalog import BadShardSpec, UnevenShards


@pytest.mark.parametrize(
    ("layout", "text", "first"),
    [
        (dist.Block("dp"), "f32[7@dp]", [0, 1, 2, 3]),
        (dist.Cyclic("dp"), "f32[7@dp:cyclic]", [0, 2, 4, 6]),
        (dist.BlockCyclic("dp", 2), "f32[7@dp:cyclic(2)]", [0, 1, 4, 5]),
        (dist.Replicated(), "f32[7]", [0, 1, 2, 3, 4, 5, 6]),
    ],
)
def test_what_the_first_device_holds(layout: dist.Block, text: str, first: list[int]):
    x = dist.tensor((7,), layout, dist.Mesh("dp", range(2)))
    x[...] = np.arange(7)
    assert str(x.type) == text
    assert x.shard(0).tolist() == first


def test_extents_that_do_not_divide_may_be_refused():
    mesh = dist.Mesh("dp", range(2))
    for layout in (
        dist.Block("dp", uneven="refuse"),
        dist.Cyclic("dp", uneven="refuse"),
        dist.BlockCyclic("dp", 2, uneven="refuse"),
    ):
        with pytest.raises(UnevenShards):
            dist.tensor((7,), layout, mesh)


def test_more_dimensions_than_there_are():
    with pytest.raises(BadShardSpec, match="2 dimensions are cut, and the domain has 1"):
        dist.tensor((7,), dist.Block(("dp", None)), dist.Mesh("dp", range(2)))
