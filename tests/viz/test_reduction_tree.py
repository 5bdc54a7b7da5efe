"""Drawings of reduction trees: words, and which rank each node is tinted as."""

import pytest

from tessera import dist
from tessera.core.errors.catalog import BadMesh, BadReductionTree
from tessera.core.placement.sharded_type import ShardedType
from tessera.viz.diagrams import TINTS
from tessera.viz.reduction_tree import explain_reduction


def test_words_say_who_holds_folds_and_sends():
    text = explain_reduction(6, 2).text.splitlines()
    assert text[0].startswith("sum of f32 over 6 leaves, radices 2 x 2 x 2, in f32, tree_id ")
    assert text[1:] == [
        "2 ranks, 2 partial nodes a rank on average",
        "rank 0 holds leaves 0 to 2, sends each rank its slice of leaves 0 to 1, leaf 2",
        "rank 1 holds leaves 3 to 5, sends each rank its slice of leaf 3, leaves 4 to 5",
        "every rank folds its slice: (p0 + (p1 + p2)) + p3",
    ]


def test_nodes_are_tinted_as_who_folds_them():
    html = explain_reduction(8, 4, algo=(2, 4)).html
    assert html.count("<tr>") == 3
    assert 'colspan="8" title="leaves 0 to 7: a slice each"' in html
    assert html.count("slices</td>") == 3
    assert (
        f'title="leaf 7: rank 3" style="padding:1px 4px;border:1px solid #888888;text-align:center;color:#111111;font-size:11px;background-color:{TINTS[3]}"'
        in html
    )
    assert "<script" not in html
    assert "<svg" not in html


def test_many_and_none():
    text = explain_reduction(72, 4, op="max", dtype="bf16").text
    assert "every rank folds its slice: " in text
    assert "in bf16" in text
    assert "every rank folds its slice of 72 partial nodes" in explain_reduction(72, 72).text
    assert "rank 0 holds no leaf, sends each rank its slice of nothing" in explain_reduction(2, 3).text


def test_a_tree_that_does_not_fit():
    with pytest.raises(BadReductionTree):
        explain_reduction(9, 3, algo=(2, 2))


def test_an_array_on_a_mesh_names_leaves_dtype_and_reduction():
    mesh = dist.Mesh(axes=("dp", "tp"), devices=range(12), shape=(3, 4))
    partial = ShardedType.parse("bf16[8]{max: tp}")
    x = dist.Tensor(partial, mesh)
    assert explain_reduction(x).text == explain_reduction(4, op="max", dtype="bf16").text
    whole = dist.tensor((8,), dist.Block("dp"), mesh)
    assert explain_reduction(whole).text.startswith("sum of f32 over 12 leaves")
    assert explain_reduction(whole, axis="dp").text == explain_reduction(3, 3).text
    assert explain_reduction(whole, axis=("dp", "tp")).text == explain_reduction(12, 12).text
    with pytest.raises(BadMesh, match="no axis 'pp'"):
        explain_reduction(whole, axis="pp")
