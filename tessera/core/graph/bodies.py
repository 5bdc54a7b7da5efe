"""Nodes that hold graphs: how the operands and results of a `loop`, a `while` and a `branch` are those of the bodies.

loop    operands: constants, carries, stacked inputs     body: constants, carries, one slice an input
results: carries, stacked outputs                      -> carries, one slice an output
while   operands: constants, carries                     condition, body: constants, carries -> bool; carries
branch  operands: a bool, what the branches take         two graphs: where it holds, and where it does not
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar, cast

from tessera.core.graph.graph import Node, Tensor
from tessera.core.program.program import Attribute

LOOP: Final = "loop"
WHILE: Final = "while"
BRANCH: Final = "branch"
WITH_BODIES: Final = (LOOP, WHILE, BRANCH)
"""Primitives whose body is graphs, which the host runs."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Parts(Generic[T]):
    """Operands of a loop, or inputs of its body.

    constants: the same in every trip; carries: handed on from trip to trip; stacked: one slice a trip
    """

    constants: tuple[T, ...]
    carries: tuple[T, ...]
    stacked: tuple[T, ...] = ()

    @property
    def all(self) -> tuple[T, ...]:
        """Everything, in order."""
        return (*self.constants, *self.carries, *self.stacked)


def counts(attributes: Mapping[str, Attribute]) -> tuple[int, int]:
    """Return how many constants and carries a loop has."""
    return cast("int", attributes["constants"]), cast("int", attributes["carried"])


def parts(node: Node, values: Sequence[T]) -> Parts[T]:
    """Arrange what there is one of for each operand of a `loop` or a `while`."""
    constants, carried = counts(node.attributes)
    end = constants + carried
    return Parts(tuple(values[:constants]), tuple(values[constants:end]), tuple(values[end:]))


def trips(node: Node) -> int:
    """Return how many times the body of a `loop` runs."""
    return cast("int", node.attributes["trips"])


def steps(node: Node) -> Sequence[int]:
    """Return the slices of a `loop` in the order in which they are taken."""
    count = trips(node)
    return range(count - 1, -1, -1) if node.attributes["reverse"] else range(count)


def stacked(slice_type: Tensor, count: int) -> Tensor:
    """Return the type of `count` slices."""
    return Tensor(slice_type.dtype, (count, *slice_type.shape))
