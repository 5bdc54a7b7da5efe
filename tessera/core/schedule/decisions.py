"""Decisions of fusion as data: what was tried as one kernel, what the verdict was, and what it would cost.

Nothing of it is made unless it is asked for: `lowering/schedule/explain.py` plans once more, and listens.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tessera.core.graph.graph import Node, Value
from tessera.core.schedule.plan import Plan


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of legality.  words: what does not go together; remedy: what a user can do about it, "" for nothing."""

    words: str
    remedy: str = ""


RULES: Final[Mapping[str, Rule]] = {
    "scatter": Rule("sums at indices are added one after the other, in a kernel of their own"),
    "elements": Rule(
        "gathers, joins and random numbers go element by element, products and reductions by tiles",
    ),
    "shapes": Rule("a kernel of single elements writes arrays of one shape, and these are of several"),
    "view-inside": Rule(
        "it would read what it makes at other places, and elements do not move between the tiles of a kernel",
        "permute or slice the arguments instead of what is computed from them",
    ),
    "one-axis": Rule(
        "two axes of an array would be one and the same axis of the kernel",
    ),
    "map-axes": Rule("its results lie along different axes, so some elements would be computed many times"),
    "reduced-axes": Rule(
        "they reduce different axes, and a kernel of rows keeps one kind of row",
        "reduce the same axes in both, or reduce both axes at once",
    ),
    "row-limit": Rule("its rows are too long to stay in registers"),
    "row-axes": Rule("an array has axes beside those of the rows"),
    "weight-columns": Rule(
        "what weighs the sums, an exponential, a condition or a maximum, would be another for each column",
    ),
    "products": Rule("two products with other axes need loops of their own"),
    "siblings": Rule("so many products at a time leave no registers for the sums of each"),
    "empty": Rule("an axis has no elements"),
    "epilogue-axes": Rule("what follows the product has axes that the product lacks"),
    "factors": Rule(
        "a product reads its factors from memory, block by block and many times; made on the way they would be "
        "computed as often",
        "do it to the result instead, where it comes to the same: a scale of rows or columns does",
    ),
    "one-reduction": Rule("a cascade is several reductions over one axis"),
    "last-reduction": Rule("the last reduction goes over several axes, and a cascade has one loop"),
    "other-loop": Rule("the reductions go over different axes, so the later loop needs the earlier one to be done"),
    "inner-limit": Rule(
        "the product inside of the loop sums over an axis that is too long to be done whole in each step",
        "at most 256: more heads that are narrower",
    ),
    "integers": Rule("the algebra of cascades is that of floats", "convert with .astype('f32') first"),
    "separable": Rule("the reductions cannot be computed in one loop"),
    "means": Rule(
        "it would carry a running mean, and every step would move all sums to the new one, on units that are slower "
        "than those of products; two kernels take less time, and are as accurate",
        'algebra={"reassociate", "widen"} lets rows of short floats be multiplied as they are, and the mean be taken '
        'away behind the product ("fold", too, where there is a gain)',
    ),
    "blocks": Rule("a product inside of the loop is none of two blocks: its factors share more than one axis"),
    "loop-output": Rule(
        "a result lies along the axis of the loop, whose elements are gone when the loop is done",
        "return what is computed from it, and not the array itself",
    ),
    "columns": Rule(
        "the results have columns of several kinds, or more than fit in registers",
        "at most 256 columns: split them",
    ),
    "box": Rule(
        "a block of an array would not lie in one box in memory: strides, windows, or indices that are computed",
        "copy it into rows first, with op.reshape or op.transpose on the argument",
    ),
    "length": Rule("it would have so many operators that it takes longer to compile than what is saved by it"),
    "cycle": Rule("another kernel stands between them: it needs the first one, and the second one needs it"),
    "readers": Rule(
        "others read the array too, so it is written anyhow, and what reads it here is cheap to start",
    ),
    "repeated": Rule("few elements are read many times: they would be gathered again for each"),
    "order": Rule("kernels grow in the order of the program, and these were not next to each other"),
    "form": Rule("no form of kernel holds both"),
}
"""Why nodes are no kernel, by the name of the rule."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A rule that nodes break.  nodes: what it is about; detail: numbers and names that make it plain."""

    rule: str
    nodes: tuple[Node, ...] = ()
    detail: str = ""

    @property
    def words(self) -> str:
        """The words of the rule: what does not go together."""
        return RULES[self.rule].words

    @property
    def remedy(self) -> str:
        """The remedy of the rule; "" for none."""
        return RULES[self.rule].remedy


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of kernels.  bytes: read and written, each array once a kernel; operations: in floating point."""

    kernels: int
    bytes: int
    operations: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """Nodes that were tried as one kernel.

    parts: what they were before, by the numbers of nodes; kind: of the kernel, "" where it was refused
    before, after: the cost of the parts, and of the kernel that they would be
    """

    parts: tuple[tuple[int, ...], ...]
    kind: str
    refusal: Refusal | None
    before: Cost
    after: Cost


@dataclass(frozen=True, slots=True, eq=False)
class Boundary:
    """Two kernels that are two.

    producer, consumer: numbers of groups; values: what goes from one to the other, through memory
    before, after: the cost of both, and of the kernel that they would be
    """

    producer: int
    consumer: int
    values: tuple[Value, ...]
    refusal: Refusal
    before: Cost
    after: Cost


@dataclass(frozen=True, slots=True, eq=False)
class FusionReport:
    """Decisions that made a plan.

    attempts: in order; boundaries: of every pair of neighbouring kernels
    separate: one kernel for each operator that the user called; fused: the plan's
    """

    plan: Plan
    attempts: tuple[Attempt, ...]
    boundaries: tuple[Boundary, ...]
    separate: Cost
    fused: Cost
