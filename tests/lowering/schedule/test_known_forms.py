"""Answers that are kept: the same for equal sets of nodes, others for sets that differ in anything."""

import pytest

from support.gradients import graph_of
from tessera.core.base.dtypes import f32, f64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Graph, Value
from tessera.core.schedule.plan import CASCADE
from tessera.core.schedule.refusals import listening
from tessera.lowering.schedule import known_forms
from tessera.lowering.schedule.form import Form, Members, form
from tessera.lowering.schedule.known_forms import KnownForms
from tessera.lowering.schedule.regroup import fuse


def members(built: Graph) -> Members:
    return Members(built.nodes, built.inputs, built.outputs)


def layer(b: GraphBuilder, x: Value, axis: int = 1, name: str = "exp") -> Value:
    return b.unary(name, b.reduce(x, (axis,)))


def test_keys_are_equal_for_equal_sets_alone():
    known = KnownForms()
    one = known.key(members(graph_of(layer, (f32, (4, 4)))))
    assert KnownForms().key(members(graph_of(layer, (f32, (4, 4))))) == one
    others = [
        graph_of(layer, (f32, (4, 8))), graph_of(layer, (f64, (4, 4))),
        graph_of(lambda b, x: layer(b, x, 0), (f32, (4, 4))), graph_of(lambda b, x: layer(b, x, 1, "log"), (f32, (4, 4))),
        graph_of(lambda b, x: (layer(b, x), b.reduce(x, (1,))), (f32, (4, 4))),
    ]  # fmt: skip
    keys = {known.key(members(each)) for each in others}
    assert len(keys) == len(others)
    assert one not in keys


def test_forms_are_asked_for_once(monkeypatch: pytest.MonkeyPatch):
    asked: list[Members] = []
    real = known_forms.form

    def counted(each: Members) -> Form | None:
        asked.append(each)
        return real(each)

    monkeypatch.setattr(known_forms, "form", counted)
    monkeypatch.setattr(known_forms, "_KNOWN", {})
    built = [graph_of(layer, (f32, (5, 9))) for _ in range(3)]
    answers = [KnownForms().is_kernel(members(each)) for each in built]
    assert answers == [True] * 3
    assert len(asked) == 1
    with listening():
        assert KnownForms().is_kernel(members(built[0]))
    assert len(asked) == 2


def test_long_models_are_divided_like_short_ones():
    """The groups of each further layer are those of the second one."""

    def model(count: int) -> list[str]:
        def make(b: GraphBuilder, x: Value, w: Value) -> Value:
            for _ in range(count):
                made = b.contract(x, w, [(0, 1), (1, 2)], (0, 2))
                total = b.reduce(made, (1,))
                x = b.binary("sub", made, b.broadcast(total, (0,), (64, 64)))
            return x

        built = graph_of(make, (f32, (64, 64)), (f32, (64, 64)))
        return [f"{each.form.kind} {len(each.members.nodes)}" for each in fuse(built).groups]

    few, many = model(3), model(20)
    each = (len(many) - len(few)) // 17
    assert each > 0
    assert many[-len(few) + each :] == few[each:]
    assert many[:each] == few[:each]
    assert many[each : 17 * each] == many[each : 2 * each] * 16


def attention(b: GraphBuilder, q: Value, k: Value, v: Value) -> tuple[Value, Value]:
    """A layer of attention without weights: a cascade."""
    weights = b.unary("exp", b.contract(q, k, ((0, 2), (1, 2)), (0, 1)))
    total = b.reduce(weights, (1,))
    return b.contract(weights, v, ((0, 1), (1, 2)), (0, 2)), total


def test_forms_of_equal_sets_are_of_their_own_nodes():
    def layers(b: GraphBuilder, *x: Value) -> tuple[Value, ...]:
        return (*attention(b, *x[:3]), *attention(b, *x[3:]))

    built = graph_of(layers, *((f32, (rows, 16)) for rows in (300, 200, 200) * 2))
    half = len(built.nodes) // 2
    sets = [
        Members(built.nodes[:half], built.inputs[:3], built.outputs[:2]),
        Members(built.nodes[half:], built.inputs[3:], built.outputs[2:]),
    ]
    known = KnownForms()
    first, second = (known.form(each) for each in sets)
    assert first.kind == second.kind == CASCADE
    for found, each in ((first, sets[0]), (second, sets[1])):
        alone = form(each)
        assert alone is not None
        assert found.cascade is not None
        assert alone.cascade is not None
        assert (found.space.extents, dict(found.space.axes)) == (alone.space.extents, dict(alone.space.axes))
        assert (found.cascade.reductions, found.cascade.atoms) == (alone.cascade.reductions, alone.cascade.atoms)
        assert (found.reduced, found.columns, found.kind) == (alone.reduced, alone.columns, alone.kind)
        assert set(found.space.axes) <= {*each.inputs, *each.made}
