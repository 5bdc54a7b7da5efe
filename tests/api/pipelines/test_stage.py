"""Stages of a pipeline: trees of arrays, sums of gradients, what is received from another stage."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportArgumentType=false, reportUnknownLambdaType=false

import numpy as np
import pytest

from support.operators import Array
from tessera import dist, graph
from tessera.api.pipelines.stage import Stage, added, holds_short_floats, mapped
from tessera.core.settings import overridden


def double(p: Array, x: Array) -> Array:
    return 2 * x


def stage(number: int) -> Stage:
    return Stage(number, double, dist.Mesh("tp", range(2 * number, 2 * number + 2)), 1.0)


def test_trees():
    tree = {"a": (np.zeros(2), [np.ones(3)]), "b": 4, "c": None}
    result = mapped(tree, np.size)
    assert result == {"a": (2, [3]), "b": 4, "c": None}


def test_what_is_received_lies_on_the_counterparts():
    first, second = stage(0), stage(1)
    sent = {"x": dist.array(np.arange(4.0), dist.Block("tp"), first.mesh)}
    transfer = second.receiving(sent)
    assert not transfer.value["x"].stored
    received = transfer.arrived()["x"]
    assert (received.mesh, received.type) == (second.mesh, sent["x"].type)
    np.testing.assert_array_equal(np.asarray(received), np.arange(4.0))
    assert received.shard(1).tolist() == [2, 3]
    declared = second.receiving(dist.tensor((4,), dist.Block("tp"), first.mesh)).arrived()
    assert not declared.stored


@pytest.mark.parametrize(("dtype", "wide"), [("f32", "f32"), ("f16", "f32"), ("bf16", "f32"), ("f64", "f64")])
def test_sums(dtype: str, wide: str):
    x = np.array([1.0, 2.0])
    with overridden(target="interpret"):
        first = graph.module("first")(lambda x: added(None, {"x": x.astype(dtype)}, rounded=False))(x)
        both = graph.module("both")(lambda a, x: added(a, {"x": x.astype(dtype)}, rounded=False))(first, x)
        last = graph.module("last")(lambda a, x: added(a, {"x": x.astype(dtype)}, rounded=True))(both, x)
    names = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "f64": "float64"}
    assert first["x"].dtype == both["x"].dtype == names[wide]
    assert last["x"].dtype == names[dtype]
    np.testing.assert_array_equal(np.asarray(last["x"], np.float64), 3 * x)


def test_short_floats():
    assert holds_short_floats({"w": np.zeros(2, np.float16), "n": np.zeros(2, np.int32)})
    assert not holds_short_floats([np.zeros(2, np.float32), 3, ()])


def test_the_graph_of_a_loss_is_kept():
    kept = stage(1)

    def loss(y: Array, target: Array) -> Array:
        return (y - target).sum()

    graph_of_loss = kept.turn(loss)
    assert kept.turn(loss) is graph_of_loss
    for n in range(8):
        kept.turn(lambda y, target, n=n: (y * n).sum())
    assert kept.turn(loss) is not graph_of_loss
    assert kept.forward is kept.forward
    assert kept.backward is kept.backward
