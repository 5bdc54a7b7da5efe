"""Graphs of stages: every edge has its ends, values go through regions, decisions stand where they were made."""

import pytest

from tessera.core.record import OpRecord, ValueRecord
from tessera.core.tile import records as mlir_records
from tessera.viz.graph.decisions import Decisions
from tessera.viz.graph.model import ADDRESS, CARRIED, DATA, EFFECT, Edge, Graph, Node
from tessera.viz.graph.records import MUTABLE, graph_of_records, with_one_name
from tests.viz.graph.conftest import Observed


def named(graph: Graph, label: str) -> Node:
    """The one node with a label."""
    (found,) = [node for node in graph.nodes if node.label == label]
    return found


def joined(graph: Graph, source: str, target: str) -> list[str]:
    """Styles of the edges between two identities."""
    return [edge.style for edge in graph.edges if (edge.source, edge.target) == (source, target)]


def test_every_stage_of_a_compilation_is_a_graph(product: Observed):
    for stage in product.stages:
        graph = graph_of_records(stage.records, Decisions())
        assert list(graph.problems()) == [], (stage.level, stage.name)
        assert graph.nodes, (stage.level, stage.name)


@pytest.fixture(scope="module")
def scheduled(product: Observed) -> Graph:
    return graph_of_records(product.tile("cuda-fit").records, Decisions(product.buffers))


def test_a_loop_carries_its_accumulator(scheduled: Graph):
    loop = next(region for region in scheduled.regions if region.label.startswith("for"))
    dot, accumulator = named(scheduled, "acc = dot") if any(n.label == "acc = dot" for n in scheduled.nodes) else named(
        scheduled, "dot"
    ), named(scheduled, "acc")  # fmt: skip
    ends = named(scheduled, "yield")
    store, c = named(scheduled, "store"), named(scheduled, "C")
    assert {dot.region, accumulator.region, ends.region} == {loop.id}
    assert joined(scheduled, accumulator.id, dot.id) == [DATA]
    assert joined(scheduled, dot.id, ends.id) == [DATA]
    assert joined(scheduled, ends.id, accumulator.id) == [CARRIED]
    assert joined(scheduled, ends.id, store.id) == [DATA]
    assert joined(scheduled, store.id, c.id) == [EFFECT]
    bounds = [edge.source for edge in scheduled.edges if edge.target == loop.id]
    assert len(bounds) == 3
    assert {edge.style for edge in scheduled.edges if edge.target == loop.id} == {ADDRESS}


def test_arrays_that_are_only_written_stand_below(scheduled: Graph):
    assert [node.label for node in scheduled.nodes if node.style == "memory"] == ["A", "B", "C"]
    assert [node.note for node in scheduled.nodes if node.style == "memory"] == ["M×K bf16", "K×N bf16", "M×N f32"]


def test_decisions_are_badges(scheduled: Graph):
    load = next(node for node in scheduled.nodes if node.style == "load")
    said = [badge.text for badge in load.badges]
    assert said[:3] == ["pipeline 0, 4 stages", "producer warp", "mbarrier full / empty"]
    assert load.badges[0].ring == 4
    dot = next(node for node in scheduled.nodes if node.style == "mma")
    assert {"WGMMA", "consumer warps"} <= {badge.text for badge in dot.badges}
    kernel = next(region for region in scheduled.regions if not region.parent)
    assert "warp specialization: producer warp" in [badge.text for badge in kernel.badges]


def test_equal_layouts_have_equal_names(scheduled: Graph):
    of: dict[str, str] = {}
    for node in scheduled.nodes:
        for badge in node.badges:
            if badge.kind == "layout":
                assert of.setdefault(badge.text, badge.detail) == badge.detail
    assert len(of) == len(set(of.values())) >= 3


