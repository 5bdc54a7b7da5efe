"""The schedule view: what a launch is planned to do, without running it."""

import dataclasses
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from tessera.core.base.durations import duration_text
from tessera.core.base.plurals import counted
from tessera.core.errors.catalog import CudaFailure
from tessera.core.program.arguments import ArrayArgument
from tessera.core.work import Work
from tessera.kernels.kernel import Configured, Kernel
from tessera.kernels.like_last_call import arguments_like_last_call
from tessera.performance.cost_model import model_error
from tessera.performance.device_model import Machine, this_machine
from tessera.performance.launch_shape import bound_extents, launch_shape
from tessera.performance.reference_machines import reference_machine
from tessera.performance.work_count import count_work
from tessera.profiling.plan import LaunchPlan, launch_plan, schedule_marks
from tessera.runtime.binding.grid import Grid
from tessera.runtime.launch.phases import Workspaces
from tessera.session.compiled import Compiled
from tessera.viz.base.payload import Json, encode
from tessera.viz.base.selection import group_of
from tessera.viz.base.subjects import launched
from tessera.viz.base.view import View
from tessera.viz.operators.captured import Capturable, captured, is_capturable
from tessera.viz.operators.chosen_kernel import ChosenKernel
from tessera.viz.operators.kernel_arguments import described_arrays, empty_arguments
from tessera.viz.profile.model import LaunchModel, predicted_columns, shown_waves
from tessera.viz.profile.pipeline import PipelineStep, pipeline_steps

_MOST_ORDER = 4096


@dataclass(frozen=True, slots=True)
class LimitRow:
    """How many blocks a resource allows, and whether it is the one that decides."""

    cause: str
    blocks: int
    used: int
    available: int
    unit: str
    limits: bool

    @property
    def told(self) -> str:
        """The share of the resource that a block takes."""
        return f"{self.used:,} of {self.available:,} {self.unit} a block"


@dataclass(frozen=True, slots=True)
class ScheduleModel:
    """The plan of one launch.

    launch: predicted tiles; limits: of residency, of a GPU; warps, most_warps: resident on a multiprocessor
    choices: of the schedule, by name; order: in words; sequence: the first groups in their order of beginning
    pipeline: what roles do over the first iterations of one tile, empty where the kernel is not pipelined
    parts: seconds by what takes them, of the whole launch; machine_source: where the machine's numbers come from
    """

    title: str
    description: str
    group: str
    launch: LaunchModel
    limits: tuple[LimitRow, ...]
    per_unit: int
    warps: int
    most_warps: int
    choices: Mapping[str, str]
    order: str
    sequence: tuple[int, ...]
    pipeline: tuple[PipelineStep, ...]
    stages: int
    parts: Mapping[str, float]
    seconds: float
    machine_source: str


def schedule(
    x: Kernel | Configured | Capturable, *arguments: object, target: str | None = None, kernel: int | None = None
) -> "ScheduleView":
    """Show how a call is planned: waves over the units, residency and its limit, the order of tiles, the pipeline.

    Compiles, and runs nothing.  Of a call that is several launches, the first is shown.
    x: a kernel, `kernel[grid, block]`, or a function of operators, of which one kernel is shown
    arguments: none: like those of the last call
    target: as in `Kernel.compile`; for a GPU that is not here, its data sheet is used
    kernel: of a function of operators, the number of the kernel; None: the one that computes most

    Raises:
        NothingToShow: `x` is none of these, or has no such kernel.
        NotCalledYet: no arguments are given, and there was no call.
        ValueError: a GPU is neither here nor known.
    """
    if is_capturable(x):
        chosen = ChosenKernel(captured(x, arguments, "schedule"), kernel, target or "")
        model = _shown(chosen.compiled, tuple(empty_arguments(chosen.compiled.program)), None)
        return ScheduleView(dataclasses.replace(model, group=chosen.graph.selection))
    made, grid = launched(x, "schedule")
    if not arguments and inspect.signature(made.function).parameters:
        arguments = arguments_like_last_call(made)
    values = made.ordered(arguments, {})
    return ScheduleView(_shown(made.compile_quietly(*values, target=target), values, grid, made))


def _shown(
    compiled: Compiled, values: tuple[object, ...], grid: Grid | None, kernel: Kernel | None = None
) -> ScheduleModel:
    """Return the model of a call.  kernel: None for one that no user wrote, whose arguments are arrays."""
    arrays = described_arrays(compiled.program) if kernel is None else kernel.described(values).arguments
    known = (*arrays, *_workspaces(compiled, values))
    first = compiled.phases[0] if compiled.phases else compiled
    shape = launch_shape(first.artifact, first.program, bound_extents(first.program, known), grid)
    work = count_work(first.program, shape)
    machine = _machine(first, values)
    model = schedule_model(first, launch_plan(first, shape, work, machine), work, machine)
    if compiled.phases:
        note = f"; the first of the call's {len(compiled.phases)} launches"
        model = dataclasses.replace(model, title=model.title + note, description=model.description + note)
    return model


