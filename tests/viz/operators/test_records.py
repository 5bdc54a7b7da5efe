"""Graphs and plans as records and lines."""

from support.operator_graphs import QKV, ROWS, attention, classify, line_of
from tessera.core.record import KERNEL
from tessera.viz.operators.captured import captured
from tessera.viz.operators.records import LEVELS, Ancestry, graph_listing, plan_listing


def test_lines_stand_for_nodes_with_their_places():
    found = captured(attention, QKV, "explore")
    listing = graph_listing(found.executable.graph, "graph-simplify", found.ancestry)
    assert listing.lines[0].text == "attention(%Q: f32[64, 32], %K: f32[64, 32], %V: f32[64, 32]) {"
    scores = next(line for line in listing.lines if "%S[" in line.text and "sum" in line.text)
    assert scores.text == "  %S[i, j] = sum_k %Q[i, k] * %K[j, k] : f32[64, 64]  // matmul"
    assert {span.line for span in scores.spans} == {line_of("S = op.matmul")}
    assert listing.lines[-2].text == "  return %result"
    assert {line.record for line in listing.lines} - {""} == {record.id for record in listing.records}


def test_what_a_pass_made_has_the_numbers_of_what_it_was_made_of():
    found = captured(attention, QKV, "explore")
    traced, simplified = (graph for _, graph in found.executable.states)
    new = [node for node in simplified.nodes if node.origin.rule]
    known = {node.ident for node in traced.nodes}
    assert new
    for node in new:
        assert node.ident not in known
        assert set(found.ancestry.numbers(node)) <= known
    kept = [node for node in simplified.nodes if not node.origin.rule]
    assert all(found.ancestry.numbers(node) == (node.ident,) for node in kept)


def test_ancestors_are_followed_through_several_passes():
    found = captured(classify, ROWS, "explore")
    known = {node.ident for node in found.executable.traced.nodes}
    assert all(set(found.ancestry.numbers(node)) <= known for node in found.plan.graph.nodes)
    alone = Ancestry([found.plan.graph])
    assert all(alone.numbers(node) == (node.ident,) for node in found.plan.graph.nodes)


def test_nodes_stand_in_their_kernels():
    found = captured(classify, ROWS, "explore")
    listing = plan_listing(found.plan, "schedule-fuse", found.ancestry)
    kernels = [record for record in listing.records if record.name == "schedule.kernel"]
    assert [record.attributes["kind"] for record in kernels] == [group.kind for group in found.plan.groups]
    parents = {record.id: record.parent for record in listing.records}
    for group, kernel in zip(found.plan.groups, kernels, strict=True):
        assert sum(parent == kernel.id for parent in parents.values()) == len(group.members)
    assert len(parents) == len(listing.records)
    assert {record.parent for record in kernels} == {KERNEL}
    assert {line.record for line in listing.lines} - {""} == set(parents)
    assert ("graph", listing.level) == LEVELS
