"""Pipelines against the same functions in one graph: values, gradients, orders, layouts, mistakes."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import DTypeLike

import tessera
from support.operators import Array
from tessera import dist, graph, op
from tessera.core.errors.catalog import BadMesh, BadPipeline, CannotTrace, NeedsMesh, NotDifferentiable
from tessera.core.settings import overridden

Parameters = dict[str, np.ndarray]


def layer(p: Array, x: Array) -> Array:
    return op.tanh(x @ p["w"] + p["b"])


def head(p: Array, x: Array) -> Array:
    return x @ p["w"]


def squares(y: Array, target: Array) -> Array:
    return op.mean((y - target) ** 2)


def parameters_of(widths: list[int], dtype: DTypeLike = np.float32, seed: int = 0) -> list[Parameters]:
    rng = np.random.default_rng(seed)
    return [
        {"w": (rng.standard_normal((a, b)) / a**0.5).astype(dtype), "b": rng.standard_normal(b).astype(dtype)}
        for a, b in pairwise(widths)
    ]


def batch_of(rows: int, width: int, results: int, dtype: DTypeLike = np.float32) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.standard_normal((rows, width)).astype(dtype), rng.standard_normal((rows, results)).astype(dtype)


def in_sequence(functions: list[Callable[[Any, Array], Array]]) -> Callable[[Any, Array], Array]:
    def compute(parameters: Array, x: Array) -> Array:
        for function, own in zip(functions, parameters, strict=True):
            x = function(own, x)
        return x

    return compute


def leaves(gradients: list[Any]) -> list[np.ndarray]:
    return [np.asarray(tree[name]) for tree in gradients for name in sorted(tree) if tree[name] is not None]


@given(
    places=st.integers(1, 3), rows=st.integers(1, 3), batches=st.integers(1, 4), dp=st.integers(1, 2),
    schedule=st.sampled_from(["gpipe", "1f1b"]), data=st.data(),
)  # fmt: skip
@settings(max_examples=15, deadline=None)
def test_values_and_gradients(places: int, rows: int, batches: int, dp: int, schedule: str, data: st.DataObject):
    widths = [data.draw(st.integers(1, 5)) for _ in range(places + 1)]
    mesh = dist.Mesh(axes=("pp", "dp"), devices=range(places * dp), shape=(places, dp))
    functions = [layer] * (places - 1) + [head]
    parameters, (x, target) = parameters_of(widths), batch_of(rows * batches, widths[0], widths[-1])
    with overridden(target="interpret"):
        pipe = tessera.pipeline(functions, mesh=mesh, micro_batches=batches, schedule=schedule, layout=dist.Block("dp"))
        y = pipe(parameters, x)
        loss, gradients = pipe.value_and_grad(squares)(parameters, x, target)
        one = in_sequence(functions)
        np.testing.assert_allclose(np.asarray(y), np.asarray(graph.module("one")(one)(parameters, x)), 1e-5, 1e-5)
        want_loss, want = tessera.value_and_grad(lambda p: squares(one(p, x), target))(parameters)
    assert y.mesh == pipe.meshes[-1]
    np.testing.assert_allclose(float(loss), float(want_loss), rtol=1e-5)
    for got, expected in zip(leaves(gradients), leaves(want), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_every_order_gives_the_same_bits():
    parameters, (x, target) = parameters_of([5, 7, 6, 4, 3]), batch_of(12, 5, 3)
    functions = [layer, layer, layer, head]
    results: list[tuple[float, list[np.ndarray]]] = []
    with overridden(target="interpret"):
        for schedule, places in (("gpipe", 4), ("1f1b", 4), ("interleaved", 2), ("gpipe", 1)):
            mesh = dist.Mesh(axes=("pp", "dp"), devices=range(places * 2), shape=(places, 2))
            stages = functions if places > 1 else [in_sequence(functions)]
            given = parameters if places > 1 else [parameters]
            pipe = tessera.pipeline(stages, mesh=mesh, micro_batches=4, schedule=schedule, layout=dist.Block("dp"))
            loss, gradients = pipe.value_and_grad(squares)(given, x, target)
            results.append((float(loss), leaves(gradients if places > 1 else gradients[0])))
    for loss, gradients in results[1:]:
        assert loss == results[0][0]
        for got, expected in zip(gradients, results[0][1], strict=True):
            np.testing.assert_array_equal(got, expected)


def test_a_mesh_of_one_axis_and_parameters_that_lie_on_their_stages():
    mesh = dist.Mesh(axes=("pp", "tp"), devices=range(4), shape=(2, 2))
    parameters, (x, target) = parameters_of([6, 8, 3]), batch_of(4, 6, 3)
    pipe = tessera.pipeline([layer, head], mesh=mesh, micro_batches=2)
    cut = [
        {"w": dist.array(parameters[0]["w"], dist.ShardSpec("col", "tp"), pipe.meshes[0]), "b": parameters[0]["b"]},
        {"w": dist.array(parameters[1]["w"], dist.ShardSpec("row", "tp"), pipe.meshes[1])},
    ]
    with overridden(target="interpret"):
        loss, gradients = pipe.value_and_grad(squares)(cut, x, target)
        alone = tessera.pipeline([layer, head], mesh=dist.Mesh("pp", range(2)), micro_batches=2)
        want_loss, want = alone.value_and_grad(squares)(parameters, x, target)
    assert [str(mesh) for mesh in pipe.meshes] == [
        "mesh(tp=2), 2 devices: sim:0 to sim:1", "mesh(tp=2), 2 devices: sim:2 to sim:3",
    ]  # fmt: skip
    assert str(gradients[0]["w"].type) == "f32[6, 8@tp]"
    assert str(gradients[1]["w"].type) == "f32[8@tp, 3]"
    assert [each.devices for each in alone.meshes] == [mesh.devices[:1], mesh.devices[1:2]]
    np.testing.assert_allclose(float(loss), float(want_loss), rtol=1e-6)
    for i, name in ((0, "w"), (0, "b"), (1, "w")):
        np.testing.assert_allclose(np.asarray(gradients[i][name]), np.asarray(want[i][name]), rtol=1e-5, atol=1e-6)
    assert (np.asarray(want[1]["b"]) == 0).all()  # the head does not read it


def test_trees_integers_and_functions_without_parameters():
    table = np.random.default_rng(0).standard_normal((9, 4)).astype(np.float32)
    tokens, labels = np.array([0, 3, 3, 8, 1, 2]), np.array([1, 0, 3, 2, 2, 1])

    def embed(p: Array, x: dict[str, Array]) -> dict[str, Array]:
        return {"h": op.gather(p, x["tokens"], 0), "scale": x["scale"]}

    def middle(p: tuple[()], x: dict[str, Array]) -> tuple[Array, Array]:
        return x["h"] * x["scale"][:, None], x["h"]

    def last(p: tuple[()], x: tuple[Array, Array]) -> Array:
        return x[0] + x[1]

    scale = np.arange(6, dtype=np.float32)
    pipe = tessera.pipeline([embed, middle, last], mesh=dist.Mesh("pp", range(3)), micro_batches=3)
    batch = {"tokens": tokens, "scale": scale}
    with overridden(target="interpret"):
        y = pipe([table, (), ()], batch)
        loss, gradients = pipe.value_and_grad(op.cross_entropy)([table, (), ()], batch, labels)
        want_loss, want = tessera.value_and_grad(
            lambda p: op.cross_entropy(last((), middle((), embed(p, batch))), labels)
        )(table)
    np.testing.assert_array_equal(np.asarray(y), table[tokens] * scale[:, None] + table[tokens])
    np.testing.assert_allclose(float(loss), float(want_loss), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(gradients[0]), np.asarray(want), rtol=1e-5, atol=1e-7)
    assert gradients[1:] == [(), ()]


def test_gradients_of_short_floats_are_summed_in_f32_and_rounded_once():
    widths = [4, 5, 3]
    parameters, (x, target) = parameters_of(widths, ml_dtypes.bfloat16), batch_of(8, 4, 3, ml_dtypes.bfloat16)
    mesh = dist.Mesh("pp", range(2))
    with overridden(target="interpret"):
        pipe = tessera.pipeline([layer, head], mesh=mesh, micro_batches=4)
        _, gradients = pipe.value_and_grad(squares)(parameters, x, target)
        parts = [
            tessera.pipeline([layer, head], mesh=mesh).value_and_grad(lambda y, t: squares(y, t) * 0.25)(
                parameters, x[2 * n : 2 * n + 2], target[2 * n : 2 * n + 2]
            )[1]
            for n in range(4)
        ]
    for i, name in ((0, "w"), (0, "b"), (1, "w")):
        total = np.sum([np.asarray(part[i][name]).astype(np.float32) for part in parts], axis=0)
        assert gradients[i][name].dtype == ml_dtypes.bfloat16
        np.testing.assert_array_equal(np.asarray(gradients[i][name]), total.astype(ml_dtypes.bfloat16))


def test_a_training_loop_compiles_once_and_learns():
    parameters, (x, target) = parameters_of([3, 4, 2]), batch_of(4, 3, 2)
    pipe = tessera.pipeline([layer, head], mesh=dist.Mesh("pp", range(2)), micro_batches=2, schedule="1f1b")
    losses: list[float] = []
    with overridden(target="interpret"):
        for _ in range(4):
            loss, gradients = pipe.value_and_grad(squares)(parameters, x, target)
            losses.append(float(loss))
            parameters = [
                {name: p[name] - 0.1 * np.asarray(g[name]) for name in p}
                for p, g in zip(parameters, gradients, strict=True)
            ]
    assert losses == sorted(losses, reverse=True)
    assert len({id(stage.turn(squares)) for stage in pipe.stages[-1:] for _ in range(2)}) == 1


@pytest.mark.parametrize(
    ("change", "message", "hint"),
    [
        ({"functions": [layer] * 3}, "3 functions for the 2 places along pp", "give 2, or a multiple of it with schedule"),
        ({"functions": [layer]}, "1 function for the 2 places along pp", "give 2"),
        ({"functions": []}, "0 functions for the 2 places along pp", "give 2"),
        ({"schedule": "zigzag"}, "there is no schedule 'zigzag'", "choose from gpipe, 1f1b, interleaved"),
        ({"micro_batches": 0}, "micro_batches=0", "cut a batch into at least one"),
        ({"micro_batches": 2.0}, r"micro_batches=2\.0", "cut a batch into at least one"),
        ({"functions": layer}, "one function is no pipeline", "give a list"),
        ({"schedule": "interleaved", "micro_batches": 3}, "3 micro-batches are not dealt evenly to 2 stages", "take micro_batches=4"),
    ],
)  # fmt: skip
def test_pipelines_that_there_are_not(change: dict[str, Any], message: str, hint: str):
    keywords = {"functions": [layer, head], "mesh": dist.Mesh("pp", range(2)), "micro_batches": 2} | change
    with pytest.raises(BadPipeline, match=message) as caught:
        tessera.pipeline(keywords.pop("functions"), **keywords)
    assert hint in str(caught.value)
    assert "test_pipeline.py, line" in str(caught.value)


def test_an_axis_that_there_is_not():
    with pytest.raises(BadMesh, match="no axis 'pp'"):
        tessera.pipeline([layer], mesh=dist.Mesh("tp", range(2)))


def test_batches_and_parameters_that_do_not_fit():
    mesh = dist.Mesh("pp", range(2))
    pipe = tessera.pipeline([layer, head], mesh=mesh, micro_batches=3)
    parameters, (x, target) = parameters_of([4, 5, 2]), batch_of(8, 4, 2)
    on_mesh = dist.array(x, None, mesh)
    step = pipe.value_and_grad(squares)
    calls: list[tuple[Callable[[], object], str, str]] = [
        (lambda: pipe(parameters, x), "x has 8 rows, which are no 3 equal micro-batches", "give 9 rows"),
        (lambda: step(parameters, x[:6], target), "target has 8 rows", "give 9 rows"),
        (lambda: pipe(parameters[:1], x[:6]), "2 functions take as many trees of parameters, not 1", "write ()"),
        (lambda: pipe(parameters[0], x[:6]), "2 functions take as many trees of parameters, not dict", "write ()"),
        (lambda: pipe(parameters, on_mesh), "x lies on a mesh", "layout= says how micro-batches lie"),
        (lambda: pipe(parameters, np.float32(3)), "x is no batch: no arrays", "agree in their first axis"),
        (lambda: pipe(parameters, (x, x[:6])), r"x is no batch: \(8, 4\), \(6, 4\)", "agree in their first axis"),
    ]  # fmt: skip
    for call, message, hint in calls:
        with pytest.raises(BadPipeline, match=message) as caught:
            call()
        assert hint in str(caught.value)
        assert "test_pipeline.py, line" in str(caught.value)


def test_mistakes_of_a_function_name_its_stage():
    pipe = tessera.pipeline([layer, head], mesh=dist.Mesh("pp", range(2)), micro_batches=2)
    parameters, (x, target) = parameters_of([4, 5, 2]), batch_of(8, 4, 2)
    foreign = [parameters[0], {"w": dist.array(parameters[1]["w"], None, pipe.meshes[0])}]
    with pytest.raises(NeedsMesh) as caught:
        pipe(foreign, x)
    assert caught.value.__notes__ == ["in stage 1 (head), micro-batch 0, on mesh(pp=1), 1 device: sim:1"]
    with pytest.raises(NotDifferentiable) as refused:
        pipe.value_and_grad(lambda y, t: y - t)(parameters, x, target)
    assert "in stage 1 (head), micro-batch 0" in refused.value.__notes__[0]


def test_its_text():
    pipe = tessera.pipeline([layer, head], mesh=dist.Mesh("pp", range(2)), micro_batches=2)
    assert repr(pipe) == (
        "pipeline of stage 0 (layer), stage 1 (head) along pp: gpipe, micro_batches=2, "
        "mesh(pp=2), 2 devices, all simulated: sim:0 to sim:1"
    )


@pytest.mark.filterwarnings("ignore:only floats have derivatives")
def test_integers_among_parameters_and_between_stages_have_no_gradient():
    """As `tessera.grad` passes over them: a state with a step counter, masks that go along with activations."""
    parameters, (x, target) = parameters_of([4, 5, 2]), batch_of(6, 4, 2)
    counted = [tree | {"steps": np.arange(2)} for tree in parameters]

    def masked(p: Array, x: Array) -> dict[str, Array]:
        return {"h": layer(p, x), "mask": (x.sum(1) > 0).astype("int32")}

    def selecting(p: Array, x: dict[str, Array]) -> Array:
        return op.where(x["mask"][:, None] > 0, head(p, x["h"]), 0.0)

    def whole(trees: Array) -> Array:
        return squares(selecting(trees[1], masked(trees[0], x)), target)

    pipe = tessera.pipeline([masked, selecting], mesh=dist.Mesh("pp", range(2)), micro_batches=3)
    with overridden(target="interpret"):
        loss, gradients = pipe.value_and_grad(squares)(counted, x, target)
        want_loss, want = tessera.value_and_grad(whole)(parameters)
    np.testing.assert_allclose(float(loss), float(want_loss), rtol=1e-5)
    assert [tree["steps"] for tree in gradients] == [None, None]
    for tree, expected in zip(gradients, want, strict=True):
        for name in ("w", "b"):
            np.testing.assert_allclose(np.asarray(tree[name]), np.asarray(expected[name]), rtol=1e-4, atol=1e-5)


def test_a_loss_without_a_target():
    parameters, (x, _) = parameters_of([4, 5, 2]), batch_of(6, 4, 2)
    pipe = tessera.pipeline([layer, head], mesh=dist.Mesh("pp", range(2)), micro_batches=3)
    with overridden(target="interpret"):
        loss, _ = pipe.value_and_grad(lambda y, _: op.mean(y * y))(parameters, x, None)
        want = np.mean(np.asarray(pipe(parameters, x)) ** 2)
    np.testing.assert_allclose(float(loss), want, rtol=1e-5)


def test_a_pipeline_is_no_part_of_a_graph():
    parameters, (x, _) = parameters_of([4, 5, 2]), batch_of(6, 4, 2)
    pipe = tessera.pipeline([layer, head], mesh=dist.Mesh("pp", range(2)))
    with pytest.raises(CannotTrace, match="its stages lie on different devices") as caught:
        tessera.grad(lambda p: op.mean(pipe(p, x)))(parameters)
    assert "pipe.value_and_grad(loss)" in str(caught.value)
