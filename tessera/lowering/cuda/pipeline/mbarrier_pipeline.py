"""Rings of shared memory buffers that one warp fills by bulk copies and others empty, in step by barriers.

Stage s of a ring has two barriers: `full` completes when all bytes have arrived, `empty` when all consumers have read
them.  Both sides count rounds: a stage and a parity that flips when the ring starts again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.cuda.isa import sm90
from tessera.lowering.cuda.pipeline.shared_plan import BARRIER_BYTES


@dataclass(eq=False)
class Pipeline:
    """One ring: `address` (i32) of stage 0 and of the barriers; `arrivals` empties a stage."""

    build: IndexBuilder
    address: Any
    barriers: Any
    stages: int
    stage_bytes: int
    copied_bytes: int
    arrivals: int

    def initialise(self) -> None:
        """Make the barriers: by one lane, before anybody uses them."""
        for stage in range(self.stages):
            sm90.barrier_init(self.build, self._add(self.barriers, stage * BARRIER_BYTES), 1)
        for stage in range(self.stages):
            place = (self.stages + stage) * BARRIER_BYTES
            sm90.barrier_init(self.build, self._add(self.barriers, place), self.arrivals)

    def start(self) -> "PipelineState":
        """The first round."""
        return PipelineState(self.build.word(0), self.build.word(0))

    def following(self, now: "PipelineState") -> "PipelineState":
        """The round after `now`."""
        build = self.build
        if self.stages == 1:
            return PipelineState(now.stage, self._binary("arith.xori", now.parity, build.word(1)))
        stage = self._add(now.stage, 1)
        wrapped = build.compare("eq", stage, build.word(self.stages))
        parity = self._binary("arith.xori", now.parity, build.value("arith.extui", [wrapped], "i32"))
        return PipelineState(build.select(wrapped, build.word(0), stage), parity)

    def before(self, now: "PipelineState") -> "PipelineState":
        """The round before `now`; its parity is left out, as only its stage is asked for."""
        build = self.build
        if self.stages == 1:
            return now
        first = build.compare("eq", now.stage, build.word(0))
        return PipelineState(build.select(first, build.word(self.stages - 1), self._add(now.stage, -1)), now.parity)

    def data(self, now: "PipelineState") -> Any:
        """The address of the round's buffer."""
        if self.stages == 1:
            return self.address
        offset = self._binary("arith.muli", now.stage, self.build.word(self.stage_bytes))
        return self._binary("arith.addi", self.address, offset)

    def full(self, now: "PipelineState") -> Any:
        """The barrier that completes when the round's bytes have arrived."""
        return self._barrier(now, 0)

    def consumer_wait(self, now: "PipelineState") -> None:
        """Consumers: wait for the round's bytes."""
        sm90.barrier_wait(self.build, self.full(now), now.parity)

    def is_empty(self, now: "PipelineState") -> Any:
        """Consumers: an i1: the round's bytes are not there yet."""
        found = sm90.barrier_test(self.build, self.full(now), now.parity)
        return self.build.compare("eq", found, self.build.word(0))

    def producer_acquire(self, now: "PipelineState") -> None:
        """The producer: wait until the stage is free; at once in the first rounds."""
        parity = self._binary("arith.xori", now.parity, self.build.word(1))
        sm90.barrier_wait(self.build, self._barrier(now, self.stages), parity)

    def expect(self, now: "PipelineState") -> None:
        """The producer: announce the round's bytes."""
        sm90.barrier_expect(self.build, self.full(now), self.copied_bytes)

    def release(self, now: "PipelineState", rank: Any | None = None) -> None:
        """One arrival of a consumer, at block `rank` of the cluster: it has read the round's bytes."""
        barrier = self._barrier(now, self.stages)
        if rank is None:
            sm90.barrier_arrive(self.build, barrier)
        else:
            sm90.barrier_arrive_at(self.build, barrier, rank)

    def _barrier(self, now: "PipelineState", offset: int) -> Any:
        base = self._add(self.barriers, offset * BARRIER_BYTES)
        if self.stages == 1:
            return base
        place = self._binary("arith.muli", now.stage, self.build.word(BARRIER_BYTES))
        return self._binary("arith.addi", base, place)

    def _add(self, word: Any, number: int) -> Any:
        return word if number == 0 else self._binary("arith.addi", word, self.build.word(number))

    def _binary(self, name: str, a: Any, b: Any) -> Any:
        return self.build.value(name, [a, b], "i32")


@dataclass(frozen=True, slots=True)
class PipelineState:
    """One use of a stage: its number and the parity of its phase, both i32."""

    stage: Any
    parity: Any

    def values(self) -> Sequence[Any]:
        """As values that a loop carries."""
        return (self.stage, self.parity)
