"""Ways to spread a model over devices: data, tensor and pipeline parallelism, with memory, transfers, bubble and time.

A search holds the plans that fit, the best one first, and those that were rejected, each with the reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tessera.core.base.plurals import counted
from tessera.core.placement.memory import amount
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.topology import CollectiveCost
from tessera.core.planning.device_timeline import DeviceTimeline, in_time

GPIPE: Final = "gpipe"
ONE_F_ONE_B: Final = "1f1b"
INTERLEAVED: Final = "interleaved"
FORWARD: Final = "forward"
SCHEDULES: Final[Mapping[str, str]] = {
    GPIPE: "all micro-batches forwards, then all backwards",
    ONE_F_ONE_B: "one forwards, one backwards: as few micro-batches are kept as there are stages",
    INTERLEAVED: "one forwards, one backwards, and each device has several chunks of layers",
    FORWARD: "all micro-batches forwards",
}
"""Orders in which the stages of a pipeline take micro-batches."""
_MOST_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class PlannedCollective:
    """Equal collectives of one step.

    what: is moved, in words; axes: of the mesh; count: how often a device of the busiest stage takes part in one step
    cost: of each
    """

    kind: str
    what: str
    axes: tuple[str, ...]
    count: int
    cost: CollectiveCost

    @property
    def seconds(self) -> float:
        """Seconds of all of them."""
        return self.count * self.cost.seconds

    @property
    def sent(self) -> float:
        """Bytes that a device sends in all of them."""
        return self.count * self.cost.sent

    def __str__(self) -> str:
        model = "" if self.cost.measured else ", unmeasured"
        return (
            f"{self.count:,} x {self.kind} over {', '.join(self.axes)} of {self.what}: {amount(self.sent)} a device, "
            f"{in_time(self.seconds)}{model}"
        )


@dataclass(frozen=True, slots=True)
class PipelineShape:
    """A pipeline: stages, and how micro-batches go through them.

    schedule: one of SCHEDULES; stages: of devices; chunks: of layers that each device has
    micro_batches: of one step; micro_batch: rows of the batch in each
    """

    schedule: str
    stages: int
    micro_batches: int
    micro_batch: int
    chunks: int = 1

    @property
    def bubble(self) -> float:
        """The share of a step in which a device waits, where all stages take equally long and nothing is sent."""
        waits = self.stages - 1
        return waits / (self.chunks * self.micro_batches + waits)

    @property
    def kept(self) -> float:
        """Micro-batches whose values the first stage keeps at a time, of all its layers."""
        if self.schedule in (GPIPE, FORWARD):
            return float(self.micro_batches)
        if self.schedule == INTERLEAVED:
            warm_up = self.stages * (self.chunks + 1) - 1
            return min(warm_up, self.micro_batches * self.chunks) / self.chunks
        return float(min(self.stages, self.micro_batches))

    def __str__(self) -> str:
        if self.stages == 1 and self.micro_batches == 1:
            return "the whole batch at once, without a pipeline"
        if self.stages == 1:
            return f"{counted(self.micro_batches, 'part')} of the batch, {self.micro_batch} each, one after the other"
        chunks = f", {self.chunks} chunks a device" if self.chunks > 1 else ""
        return (
            f"{self.schedule}, {self.stages} stages{chunks}, {self.micro_batches} micro-batches of {self.micro_batch}"
        )


@dataclass(frozen=True)
class ParallelPlan:
    """One way to spread a model over a mesh.

    mesh: its axes are pp, dp and tp, the last one fastest
    layouts: of inputs, by their names, as types are printed; of a described model none
    choices: what else was chosen, in words
    memory: bytes a device of the fullest stage, by what they hold; capacity: bytes that a device has
    compute: seconds of kernels in one step; seconds: of one step; bubble: the share of it that devices wait
    operations: of one step on all devices, without what is computed again
    timeline: of one step; None where it was not simulated
    """

    model: str
    mesh: Mesh
    pipeline: PipelineShape
    memory: Mapping[str, int]
    capacity: int
    compute: float
    collectives: tuple[PlannedCollective, ...]
    seconds: float
    bubble: float
    operations: float
    layouts: Mapping[str, str] = field(default_factory=dict[str, str])
    choices: tuple[str, ...] = ()
    timeline: DeviceTimeline | None = None

    @property
    def extents(self) -> tuple[int, int, int]:
        """Extents of dp, tp and pp."""
        return self.mesh.size("dp"), self.mesh.size("tp"), self.mesh.size("pp")

    @property
    def name(self) -> str:
        """The extents as they are usually written."""
        dp, tp, pp = self.extents
        return f"dp {dp} x tp {tp} x pp {pp}"

    @property
    def bytes_per_device(self) -> int:
        """Bytes of the fullest device."""
        return sum(self.memory.values())

    @property
    def communication(self) -> float:
        """Seconds of all collectives of the busiest stage."""
        return sum(each.seconds for each in self.collectives)

    @property
    def sent(self) -> float:
        """Bytes that a device of the busiest stage sends in one step."""
        return sum(each.sent for each in self.collectives)

    @property
    def rate(self) -> float:
        """Operations a second of each device."""
        return self.operations / self.seconds / self.mesh.size() if self.seconds else 0.0

    @property
    def parts(self) -> Mapping[str, float]:
        """Seconds of a step by what takes them; what is left is the pipeline's: its bubble, and waits for transfers."""
        along = {
            f"{axis} transfers": sum(each.seconds for each in self.collectives if each.axes == (axis,))
            for axis in ("tp", "dp")
        }
        known = self.compute + sum(along.values())
        return {"compute": self.compute, **along, "waiting in the pipeline": max(0.0, self.seconds - known)}

    def __str__(self) -> str:
        lines = [
            f"{self.model} on {counted(self.mesh.size(), 'device')}: {self.name}",
            f"  {self.pipeline}",
            *(f"  {each}" for each in self.choices),
            f"  a step: {in_time(self.seconds)}, bubble {self.bubble:.1%}, {self.rate / 1e12:,.0f} TFLOP/s a device",
            f"  memory: {amount(self.bytes_per_device)} of {amount(self.capacity)}: "
            + ", ".join(f"{name} {amount(size)}" for name, size in self.memory.items()),
            *(f"  {each}" for each in self.collectives),
            *(f"  {name}: {layout}" for name, layout in self.layouts.items()),
        ]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class RejectedPlan:
    """A way that was not taken.

    seconds, bytes_per_device: where they are known, else 0; fits: whether it could be run
    """

    name: str
    reason: str
    seconds: float = 0.0
    bytes_per_device: int = 0
    fits: bool = True


@dataclass(frozen=True, slots=True)
class PlanSearch:
    """Plans of a model on some devices, the fastest first, and the rest.

    tried: combinations that were priced; notes: what the model of costs leaves out
    """

    model: str
    devices: int
    ranked: tuple[ParallelPlan, ...]
    rejected: tuple[RejectedPlan, ...]
    tried: int
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> ParallelPlan:
        """The fastest plan that fits."""
        return self.ranked[0]

    def __str__(self) -> str:
        lines = [f"{self.tried:,} ways to spread {self.model} over {counted(self.devices, 'device')}"]
        lines += [f"best: {line}" if not number else line for number, line in enumerate(str(self.best).splitlines())]
        slower = [each for each in self.rejected if each.fits]
        misfits = [each for each in self.rejected if not each.fits]
        for what, found in (("slower", slower), ("impossible", misfits)):
            lines += [f"{what}: {each.name}: {each.reason}" for each in found[:_MOST_SHOWN]]
            if len(found) > _MOST_SHOWN:
                lines.append(f"{what}: and {len(found) - _MOST_SHOWN} more")
        return "\n".join(lines)
