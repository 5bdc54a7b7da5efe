"""Mark sums that a mesh cuts, so that fusion does not decide in which order their products are added.

A mesh cuts the rows of a sum into leaves.  A device that has one leaf computes what a device with several does, without
an axis for them, and fusion would see chances that it does not see in a stack of leaves: a loop over both products of a
chain, which adds its rows block by block, and one axis of the rows and of the summed axis before them.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from tessera.core.graph.graph import Node
from tessera.core.graph.infer import labels_of, numbers
from tessera.core.program.program import Attribute

_ISOLATED: Final = "isolated"
NO_LABEL: Final = -1


def isolated(attributes: Mapping[str, Attribute], before: int = NO_LABEL) -> dict[str, Attribute]:
    """Return the attributes of a contraction or reduction that is computed apart from others.

    before: the label after which the leaves of a contraction come; see `label_before`
    """
    return {**attributes, _ISOLATED: before}


def is_isolated(node: Node) -> bool:
    """Return whether a contraction or reduction is computed apart from others."""
    return _ISOLATED in node.attributes


def last_joined(node: Node) -> int | None:
    """Return the label of a contraction that no later one is joined with; None: there is none."""
    label = node.attributes.get(_ISOLATED, NO_LABEL)
    return label if isinstance(label, int) and label != NO_LABEL else None


def label_before(attributes: Mapping[str, Attribute], shapes: Sequence[Sequence[int]], dims: Sequence[int]) -> int:
    """Return the summed label that stands right before the axis of a contraction that a mesh cuts, or NO_LABEL.

    shapes: of the operands; dims: which axis of each operand is cut, -1: none
    Axes of one element do not count: graphs are simplified to have none.
    """
    result = numbers(attributes["result"])
    for labels, shape, dim in zip(labels_of(attributes["labels"]), shapes, dims, strict=True):
        if dim >= 0:
            long = [label for label, extent in zip(labels[:dim], shape, strict=False) if extent != 1]
            return long[-1] if long and long[-1] not in result else NO_LABEL
    return NO_LABEL
