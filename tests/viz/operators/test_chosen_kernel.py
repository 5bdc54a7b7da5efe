"""One kernel with the graph above it: counterparts from the graph down to machine code."""

import pytest

from support.operator_graphs import QKV, ROWS, attention, classify, line_of
from tessera.core.errors.catalog import NothingToShow
from tessera.viz.operators.captured import captured
from tessera.viz.operators.chosen_kernel import ChosenKernel


def test_the_kernel_that_computes_most_is_shown():
    chosen = ChosenKernel(captured(classify, ROWS, "explore"))
    assert chosen.group.kind == "cascade"
    assert ChosenKernel(chosen.graph, 1).group.kind == "rows"
    for number in (3, -1):
        with pytest.raises(NothingToShow, match=f"classify is 3 kernels, and {number} is none"):
            _ = ChosenKernel(chosen.graph, number).group


def test_levels_are_those_of_the_graph_then_those_of_the_kernel():
    chosen = ChosenKernel(captured(attention, QKV, "explore"))
    levels = list(dict.fromkeys(listing.level for listing in chosen.listings))
    assert levels[:3] == ["graph", "schedule", "tile"]
    assert levels[-1] == "asm"
    name, span = chosen.function
    assert (name, span.line) == ("attention", line_of("def attention"))


def test_nodes_and_operations_find_each_other():
    chosen = ChosenKernel(captured(attention, QKV, "explore"))
    first = chosen.graph.plan.graph.next_ident
    graph, tile = chosen.listings[1], next(each for each in chosen.listings if each.level == "tile")
    softmax = line_of("A = op.softmax")
    nodes = {op for line in graph.lines for op in line.ops if {s.line for s in line.spans} == {softmax}}
    operations = {op for line in tile.lines for op in line.ops if {s.line for s in line.spans} == {softmax}}
    assert operations
    assert min(operations) >= first
    assert operations <= nodes
    assert {op for op in nodes if op < first}


def test_nodes_of_other_kernels_have_no_operations():
    chosen = ChosenKernel(captured(classify, ROWS, "explore"), 1)
    first = chosen.graph.plan.graph.next_ident
    softmax = line_of("p = op.softmax")
    for line in chosen.listings[1].lines:
        if line.ops:
            assert any(op >= first for op in line.ops) == (softmax in {span.line for span in line.spans})


def test_captured_nodes_are_linked_to_what_stands_for_them():
    chosen = ChosenKernel(captured(attention, QKV, "explore"))
    traced = chosen.graph.executable.traced
    softmax = {node.ident for node in traced.nodes if "softmax" in node.origin.composite[-1] and node.op != "view"}
    assert softmax <= set(chosen.links)
    known = {op for listing in chosen.listings if listing.level == "tile" for line in listing.lines for op in line.ops}
    for number in softmax:
        assert known & set(chosen.links[number])
        assert min(chosen.links[number]) >= chosen.first