def test_index_arithmetic_is_what_only_addresses_are_made_of(scheduled: Graph):
    styles = {node.label: node.style for node in scheduled.nodes}
    assert styles["group = group id"] == styles["divui"] == styles["extent K"[:0] + "k"] == "index"
    assert {node.style for node in scheduled.nodes if node.note.endswith(("f32", "bf16"))} <= {
        "constant", "memory", "argument", "load", "mma", "control", "store",
    }  # fmt: skip


def test_the_attribute_of_written_parameters_is_that_of_tile_ir():
    assert MUTABLE == mlir_records.MUTABLE


def op(
    identity: str, name: str, *operands: str, kind: str = "", parent: str = "f", region: int = 0, **more: int
) -> OpRecord:
    """A record with at most one result."""
    results = (ValueRecord(f"{identity}:0", kind),) if kind else ()
    return OpRecord(identity, name, parent, region, operands, results, attributes=dict(more))


def test_branches_are_regions_of_one_region():
    records = (
        OpRecord("f", "func.func", arguments=((ValueRecord("f^0.0", "array<4xf32>", "x"),),), attributes={"mutable": (0,)}),
        op("c", "arith.cmpi", "a:0", "a:0", kind="i1"),
        op("i", "scf.if", "c:0", kind="f32"),
        op("t", "arith.constant", kind="f32", parent="i"),
        op("ty", "scf.yield", "t:0", parent="i"),
        op("e", "arith.negf", "t:0", kind="f32", parent="i", region=1),
        op("ey", "scf.yield", "e:0", parent="i", region=1),
        op("s", "tessera.write", "i:0", "f^0.0"),
    )  # fmt: skip
    graph = graph_of_records(records, Decisions())
    assert [(region.id, region.label, region.parent) for region in graph.regions] == [
        ("kernel", "kernel", ""), ("i", "if", "kernel"), ("i/0", "then", "i"), ("i/1", "else", "i"),
    ]  # fmt: skip
    assert {node.id: node.region for node in graph.nodes}["e"] == "i/1"
    into_store = {edge.source for edge in graph.edges if edge.target == "s"}
    assert into_store == {"ty", "ey"}
    assert Edge("c", "i", ADDRESS, "c:0", "i1") in graph.edges
    assert Edge("s", "kernel^0.0 written", EFFECT, "kernel^0.0", "x 4 f32") in graph.edges


def test_a_while_loop_hands_values_on():
    value = ValueRecord("w^0.0", "f32", "v")
    records = (
        op("a", "arith.constant", kind="f32", parent=""),
        OpRecord("w", "scf.while", operands=("a:0",), results=(ValueRecord("w:0", "f32"),),
                 arguments=((value,), (ValueRecord("w^1.0", "f32", "v"),))),
        op("c", "arith.cmpf", "w^0.0", "w^0.0", kind="i1", parent="w"),
        op("d", "scf.condition", "c:0", "w^0.0", parent="w"),
        op("n", "arith.addf", "w^1.0", "w^1.0", kind="f32", parent="w", region=1),
        op("y", "scf.yield", "n:0", parent="w", region=1),
        op("u", "arith.negf", "w:0", kind="f32", parent=""),
    )  # fmt: skip
    graph = graph_of_records(records, Decisions())
    assert joined(graph, "a", "w^0.0") == [DATA]
    assert joined(graph, "d", "w^1.0") == [DATA]
    assert joined(graph, "y", "w^0.0") == [CARRIED]
    assert joined(graph, "d", "u") == [DATA]


def test_the_function_is_the_kernel_whatever_it_is_called():
    records = (
        OpRecord("kernel.3", "func.func", arguments=((ValueRecord("kernel.3^0.0", "f32"),),)),
        op("1", "arith.negf", "kernel.3^0.0", kind="f32", parent="kernel.3"),
    )
    function, negated = with_one_name(records)
    assert (function.id, negated.parent, negated.operands) == ("kernel", "kernel", ("kernel^0.0",))
    graph = graph_of_records(records, Decisions())
    assert graph.regions[0].keys.records == ("kernel.3",)
