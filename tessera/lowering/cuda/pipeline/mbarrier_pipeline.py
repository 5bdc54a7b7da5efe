"""Pipelines of shared memory buffers that a producer warp fills by TMA and consumers empty, synchronized by mbarriers.

Stage s of a pipeline has two barriers: `full` completes when all bytes have arrived, `empty` when all consumers have
read them.  Both sides advance a state: a stage, and a parity that flips when the stages start again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tessera.core.mlir import ir
from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.cuda.isa import sm90
from tessera.lowering.cuda.pipeline.shared_plan import BARRIER_BYTES


@dataclass(eq=False)
class Pipeline:
    """A circular buffer: `address` (i32) of stage 0, and of its `barriers`; `arrivals` consumers free a stage."""

    build: IndexBuilder
    address: ir.Value
    barriers: ir.Value
    stages: int
    stage_bytes: int
    copied_bytes: int
    arrivals: int

    def initialise(self) -> None:
        """Initialise the barriers, by one lane and before their first use."""
        for stage in range(self.stages):
            sm90.barrier_init(self.build, self._add(self.barriers, stage * BARRIER_BYTES), 1)
        for stage in range(self.stages):
            place = (self.stages + stage) * BARRIER_BYTES
            sm90.barrier_init(self.build, self._add(self.barriers, place), self.arrivals)

    def start(self) -> "PipelineState":
        """Return the first state."""
        return PipelineState(self.build.word(0), self.build.word(0))

    def following(self, now: "PipelineState") -> "PipelineState":
        """Return the state after `now`."""
        build = self.build
        if self.stages == 1:
            return PipelineState(now.stage, self._binary("arith.xori", now.parity, build.word(1)))
        stage = self._add(now.stage, 1)
        wrapped = build.compare("eq", stage, build.word(self.stages))
        parity = self._binary("arith.xori", now.parity, build.value("arith.extui", [wrapped], "i32"))
        return PipelineState(build.select(wrapped, build.word(0), stage), parity)

    def before(self, now: "PipelineState") -> "PipelineState":
        """Return the state before `now`, of which only the stage is meaningful."""
        build = self.build
        if self.stages == 1:
            return now
        first = build.compare("eq", now.stage, build.word(0))
        return PipelineState(build.select(first, build.word(self.stages - 1), self._add(now.stage, -1)), now.parity)

    def data(self, now: "PipelineState") -> ir.Value:
        """Return the address of a state's buffer."""
        if self.stages == 1:
            return self.address
        offset = self._binary("arith.muli", now.stage, self.build.word(self.stage_bytes))
        return self._binary("arith.addi", self.address, offset)

    def full(self, now: "PipelineState") -> ir.Value:
        """Return the full barrier of a state, which completes when its bytes have arrived."""
        return self._barrier(now, 0)

    def consumer_wait(self, now: "PipelineState") -> None:
        """Wait, as a consumer, until a state's bytes have arrived."""
        sm90.barrier_wait(self.build, self.full(now), now.parity)

    def is_empty(self, now: "PipelineState") -> ir.Value:
        """Test, as a consumer, whether a state's bytes are still missing, an i1."""
        found = sm90.barrier_test(self.build, self.full(now), now.parity)
        return self.build.compare("eq", found, self.build.word(0))

    def producer_acquire(self, now: "PipelineState") -> None:
        """Wait, as the producer, until the stage is free, which it is in the first round."""
        parity = self._binary("arith.xori", now.parity, self.build.word(1))
        sm90.barrier_wait(self.build, self._barrier(now, self.stages), parity)

    def expect(self, now: "PipelineState") -> None:
        """Announce, as the producer, the bytes of a state."""
        sm90.barrier_expect(self.build, self.full(now), self.copied_bytes)

    def release(self, now: "PipelineState", rank: ir.Value | None = None) -> None:
        """Arrive, as a consumer that has read a state's bytes, at the empty barrier, of block `rank` of the cluster."""
        barrier = self._barrier(now, self.stages)
        if rank is None:
            sm90.barrier_arrive(self.build, barrier)
        else:
            sm90.barrier_arrive_at(self.build, barrier, rank)

    def _barrier(self, now: "PipelineState", offset: int) -> ir.Value:
        base = self._add(self.barriers, offset * BARRIER_BYTES)
        if self.stages == 1:
            return base
        place = self._binary("arith.muli", now.stage, self.build.word(BARRIER_BYTES))
        return self._binary("arith.addi", base, place)

    def _add(self, word: ir.Value, number: int) -> ir.Value:
        return word if number == 0 else self._binary("arith.addi", word, self.build.word(number))

    def _binary(self, name: str, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.build.value(name, [a, b], "i32")


@dataclass(frozen=True, slots=True)
class PipelineState:
    """The use of a stage: its number and the parity of its phase, both i32."""

    stage: ir.Value
    parity: ir.Value

    def values(self) -> Sequence[ir.Value]:
        """Return the values that a loop carries."""
        return (self.stage, self.parity)
