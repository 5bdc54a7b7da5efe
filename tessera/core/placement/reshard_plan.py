"""Plans that bring a value from one placement to another: collectives, the bytes each moves and the time it takes."""

from dataclasses import dataclass
from typing import Final

from tessera.core.base.dtypes import DType
from tessera.core.base.plurals import counted
from tessera.core.placement.memory import amount
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.placement import Placement
from tessera.core.placement.sharded_type import ShardedType

STEPS: Final = {
    "slice": "each device keeps a part of what it holds",
    "mask": "the first device along the axes keeps the value, the others hold the identity of the reduction",
    "all_gather": "each device gets the shards of its group",
    "all_to_all": "each device sends each other one of its group what that holds from now on",
    "reduce_scatter": "contributions of a group are reduced, and each device gets a part of the result",
    "all_reduce": "contributions of a group are reduced, and each device gets the result",
}
"""Kinds of steps.  `slice` and `mask` move nothing."""


@dataclass(frozen=True, slots=True)
class ReshardStep:
    """One step.

    kind: one of STEPS; axes: devices that differ along these mesh axes alone are a group
    received: bytes that all devices together receive; most: that the one which receives most does
    seconds: what it is estimated to take
    """

    kind: str
    axes: tuple[str, ...]
    before: Placement
    after: Placement
    received: int = 0
    most: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ReshardPlan:
    """The steps from one placement of a value to another, in order."""

    dtype: DType
    shape: tuple[int, ...]
    mesh: Mesh
    before: Placement
    after: Placement
    steps: tuple[ReshardStep, ...]

    @property
    def received(self) -> int:
        """Bytes that all devices together receive."""
        return sum(step.received for step in self.steps)

    @property
    def seconds(self) -> float:
        """Estimated time."""
        return sum(step.seconds for step in self.steps)

    def type_of(self, placement: Placement) -> ShardedType:
        """Return the value's type in a placement."""
        return ShardedType(self.dtype, self.shape, placement)

    def __str__(self) -> str:
        head = f"{self.type_of(self.before)} -> {self.type_of(self.after)}"
        lines = [self._line(step) for step in self.steps]
        total = f"{counted(len(self.steps), 'step')}, {amount(self.received)} received by {self.mesh.size()} devices"
        return "\n".join((head, *lines, f"{total}, {_time(self.seconds)} estimated"))

    def _line(self, step: ReshardStep) -> str:
        along = f" over {', '.join(step.axes)}" if step.axes else ""
        moved = f", {amount(step.most)} a device, {_time(step.seconds)}" if step.received else ", nothing is moved"
        return f"  {step.kind}{along} -> {self.type_of(step.after)}{moved}"


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds / 1e-6:,.1f} us"
