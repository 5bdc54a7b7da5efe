"""Draw a reduction tree: who holds which leaf, who folds which node, and what is sent.

`explain_reduction(72, 8)` is a table, the root above and the leaves below; a node is tinted as the rank that folds it
alone, and grey where every rank folds a slice of it.
"""

from collections.abc import Sequence
from html import escape
from typing import Final

from tessera.core.base.dtypes import DTypeLike
from tessera.core.base.plurals import counted
from tessera.core.placement.fold_plans import FoldPlan, even_shares, fold_plan
from tessera.core.placement.mesh_array import MeshArray
from tessera.core.placement.reduction_rules import RankReduction, reduction
from tessera.core.placement.reduction_trees import ReductionTree, TreeNode, in_text
from tessera.dist.tensors import read_dtype
from tessera.viz.diagrams import TINTS, Picture

_SHARED: Final = "#e6e6e6"
_CELL: Final = "padding:1px 4px;border:1px solid #888888;text-align:center;color:#111111;font-size:11px"
_SHORT: Final = 16
"""Contributions of which the order is written out."""


def explain_reduction(
    leaves: int | MeshArray, ranks: int | None = None, *, axis: str | Sequence[str] | None = None,
    algo: Sequence[int] | str = "binary_tree", op: str = "sum", dtype: DTypeLike = "f32",
) -> Picture:  # fmt: skip
    """Explain how ranks fold leaves: a drawing of the tree, and in words what each rank folds and sends.

    leaves: how many there are, or an array on a mesh, of which each rank along `axis` has one: by default along the
      axes of its partial sums, or all; the array's dtype and reduction are explained
    ranks: None: one for each leaf
    Raises BadReductionTree, BadReduction, BadMesh.
    """
    if isinstance(leaves, MeshArray):
        sharded = leaves.type
        axes = axis or sharded.placement.partial or leaves.mesh.axes
        op, dtype, leaves = (
            sharded.placement.op if sharded.placement.partial else op,
            sharded.dtype,
            leaves.mesh.size(axes),
        )
    ranks = leaves if ranks is None else ranks
    tree = ReductionTree.of(leaves, algo)
    plan = fold_plan(tree, even_shares(leaves, ranks))
    what = reduction(op, read_dtype(dtype))
    lines = _words(plan, what)
    rows = "".join(_row(plan, level) for level in range(len(tree.radices), -1, -1))
    words = "".join(f"<div>{escape(line)}</div>" for line in lines)
    return Picture(f'<div>{words}<table style="border-collapse:collapse">{rows}</table></div>', "\n".join(lines))


def _words(plan: FoldPlan, what: RankReduction) -> list[str]:
    tree = plan.tree
    lines = [
        f"{what.op} of {what.dtype} over {tree}, in {what.accumulator}, tree_id {what.tree_id(tree)}",
        f"{counted(plan.ranks, 'rank')}, {plan.mean_partials:g} partial nodes a rank on average",
    ]
    for rank, ((first, stop), nodes) in enumerate(zip(plan.shares, plan.partials, strict=True)):
        held = f"leaves {first} to {stop - 1}" if stop - first > 1 else f"leaf {first}" if stop > first else "no leaf"
        sent = ", ".join(map(str, nodes)) or "nothing"
        lines.append(f"rank {rank} holds {held}, sends each rank its slice of {sent}")
    if len(plan.senders) <= _SHORT:
        lines.append(f"every rank folds its slice: {in_text(plan.final, 'and' if what.op in _WORDS else '+', 'p')}")
    else:
        lines.append(f"every rank folds its slice of {len(plan.senders)} partial nodes")
    return lines


_WORDS: Final = frozenset({"min", "max", "and", "or", "xor", "prod"})


def _row(plan: FoldPlan, level: int) -> str:
    tree, cells = plan.tree, list[str]()
    width = tree.widths[level]
    for index in range(-(-tree.leaves // width)):
        node = tree.node(level, index)
        rank = _folder(plan, node)
        tint = _SHARED if rank is None else TINTS[rank % len(TINTS)]
        text = str(node.first) if not level else "slices" if rank is None else f"rank {rank}"
        title = f"{node}: {'a slice each' if rank is None else f'rank {rank}'}"
        cells.append(
            f'<td colspan="{node.stop - node.first}" title="{escape(title)}" '
            f'style="{_CELL};background-color:{tint}">{text}</td>'
        )
    return f"<tr>{''.join(cells)}</tr>"


def _folder(plan: FoldPlan, node: TreeNode) -> int | None:
    """Return the rank that folds a node, whose leaves it holds alone; None: all do, a slice each."""
    for rank, (first, stop) in enumerate(plan.shares):
        if first <= node.first and node.stop <= stop:
            return rank
    return None
