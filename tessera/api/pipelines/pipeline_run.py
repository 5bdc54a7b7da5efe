"""Run a pipeline: micro-batches go through its stages in the order of a schedule.

    stage 0  F0 F1 F2 F3          B0    B1 ...
    stage 1     F0 F1 F2 F3 B0 B1 ...

Stages are given work in an order in which each finds what it needs; GPUs work at it side by side.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tessera.api.pipelines.stage import Loss, Stage, Transfer, Tree, holds_short_floats
from tessera.core.arrays.array_methods import Array
from tessera.core.base.dtypes import dtype_of
from tessera.core.errors.catalog import BadPipeline, CannotTrace
from tessera.core.placement.mesh_array import MeshArray
from tessera.core.placement.shard_spec import Distribution
from tessera.core.planning.parallel_plan import FORWARD, PipelineShape
from tessera.dist import tensors
from tessera.graphs.structure import flatten, unflatten
from tessera.graphs.trace import current_trace
from tessera.ops import op
from tessera.performance.parallel.pipeline import Piece, launch_order


@dataclass
class MicroBatches:
    """Values that are under way between stages.

    inputs: of each stage by (stage, micro-batch), until they went backwards; cotangents: of what stages returned
    """

    inputs: dict[tuple[int, int], Transfer] = field(default_factory=dict[tuple[int, int], Transfer])
    cotangents: dict[tuple[int, int], Transfer] = field(default_factory=dict[tuple[int, int], Transfer])


class PipelineRun:
    """One batch on its way through the stages."""

    def __init__(
        self, stages: Sequence[Stage], layout: Distribution | None, micro_batches: int, parameters: Sequence[Tree]
    ) -> None:
        """Take trees of parameters, one for each stage.  Raises BadPipeline for another number of them."""
        self.stages, self.layout, self.micro_batches, self.parameters = stages, layout, micro_batches, parameters
        if not isinstance(parameters, list | tuple) or len(parameters) != len(stages):
            count = len(parameters) if isinstance(parameters, list | tuple) else type(parameters).__name__
            hint = "write () for a function that has none"
            raise BadPipeline(f"{len(stages)} functions take as many trees of parameters, not {count}", hint=hint)
        if current_trace() is not None:
            hint = "differentiate with pipe.value_and_grad(loss), and call it outside of captured functions"
            raise CannotTrace("a pipeline is no part of a graph: its stages lie on different devices", hint=hint)
        self.under_way = MicroBatches()
        self.rows = 1

    def shape(self, schedule: str) -> PipelineShape:
        """Return how micro-batches go through the stages."""
        count = len({stage.mesh.devices for stage in self.stages})
        return PipelineShape(schedule, count, self.micro_batches, self.rows, len(self.stages) // count)

    def order(self, schedule: str) -> Sequence[tuple[int, Piece]]:
        """Return the pieces of work, each with its stage, in an order in which each comes after what it needs."""
        shape = self.shape(schedule)
        return [(piece.chunk * shape.stages + place, piece) for place, piece in launch_order(shape)]

    def forward(self, x: Tree) -> Tree:
        """Return what the last stage returns, for the whole batch."""
        batches = self.cut(x, self.stages[0], "x")
        results: list[Tree] = [None] * self.micro_batches
        for number, piece in self.order(FORWARD):
            stage, batch = self.stages[number], piece.micro_batch
            with _noted(stage, batch):
                value = batches[batch] if number == 0 else self.under_way.inputs.pop((number, batch)).arrived()
                result = stage.forward(self.parameters[number], value)
            if stage is self.stages[-1]:
                results[batch] = result
            else:
                self.under_way.inputs[number + 1, batch] = self.stages[number + 1].receiving(result)
        return results[0] if self.micro_batches == 1 else _joined(results)

    def forward_and_backward(self, x: Tree, target: Tree, loss: Loss, schedule: str) -> tuple[Tree, list[Tree]]:
        """Return the loss, and the gradients by the parameters of each stage."""
        batches, targets = self.cut(x, self.stages[0], "x"), self.cut(target, self.stages[-1], "target")
        for batch, value in enumerate(batches):
            self.under_way.inputs[0, batch] = Transfer(value)
        sums: list[Tree] = [None] * len(self.stages)
        total: Tree = None
        for number, piece in self.order(schedule):
            stage, batch = self.stages[number], piece.micro_batch
            with _noted(stage, batch):
                if piece.way == "F":
                    self._go_forward(stage, batch)
                elif stage is self.stages[-1]:
                    sums[number], total = self._turn(stage, batch, targets[batch], loss, sums[number], total)
                else:
                    sums[number] = self._go_backward(stage, batch, sums[number])
        return total, sums

    def _go_forward(self, stage: Stage, batch: int) -> None:
        """Compute what the next stage takes.  The last stage waits: it computes its value beside its gradients."""
        if stage is not self.stages[-1]:
            result = stage.forward(self.parameters[stage.number], self.under_way.inputs[stage.number, batch].arrived())
            following = self.stages[stage.number + 1]
            self.under_way.inputs[following.number, batch] = following.receiving(result)

    def _turn(
        self, stage: Stage, batch: int, target: Tree, loss: Loss, sums: Tree, total: Tree
    ) -> tuple[Tree, Tree]:  # fmt: skip
        parameters, x = self.parameters[stage.number], self.under_way.inputs.pop((stage.number, batch)).arrived()
        sums, of_x, total = stage.turn(loss)(parameters, x, target, sums, total, self._rounds(stage, batch))
        self._send_back(stage, batch, of_x)
        return sums, total

    def _go_backward(self, stage: Stage, batch: int, sums: Tree) -> Tree:
        parameters, x = self.parameters[stage.number], self.under_way.inputs.pop((stage.number, batch)).arrived()
        cotangent = self.under_way.cotangents.pop((stage.number, batch)).arrived()
        sums, of_x = stage.backward(parameters, x, cotangent, sums, self._rounds(stage, batch))
        self._send_back(stage, batch, of_x)
        return sums

    def _send_back(self, stage: Stage, batch: int, cotangent: Tree) -> None:
        if stage.number:
            before = self.stages[stage.number - 1]
            self.under_way.cotangents[before.number, batch] = before.receiving(cotangent)

    def _rounds(self, stage: Stage, batch: int) -> bool:
        """Return whether sums become the gradients now: with the last micro-batch, where they are in another dtype."""
        return batch == self.micro_batches - 1 and holds_short_floats(self.parameters[stage.number])

    def cut(self, batch: Tree, stage: Stage, name: str) -> list[Tree]:
        """Return micro-batches of a batch, on the devices of a stage.  Raises BadPipeline where they are not equal."""
        leaves: list[Array] = []
        structure = flatten(batch, leaves)
        if any(isinstance(leaf, MeshArray) for leaf in leaves):
            hint = "give arrays of the host or of one GPU; layout= says how micro-batches lie on a stage"
            raise BadPipeline(f"{name} lies on a mesh", hint=hint)
        if not leaves and name == "target":  # a loss that compares with nothing
            return [batch] * self.micro_batches
        rows = self._rows_of(leaves, name)
        cut = [[leaf[number * rows : (number + 1) * rows] for leaf in leaves] for number in range(self.micro_batches)]
        return [stage.stored(unflatten(structure, iter(each).__next__), self.layout) for each in cut]

    def declared(self, batch: Tree, stage: Stage, name: str) -> Tree:
        """Return one micro-batch of a batch as tensors that are only declared, on the devices of a stage."""
        leaves: list[Array] = []
        structure = flatten(batch, leaves)
        if not leaves and name == "target":
            return batch
        rows = self._rows_of(leaves, name)
        types = [((rows, *leaf.shape[1:]), dtype_of(leaf.dtype)) for leaf in leaves]
        rows_of = [tensors.tensor(shape, self.layout, stage.mesh, dtype) for shape, dtype in types]
        return unflatten(structure, iter(rows_of).__next__)

    def _rows_of(self, leaves: Sequence[Array], name: str) -> int:
        """Return the rows of a micro-batch.  Raises BadPipeline where there are no equal ones."""
        extents = {leaf.shape[0] if len(leaf.shape) else 0 for leaf in leaves}
        if len(extents) != 1 or 0 in extents:
            shapes = ", ".join(str(tuple(leaf.shape)) for leaf in leaves) or "no arrays"
            raise BadPipeline(f"{name} is no batch: {shapes}", hint="give arrays that agree in their first axis")
        (extent,) = extents
        if extent % self.micro_batches:
            what = f"{name} has {extent} rows, which are no {self.micro_batches} equal micro-batches"
            raise BadPipeline(what, hint=f"give {-(-extent // self.micro_batches) * self.micro_batches} rows")
        self.rows = extent // self.micro_batches
        return self.rows


@contextmanager
def _noted(stage: Stage, batch: int) -> Generator[None]:
    """Let what is raised inside say in which stage."""
    try:
        yield
    except Exception as mistake:
        mistake.add_note(f"in {stage.name}, micro-batch {batch}, on {stage.mesh}")
        raise


def _joined(results: Sequence[Tree]) -> Tree:
    """Return trees of arrays as one, joined along their first axes."""
    columns: list[list[Array]] = []
    for result in results:
        leaves: list[Array] = []
        structure = flatten(result, leaves)
        columns.append(leaves)
    return unflatten(structure, iter([op.concat(each) for each in zip(*columns, strict=True)]).__next__)  # pyright: ignore[reportPossiblyUnboundVariable]
