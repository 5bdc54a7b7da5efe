"""Arenas: no two values that are alive share bytes, memory is used again, and what is done in place is safe."""

from hypothesis import given, settings

from support.gradients import graph_of
from support.graphs import assert_same_bits, check, graphs, planned, run, small_integers
from tessera.core.base.dtypes import DType, f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, apply
from tessera.core.graph.graph import Graph, Value
from tessera.core.schedule.plan import Buffer, Plan
from tessera.graphs.executable import Executable
from tessera.lowering.schedule.allocate import ALIGNMENT
from tessera.lowering.schedule.plan_graph import plan_graph
from tessera.runtime.interpret.graph import evaluate


def x(*shape: int, dtype: DType = f32) -> tuple[DType, tuple[int, ...]]:
    return dtype, shape


def meet(a: Buffer, b: Buffer) -> bool:
    return a.offset < b.offset + b.bytes and b.offset < a.offset + a.bytes


def assert_sound(plan: Plan) -> None:
    """Every value that passes between groups has a place, and no other one is there while it is alive."""
    kept = {*plan.graph.inputs, *map(plan.root, plan.graph.outputs)}
    placed = {each.value: each for each in plan.buffers}
    for number, group in enumerate(plan.groups):
        for value in (plan.root(each) for each in group.inputs):
            if value not in kept and value.type.bytes:
                first, last = placed[value].alive
                assert first < number <= last
    for place, a in enumerate(plan.buffers):
        assert a.offset % ALIGNMENT == 0
        assert a.bytes >= a.value.type.bytes
        for b in plan.buffers[:place]:
            if meet(a, b) and a.alive[0] <= b.alive[1] and b.alive[0] <= a.alive[1]:
                assert a.replaces is b.value
                assert a.alive[0] == b.alive[1]
                assert (a.offset, a.value.type) == (b.offset, b.value.type)


def rows(builder: GraphBuilder, value: Value) -> Value:
    """Take the sum of each row from its elements: a kernel of its own."""
    size = value.type.shape
    total = builder.reduce(value, (1,))
    return builder.map(apply("sub", Argument(0, f32), Argument(1, f32)), [value, total], [(1, 0), (1,)], size[::-1])


def chain(builder: GraphBuilder, value: Value) -> Value:
    for _ in range(6):
        value = rows(builder, value)
    return value


def test_a_chain_needs_two_places_at_most_three():
    plan = planned(chain, x(32, 32))
    assert len(plan.buffers) > 4
    assert plan.arena_bytes <= 3 * 32 * 32 * 4
    assert_sound(plan)


def test_first_fit_is_the_same_every_time():
    built = graph_of(chain, x(32, 32))
    first, second = plan_graph(built), plan_graph(built)
    assert [(b.offset, b.bytes, b.alive) for b in first.buffers] == [
        (b.offset, b.bytes, b.alive) for b in second.buffers
    ]


def test_inputs_and_outputs_are_no_part_of_the_arena():
    plan = planned(lambda b, v: b.binary("add", v, v), x(8))
    assert plan.buffers == ()
    assert plan.arena_bytes == 0


def test_a_place_that_is_free_again_is_taken():
    plan = planned(chain, x(16, 16))
    assert [each.offset for each in plan.buffers].count(0) > 1


def scaled(b: GraphBuilder, value: Value) -> Value:
    """Multiply by the sum of all elements, of which there are too many for one row: several kernels."""
    body = apply("mul", Argument(0, f32), Argument(1, f32))
    return b.map(body, [value, b.reduce(value, (0, 1))], [(0, 1), ()], value.type.shape)


def test_a_map_of_what_dies_is_in_place():
    built = graph_of(lambda b, v, w: scaled(b, scaled(b, b.contract(v, w, [(0, 1), (1, 2)], (0, 2)))),
                     x(160, 128), x(128, 160))  # fmt: skip
    plan = Executable(built).plan
    assert_sound(plan)
    (made,) = [each for each in plan.buffers if each.replaces is not None]
    assert (made.offset, made.bytes) == (0, 160 * 160 * 4)
    check(built)


def test_what_is_read_at_another_place_is_not_overwritten():
    """A map that turns its operand reads elements that another lane has written."""

    def make(b: GraphBuilder, v: Value, w: Value) -> Value:
        made = b.contract(v, w, [(0, 1), (1, 2)], (0, 2))
        body = apply("mul", Argument(0, f32), Argument(1, f32))
        turned = b.map(body, [made, b.reduce(made, (0, 1))], [(1, 0), ()], (160, 160))
        return scaled(b, turned)

    built = graph_of(make, x(160, 128), x(128, 160))
    plan = Executable(built).plan
    assert_sound(plan)
    for each in plan.buffers:
        if each.replaces is not None:
            group = plan.groups[each.alive[0]]
            assert group.loads[each.replaces] == group.stores[each.value]
    check(built)


@settings(max_examples=200)
@given(graphs())
def test_no_two_live_values_share_bytes(built: Graph):
    assert_sound(Executable(built).plan)


@settings(max_examples=25)
@given(graphs())
def test_random_arenas_are_sound_and_change_no_bit(built: Graph):
    assert_sound(Executable(built).plan)
    arrays = small_integers([value.type for value in built.inputs])
    for found, wanted in zip(run(built, arrays, "interpret"), evaluate(built, arrays), strict=True):
        assert_same_bits(found, wanted)


def test_values_without_elements_have_no_place():
    built = graph_of(lambda b, v: b.contract(rows(b, v), v, [(0, 1), (1, 2)], (0, 2)), x(0, 4))
    assert all(each.value.type.bytes for each in Executable(built).plan.buffers)
