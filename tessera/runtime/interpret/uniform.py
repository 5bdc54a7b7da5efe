"""Uniformity: which values depend on a lane id, and so differ between the lanes of a group.

A value is *varying* when it is made of a lane id, or chosen by a condition that is: the result of an `if` on a varying
condition, and what a loop carries out when its lanes leave it at different times.  Inside such a loop a value all of
whose ingredients are uniform is the same for every lane still in it, and stays uniform.
"""

from collections.abc import Iterable
from typing import Final

from tessera.core.program.program import Block, Op, Program, Value

LANE_IDS: Final = frozenset({"lane", "thread", "lane_in_warp", "warp"})


def varying_values(program: Program) -> frozenset[Value]:
    """Return every value of `program` that may differ between lanes of one group."""
    analysis = _Analysis()
    size = -1
    while size != len(analysis.varying):
        size = len(analysis.varying)
        analysis.block(program.body)
    return frozenset(analysis.varying)


class _Analysis:
    """Grows the set of varying values; one pass over the program is one step to the fixpoint."""

    def __init__(self) -> None:
        self.varying: set[Value] = set()

    def block(self, block: Block) -> None:
        for op in block.ops:
            if op.opcode == "for":
                self._for(op)
            elif op.opcode == "if":
                self._if(op)
            elif op.opcode == "while":
                self._while(op)
            elif op.opcode == "id":
                self._mark_if(op.attributes["of"] in LANE_IDS, op.results)
            else:
                self._mark_if(self._any(op.operands), op.results)

    def _any(self, values: Iterable[Value]) -> bool:
        return any(value in self.varying for value in values)

    def _mark_if(self, condition: bool, values: Iterable[Value]) -> None:
        if condition:
            self.varying.update(values)

    def _for(self, op: Op) -> None:
        (body,) = op.regions
        lower, _, step, *initial = op.operands
        index, *carried = body.arguments
        self._mark_if(self._any((lower, step)), (index,))
        self.block(body)
        leave_diverged = self._any(op.operands[:3])
        for start, inside, after, result in zip(initial, carried, yielded(body), op.results, strict=True):
            self._mark_if(self._any((start, after)), (inside, result))
            self._mark_if(leave_diverged, (result,))

    def _if(self, op: Op) -> None:
        for region in op.regions:
            self.block(region)
        diverged = self._any(op.operands)
        for number, result in enumerate(op.results):
            sources = [yielded(region)[number] for region in op.regions]
            self._mark_if(diverged or self._any(sources), (result,))

    def _while(self, op: Op) -> None:
        condition, body = op.regions
        self.block(condition)
        self.block(body)
        goes_on, *passed = yielded(condition)
        for start, before, after in zip(op.operands, condition.arguments, yielded(body), strict=True):
            self._mark_if(self._any((start, after)), (before,))
        for value, inside, result in zip(passed, body.arguments, op.results, strict=True):
            self._mark_if(self._any((value,)), (inside, result))
            self._mark_if(self._any((goes_on,)), (result,))


def yielded(block: Block) -> tuple[Value, ...]:
    """Return what the block's last operation yields; nothing when it has no `yield`."""
    return block.ops[-1].operands if block.ops and block.ops[-1].opcode == "yield" else ()