def _workspaces(compiled: Compiled, values: tuple[object, ...]) -> list[ArrayArgument]:
    """Return the memory that the launches of one call share, as further arguments; none where it is one launch."""
    if not compiled.phases:
        return []
    layout = Workspaces(compiled.artifact, compiled.workspaces).layout(values)
    kinds = [space.value.type.dtype for space in compiled.workspaces]
    return [ArrayArgument(kind, shape) for kind, (shape, _) in zip(kinds, layout, strict=True)]


def _machine(compiled: Compiled, values: tuple[object, ...]) -> Machine:
    try:
        return this_machine(compiled.target.kind, values)
    except CudaFailure:
        return reference_machine(compiled.target.arch)


def schedule_model(compiled: Compiled, plan: LaunchPlan, work: Work, machine: Machine) -> ScheduleModel:
    """Return the view model of a plan."""
    full, resources = plan.occupancy, compiled.artifact.resources
    limits: tuple[LimitRow, ...] = ()
    if full is not None:
        limits = tuple(
            LimitRow(each.cause, each.blocks, each.used, each.available, each.unit, each.cause in full.limited_by)
            for each in full.limits
        )
    stages = max([each.count for each in resources.buffers], default=plan.schedule.stages if plan.schedule else 0)
    title = f"schedule of {compiled.name} for {compiled.target}"
    description = (
        f"schedule of {compiled.name} for {compiled.target.name}: {counted(work.groups, 'group')}, {plan.order}"
    )
    return ScheduleModel(
        title, description, group_of(compiled.name, compiled.artifact.source), _launch(title, plan, machine), limits,
        plan.per_unit, full.warps if full else 0, full.most_warps if full else 0, schedule_marks(plan.schedule),
        plan.order, tuple(plan.tiles.group[:_MOST_ORDER].tolist()),
        pipeline_steps(work, machine, stages, producer=bool(plan.schedule and plan.schedule.producer_warp)), stages,
        dict(plan.prediction.parts), plan.prediction.seconds, f"{machine.name}: {machine.source}",
    )  # fmt: skip


def _launch(title: str, plan: LaunchPlan, machine: Machine) -> LaunchModel:
    tiles = plan.tiles
    names = tuple(f"{machine.unit} {number}" for number in range(machine.units))
    counts = [int((tiles.unit == number).sum()) for number in range(machine.units)]
    waves = tiles.waves
    figures = [
        ("predicted", f"{duration_text(plan.prediction.seconds)} per launch, most of it {plan.prediction.bound}"),
        ("error of predictions", model_error(on_gpu=machine.on_gpu).told),
        ("slots", f"{tiles.slots:,}: {plan.per_unit} on each of {counted(machine.units, machine.unit)}"),
        ("waves", f"{len(waves):,}, the last one {waves[-1].groups} of {waves[-1].slots} slots" if waves else "none"),
        ("idle", f"{tiles.idle:.1%} of the slots' time"),
        ("order", plan.order),
    ]
    return LaunchModel(
        title=title, unit=machine.unit, rows=names, lanes=plan.per_unit, axes=plan.axes, array=plan.array, every=1,
        span=0.0, predicted_span=tiles.span, told="", measured=None, predicted=predicted_columns(tiles),
        waves=shown_waves(tiles), chunked=plan.chunk > 1, idle=tiles.idle, lines=plan.lines, figures=tuple(figures),
        remarks=(),
        table=tuple((name, "", "", f"{count:,}") for name, count in zip(names, counts, strict=True)), slowest=(),
    )  # fmt: skip


class ScheduleView(View[ScheduleModel]):
    """A launch as it is planned."""

    kind = "schedule"

    @property
    def title(self) -> str:
        """The kernel and its target."""
        return self.data.title

    def text(self) -> str:
        """Return one line: the groups and their order."""
        return self.data.description

    def plain_html(self) -> str:
        """Return figures, limits and choices as tables."""
        model = self.data
        rows = [*model.launch.figures]
        rows += [
            (f"blocks by {each.cause}", f"{each.blocks} ({each.told}){', the limit' if each.limits else ''}")
            for each in model.limits
        ]
        rows += list(model.choices.items())
        cells = "".join(
            f'<tr><td style="padding:1px 12px 1px 0;border:none;text-align:left">{escape(name)}</td>'
            f'<td style="border:none;text-align:left">{escape(value)}</td></tr>'
            for name, value in rows
        )
        return f"<div><b>{escape(self.title)}</b></div><table>{cells}</table><div>{escape(model.machine_source)}</div>"

    def payload(self) -> Json:
        """Return the model."""
        found = {field.name: encode(getattr(self.data, field.name)) for field in dataclasses.fields(self.data)}
        return {**found, "text": self.text()}
