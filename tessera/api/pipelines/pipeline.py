"""Pipelines: `tessera.pipeline([embed, middle, head], mesh=mesh, axis="pp", micro_batches=8)`.

Each function runs on the devices of one place along a mesh axis.  A batch is cut into micro-batches, which go through
the stages one after the other, so that stages work at once; what a stage returns is sent to the counterparts of its
devices in the next stage (GPipe, Huang et al. 2019; 1F1B, Narayanan et al. 2021).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from tessera.api.pipelines.pipeline_run import PipelineRun
from tessera.api.pipelines.pipeline_timeline import pipeline_timeline
from tessera.api.pipelines.stage import Function, Loss, Stage, Tree
from tessera.core.base.plurals import counted
from tessera.core.errors.base import TesseraError
from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import BadPipeline
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.shard_spec import Distribution
from tessera.core.planning.device_timeline import DeviceTimeline
from tessera.core.planning.parallel_plan import FORWARD, GPIPE, INTERLEAVED, SCHEDULES
from tessera.dist.meshes import mesh_in_use


def pipeline(
    functions: Sequence[Function], *, mesh: Mesh | None = None, axis: str = "pp", micro_batches: int = 1,
    schedule: str = GPIPE, layout: Distribution | None = None,
) -> "Pipeline":  # fmt: skip
    """Return functions that run one after the other on the places along a mesh axis, with micro-batches under way.

    functions: each takes (parameters, x), trees of arrays, and returns the x of the next one.  As many as the axis has
      places; for "interleaved" a multiple of that: function n runs on place n modulo their number
    mesh: None: the mesh in use
    micro_batches: into which a batch is cut along its first axis, in equal parts
    schedule: "gpipe", "1f1b" or "interleaved": in which order a stage takes micro-batches forwards and backwards; the
      results are the same to the bit
    layout: how arrays of a micro-batch lie on the devices of a stage; None: every device has all of them

    Raises BadPipeline, BadMesh.
    """
    try:
        devices = mesh_in_use((axis,)) if mesh is None else mesh
        if callable(functions):
            raise BadPipeline("one function is no pipeline", hint="give a list: one for each place along the axis")
        pipe = Pipeline(tuple(functions), devices, axis, micro_batches, schedule, layout)
        pipe.require()
        return pipe
    except TesseraError as mistake:
        raise at_call(mistake) from None


@dataclass(frozen=True)
class Pipeline:
    """Functions on the places along a mesh axis; see `pipeline`."""

    functions: tuple[Function, ...]
    mesh: Mesh
    axis: str
    micro_batches: int
    schedule: str
    layout: Distribution | None

    def require(self) -> None:
        """Raise BadPipeline where functions, places and micro-batches do not go together."""
        stage_count, functions = self.mesh.size(self.axis), len(self.functions)
        schedules = [each for each in SCHEDULES if each != FORWARD]
        if self.schedule not in schedules:
            raise BadPipeline(f"there is no schedule {self.schedule!r}", hint=f"choose from {', '.join(schedules)}")
        several = self.schedule == INTERLEAVED
        if not functions or functions % stage_count or (functions > stage_count and not several):
            what = f"{counted(functions, 'function')} for the {counted(stage_count, 'place')} along {self.axis}"
            more = ", or a multiple of it with schedule='interleaved'" if functions > stage_count else ""
            raise BadPipeline(what, hint=f"give {stage_count}{more}")
        if not isinstance(self.micro_batches, int) or self.micro_batches < 1:  # pyright: ignore[reportUnnecessaryIsInstance] - users give anything
            raise BadPipeline(f"micro_batches={self.micro_batches!r}", hint="cut a batch into at least one")
        if several and self.micro_batches % stage_count:
            what = f"{self.micro_batches} micro-batches are not dealt evenly to {counted(stage_count, 'stage')}"
            raise BadPipeline(what, hint=f"take micro_batches={-(-self.micro_batches // stage_count) * stage_count}")

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """The functions in their order, with the devices of each."""
        meshes = [_mesh_at(self.mesh, self.axis, place) for place in range(self.mesh.size(self.axis))]
        weight = 1 / self.micro_batches
        return tuple(
            Stage(number, function, meshes[number % len(meshes)], weight)
            for number, function in enumerate(self.functions)
        )

    @property
    def meshes(self) -> tuple[Mesh, ...]:
        """The devices of each function, on which its parameters lie: the mesh without the axis of the pipeline."""
        return tuple(stage.mesh for stage in self.stages)

    def __call__(self, parameters: Sequence[Tree], x: Tree) -> Tree:
        """Return what the last function returns for a batch, on the devices of the last stage.

        parameters: a tree for each function: tensors on its mesh, or arrays, which all of its devices get
        x: arrays whose first axis is the batch
        Raises BadPipeline, and the mistakes of the functions.
        """
        try:
            return PipelineRun(self.stages, self.layout, self.micro_batches, parameters).forward(x)
        except TesseraError as mistake:
            raise at_call(mistake) from None

    def value_and_grad(self, loss: Loss) -> Callable[[Sequence[Tree], Tree, Tree], tuple[Tree, list[Tree]]]:
        """Return a function of (parameters, x, target) that gives (the loss, a tree of gradients for each function).

        loss: one number, of (what the last function returns, target) for a micro-batch; the result is the mean over
          micro-batches.  Gradients are summed in the order of micro-batches: floats of 16 bits in f32, rounded once.
        """

        def compute(parameters: Sequence[Tree], x: Tree, target: Tree) -> tuple[Tree, list[Tree]]:
            try:
                run = PipelineRun(self.stages, self.layout, self.micro_batches, parameters)
                return run.forward_and_backward(x, target, loss, self.schedule)
            except TesseraError as mistake:
                raise at_call(mistake) from None

        return compute

    def timeline(
        self, parameters: Sequence[Tree], x: Tree, target: Tree = None, loss: Loss | None = None
    ) -> DeviceTimeline:
        """Return what the stages do on a virtual clock: kernels, collectives and transfers by a model; nothing runs.

        loss: of a step with gradients; None: forwards alone
        """
        try:
            run = PipelineRun(self.stages, self.layout, self.micro_batches, parameters)
            return pipeline_timeline(run, self.mesh, self.axis, (x, target), loss, self.schedule)
        except TesseraError as mistake:
            raise at_call(mistake) from None

    def __repr__(self) -> str:
        names = ", ".join(stage.name for stage in self.stages)
        return (
            f"pipeline of {names} along {self.axis}: {self.schedule}, micro_batches={self.micro_batches}, {self.mesh}"
        )


def _mesh_at(mesh: Mesh, axis: str, place: int) -> Mesh:
    """Return the devices at a place along an axis, without that axis; of a mesh of one axis, a mesh of one device."""
    if len(mesh.axes) > 1:
        return mesh.at({axis: place})
    return Mesh(mesh.axes, (1,), (mesh.devices[place],), mesh.domains, mesh.memory)
