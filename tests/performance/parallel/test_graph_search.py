"""The search among placements of a function's inputs: what it finds, why, and what it refuses."""

import numpy as np
import pytest

from support.mesh_mlp import mlp
from tessera import op
from tessera.core.errors.catalog import BadModel, NoPlanFits
from tessera.core.placement.mesh import Mesh
from tessera.graphs.function import GraphFunction
from tessera.graphs.tracer import Tracer
from tessera.performance.parallel.graph_search import search_graph

WIDE = ("bf16[65536, 8192]", "bf16[8192, 32768]", "bf16[32768, 8192]")
DEVICES = Mesh.of("dp", range(8))


def test_weights_that_fit_are_on_every_device():
    found = search_graph(mlp, DEVICES, WIDE, (), 141 << 30)
    assert found.best.extents == (8, 1, 1)
    assert found.best.layouts["x"] == "bf16[65536@dp, 8192]"
    assert found.best.seconds >= 2 * 2 * 65536 * 8192 * 32768 / 8 / 660e12
    assert {plan.name for plan in found.ranked} <= {found.best.name, *(each.name for each in found.rejected)}


def test_weights_that_do_not_fit_are_cut_by_columns_then_rows():
    """Tensor parallelism as it is usually written is found, not known."""
    few = ("bf16[64, 8192]", "bf16[8192, 262144]", "bf16[262144, 8192]")
    found = search_graph(mlp, DEVICES, few, (), 2 << 30)
    assert found.best.extents[1] == 8
    assert found.best.layouts["w"] == "bf16[8192, 262144@tp]"
    assert found.best.layouts["v"] == "bf16[262144@tp, 8192]"
    assert [each.kind for each in found.best.collectives] == ["all_reduce"]
    assert "4.0 GiB" in next(each for each in found.rejected if each.name == "dp 4 x tp 2 x pp 1").reason


def test_layers_of_a_stack_are_cut_alike_and_make_stages():
    def layers(x: Tracer, ws: list[Tracer]) -> object:
        for w in ws:
            x = op.gelu(op.matmul(x, w))
        return x

    stack: GraphFunction[..., object] = GraphFunction(layers, "stack")
    found = search_graph(
        stack, Mesh.of("dp", range(4)), ("bf16[4096, 4096]", ["bf16[4096, 4096]"] * 8), ("x",), 200 << 20
    )
    for plan in found.ranked:
        assert plan.bytes_per_device <= 200 << 20
    names = [each.name for each in found.rejected if each.fits] + [found.best.name]
    assert any(name.endswith("pp 4") for name in names)
    timeline = found.best.timeline
    assert timeline is not None
    assert timeline.seconds == found.best.seconds


def test_arrays_are_examples_too():
    x, w, v = (np.zeros(shape, np.float32) for shape in ((16, 8), (8, 32), (32, 8)))
    assert search_graph(mlp, Mesh.of("dp", range(2)), (x, w, v), ("x",), 1 << 30).best.mesh.size() == 2


def test_what_cannot_be_planned():
    with pytest.raises(NoPlanFits) as caught:
        search_graph(mlp, DEVICES, WIDE, (), 1 << 20)
    assert "mlp: at least " in str(caught.value)
    assert "devices or more it would fit" in (caught.value.hint or "")
    with pytest.raises(BadModel, match="mlp has no input 'y'"):
        search_graph(mlp, DEVICES, WIDE, ("y",), 1 << 40)
    with pytest.raises(NoPlanFits, match="no dp x tp x pp = 7 divides its extents"):
        search_graph(mlp, Mesh.of("dp", range(7)), WIDE, (), 1 << 40)
