"""Price a transformer on a mesh: memory, kernels and collectives of one step, for each way to spread it.

Blocks are cut by tp as heads and columns, then rows, of products; between blocks sequences are cut by tp, so that a
block gathers twice and scatters sums twice each way.  Weights are kept in bf16, their gradients in f32; dp holds a
share of the optimizer's f32 state each.  Nothing overlaps but what a pipeline overlaps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from tessera.core.placement.link_costs import LINKS, topology_on
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.topology import CollectiveCost
from tessera.core.planning.described_transformer import Transformer
from tessera.core.planning.parallel_plan import GPIPE, INTERLEAVED, ParallelPlan, PipelineShape, PlannedCollective
from tessera.performance.parallel.pipeline import StageTimes

WEIGHT: Final = 2
GRADIENT: Final = 4
OPTIMIZER: Final = 12
"""Bytes a parameter: f32 weights, and two moments."""
_GATHERS: Final = (2, 4)
"""All_gathers of a block forwards and backwards: backwards what products read is gathered again."""
_SCATTERS: Final = (2, 2)
NOTES: Final = (
    "products run at two thirds of the data sheet's rate, whatever their shape",
    "collectives inside a stage overlap with nothing",
    "gradients are reduced when all micro-batches are done",
    "normalizations, activations and attention's weights move each element twice; attention's weights are not kept",
)


@dataclass(frozen=True)
class SpreadTransformer:
    """A transformer on a mesh with the axes pp, dp and tp, with one order of its pipeline.

    again: whether the backward pass computes blocks again from their inputs, which alone are kept
    """

    model: Transformer
    mesh: Mesh
    pipeline: PipelineShape
    again: bool
    capacity: int

    @cached_property
    def _tp(self) -> int:
        return self.mesh.size("tp")

    @cached_property
    def _dp(self) -> int:
        return self.mesh.size("dp")

    @property
    def _layers(self) -> int:
        return self.model.layers // self.pipeline.stages

    @property
    def _tokens(self) -> int:
        """Tokens of a micro-batch."""
        return self.pipeline.micro_batch * self.model.sequence

    @property
    def _stream(self) -> int:
        """Bytes of the residual stream of a micro-batch."""
        return self._tokens * self.model.width * self.model.dtype.bytes

    def parameters(self, stage: int) -> int:
        """Return the parameters of a device of a stage."""
        ends = (stage == 0) + (stage == self.pipeline.stages - 1)
        whole = self._layers * self.model.block_parameters + ends * self.model.embedding_parameters
        return -(-whole // self._tp)

    def memory_of(self, stage: int) -> Mapping[str, int]:
        """Return the bytes of a device of a stage, by what they hold."""
        weights = self.parameters(stage)
        block = self._tokens * self.model.dtype.bytes // self._tp
        kept = self._layers * block * (self.model.width if self.again else self.model.kept_elements)
        found = {
            "weights": weights * WEIGHT,
            "gradients": weights * GRADIENT,
            "optimizer": -(-weights * OPTIMIZER // self._dp),
            "activations": int(self._kept_by(stage) * kept),
        }
        if self.again:
            found["a block computed again"] = block * self.model.kept_elements
        if stage == self.pipeline.stages - 1:
            found["logits"] = 2 * self._tokens * self.model.vocabulary * GRADIENT // self._tp
        return found

    def _kept_by(self, stage: int) -> float:
        """Return for how many micro-batches a stage keeps the values of its layers."""
        shape = self.pipeline
        if shape.schedule == GPIPE:
            return float(shape.micro_batches)
        if shape.schedule == INTERLEAVED:
            most = 2 * (shape.stages - stage - 1) + (shape.chunks - 1) * shape.stages + 1
            return min(most, shape.micro_batches * shape.chunks) / shape.chunks
        return float(min(shape.stages - stage, shape.micro_batches))

    @cached_property
    def memory(self) -> Mapping[str, int]:
        """The bytes of a device of the fullest stage: the first or the last one."""
        ends = (self.memory_of(0), self.memory_of(self.pipeline.stages - 1))
        return max(ends, key=lambda found: sum(found.values()))

    @property
    def bytes_per_device(self) -> int:
        """Bytes of the fullest device."""
        return sum(self.memory.values())

    def _moved(self, kind: str, axis: str, size: float) -> CollectiveCost:
        """Return the cost of a collective of an array of `size` bytes over one axis."""
        ranks = self.mesh.size(axis)
        share = 1.0 if kind == "send" else (ranks - 1) / ranks
        return LINKS.cost(kind, self.mesh, (axis,), share * size)

    @cached_property
    def _joining(self) -> tuple[CollectiveCost, CollectiveCost]:
        return self._moved("all_gather", "tp", self._stream), self._moved("reduce_scatter", "tp", self._stream)

    @cached_property
    def sending(self) -> CollectiveCost:
        """The cost of a transfer between stages."""
        return self._moved("send", "pp", self._stream / self._tp)

    def times_of(self, stage: int) -> StageTimes:
        """Return the seconds of a stage for a micro-batch."""
        domain, tokens, model = topology_on(self.mesh).domain, self._tokens, self.model
        operations = self._layers * model.block_operations(tokens)
        if stage == self.pipeline.stages - 1:
            operations += model.head_operations(tokens)
        read = self._layers * model.block_parameters * WEIGHT
        moved = 2 * self._layers * tokens * model.kept_elements * model.dtype.bytes
        memory = domain.memory * 1e9 * self._tp
        forwards = max(operations / (domain.products * 1e12 * self._tp), read / memory) + moved / memory
        gather, scatter = (each.seconds * self._layers for each in self._joining)
        forth = _GATHERS[0] * gather + _SCATTERS[0] * scatter
        back = _GATHERS[1] * gather + _SCATTERS[1] * scatter
        again = forwards if self.again else 0.0
        return StageTimes(forwards, 2 * forwards + again, forth, back + (forth if self.again else 0.0))

    @cached_property
    def times(self) -> Sequence[StageTimes]:
        """The seconds of all stages: the last one has the head."""
        stages = self.pipeline.stages
        return (*[self.times_of(0)] * (stages - 1), self.times_of(stages - 1))

    @cached_property
    def collectives(self) -> tuple[PlannedCollective, ...]:
        """The collectives of one step, of a device of the first stage."""
        shape, (gather, scatter) = self.pipeline, self._joining
        blocks = self._layers * shape.micro_batches
        ways = (_GATHERS[0] * (1 + self.again) + _GATHERS[1], _SCATTERS[0] * (1 + self.again) + _SCATTERS[1])
        weights = self.parameters(0)
        reduced = self._moved("reduce_scatter", "dp", weights * GRADIENT)
        gathered = self._moved("all_gather", "dp", weights * WEIGHT)
        found = (
            PlannedCollective("all_gather", "activations", ("tp",), ways[0] * blocks, gather),
            PlannedCollective("reduce_scatter", "activations", ("tp",), ways[1] * blocks, scatter),
            PlannedCollective("reduce_scatter", "gradients", ("dp",), 1, reduced),
            PlannedCollective("all_gather", "weights", ("dp",), 1, gathered),
            PlannedCollective("send", "activations", ("pp",), 2 * shape.micro_batches * shape.chunks, self.sending),
        )
        return tuple(each for each in found if each.cost.seconds)

    @cached_property
    def tail(self) -> float:
        """Seconds of what comes behind the last micro-batch."""
        return sum(each.seconds for each in self.collectives if each.axes == ("dp",))

    @cached_property
    def compute(self) -> float:
        """Seconds of kernels of the slowest stage in one step."""
        return max(each.forwards + each.backwards for each in self.times[-2:]) * self.pipeline.micro_batches

    @cached_property
    def seconds(self) -> float:
        """An estimate of a step, without simulation: the slowest stage, and the others while it waits."""
        slots = [sum((*each.of("F"), *each.of("B"))) for each in self.times[-2:]]
        shape = self.pipeline
        filling = (shape.stages - 1) * (slots[0] / shape.chunks + 2 * self.sending.seconds)
        return max(slots) * shape.micro_batches + filling + self.tail

    def plan(self) -> ParallelPlan:
        """Return the plan."""
        model = self.model
        once = model.layers * model.block_operations(model.tokens) + model.head_operations(model.tokens)
        choice = "blocks are computed again in the backward pass" if self.again else "all activations are kept"
        return ParallelPlan(
            str(model), self.mesh, self.pipeline, self.memory, self.capacity, self.compute, self.collectives,
            self.seconds, self.pipeline.bubble, 3.0 * once, choices=(choice,),
        )  # fmt: skip
