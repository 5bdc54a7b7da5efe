"""Price a pipeline on a virtual clock: kernels and collectives of each stage, transfers between them; nothing runs."""

from collections.abc import Mapping, Sequence
from typing import Final, cast

from tessera.api.pipelines.pipeline_run import PipelineRun
from tessera.api.pipelines.stage import Loss, Stage, Tree
from tessera.core.arrays.array_methods import Array
from tessera.core.placement.link_costs import LINKS
from tessera.core.placement.mesh import Mesh
from tessera.core.planning.device_timeline import VIRTUAL, DeviceTimeline, named_devices
from tessera.core.planning.parallel_plan import FORWARD
from tessera.dist.tensors import Tensor
from tessera.graphs.function import GraphFunction
from tessera.graphs.mesh_executable import MeshExecutable
from tessera.graphs.structure import flatten, unflatten
from tessera.performance.parallel.pipeline import StageTimes, simulate

_NOTES: Final = (
    "kernels take what the planner's reference machine takes, an H200",
    "backwards, stages compute their values anew",
)


def pipeline_timeline(
    run: PipelineRun, mesh: Mesh, axis: str, batch: tuple[Tree, Tree], loss: Loss | None, schedule: str
) -> DeviceTimeline:  # fmt: skip
    """Return what the stages do with a batch, (x, target): forwards alone where there is no loss."""
    x = run.declared(batch[0], run.stages[0], "x")
    target = None if loss is None else run.declared(batch[1], run.stages[-1], "target")
    forwards: list[_Price] = []
    backwards: list[_Price] = []
    sent = 0.0
    for stage, parameters in zip(run.stages, run.parameters, strict=True):
        last = stage is run.stages[-1]
        price = _Price(stage.forward, parameters, x)
        if loss is not None and last:
            backwards.append(_Price(stage.turn(loss), parameters, x, target, None, None, rounded=False))
        elif loss is not None:
            backwards.append(_Price(stage.backward, parameters, x, price.results(stage), None, rounded=False))
        forwards.append(price)
        if not last:
            x = price.results(run.stages[stage.number + 1])
            sent = max(sent, _bytes_of(x))
    shape = run.shape(FORWARD if loss is None else schedule)
    times = [
        _times(forwards[place :: shape.stages], backwards[place :: shape.stages], turns=place == shape.stages - 1)
        for place in range(shape.stages)
    ]
    sending = LINKS.cost("send", mesh, (axis,), sent)
    simulated = simulate(shape, times, sending.seconds, sending.sent, _names(mesh, axis), sending.basis)
    return DeviceTimeline(f"{shape}, on {mesh}", VIRTUAL, simulated.rows, _NOTES)


class _Price:
    """A graph of a stage, with the time that its devices take."""

    def __init__(self, function: GraphFunction[..., Tree], *arguments: Tree, **keywords: bool) -> None:
        self.executable = cast("MeshExecutable", function.executable_for(*arguments, **keywords))
        self.structure = function.graph_for(*arguments, **keywords).structure
        row = self.executable.timeline().rows[0]
        self.compute, self.joining = row.compute, row.exposed

    def results(self, stage: Stage) -> Tree:
        """Return what the graph returns as tensors on the devices of a stage, declared alone."""
        return unflatten(
            self.structure, iter([Tensor(kind, stage.mesh) for kind in self.executable.output_types]).__next__
        )


def _times(forwards: Sequence[_Price], backwards: Sequence[_Price], *, turns: bool) -> StageTimes:
    """Return the seconds of all parts at one place.  The last part computes its value beside its gradients."""
    alone = forwards[:-1] if turns and backwards else forwards
    return StageTimes(
        sum(each.compute for each in alone), sum(each.compute for each in backwards),
        sum(each.joining for each in alone), sum(each.joining for each in backwards),
    )  # fmt: skip


def _bytes_of(x: Tree) -> float:
    """Return the bytes that each device sends of what lies on it."""
    leaves: list[Array] = []
    flatten(x, leaves)
    return float(sum(leaf.bytes_per_device for leaf in leaves))


def _names(mesh: Mesh, axis: str) -> Mapping[int, tuple[str, tuple[int, ...]]]:
    ranks_of_stages = [
        tuple(rank for rank in range(mesh.size()) if mesh.position(rank, (axis,)) == place)
        for place in range(mesh.size(axis))
    ]
    return {place: (f"stage {place}, {named_devices(ranks)}", ranks) for place, ranks in enumerate(ranks_of_stages)}
