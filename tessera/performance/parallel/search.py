"""Search for a plan: every dp x tp x pp of a transformer's mesh, priced, ranked, and the best ones simulated.

Each extents' best choice of micro-batch, schedule and recomputation stands for them.  Those that are not taken say
why: what does not divide, what does not fit and by how much, or what takes longer than in the best plan.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import NoPlanFits
from tessera.core.placement.devices import SIMULATED, Device
from tessera.core.placement.memory import amount
from tessera.core.placement.mesh import Mesh
from tessera.core.planning.described_transformer import Transformer
from tessera.core.planning.device_timeline import (
    COMMUNICATION,
    VIRTUAL,
    DeviceRow,
    DeviceSpan,
    DeviceTimeline,
    in_time,
    named_devices,
)
from tessera.core.planning.parallel_plan import (
    GPIPE,
    INTERLEAVED,
    ONE_F_ONE_B,
    ParallelPlan,
    PipelineShape,
    PlanSearch,
    RejectedPlan,
)
from tessera.performance.parallel.pipeline import simulate
from tessera.performance.parallel.transformer_costs import NOTES, SpreadTransformer

AXES: Final = ("pp", "dp", "tp")
"""Of the meshes that are proposed: tp, which sends most often, over devices that are nearest to each other."""
_MICRO_BATCHES: Final = (1, 2, 4, 8)
_CHUNKS: Final = (2, 4)
_SIMULATED: Final = 3
"""Plans that are simulated: those that take least by the formula."""
_MOST_DEVICES: Final = 1 << 16
"""Devices up to which it is looked for how many would do."""


def extents_of(count: int) -> Iterator[tuple[int, int, int]]:
    """Yield every dp, tp, pp whose product is `count`."""
    for tp in range(1, count + 1):
        if count % tp:
            continue
        for pp in range(1, count // tp + 1):
            if count // tp % pp == 0:
                yield count // tp // pp, tp, pp


def spread_over(mesh: Mesh, dp: int, tp: int, pp: int) -> Mesh:
    """Return the devices of a mesh in their order, with the axes pp, dp and tp."""
    return Mesh(AXES, (pp, dp, tp), mesh.devices, mesh.domains, mesh.memory)


def search_transformer(model: Transformer, mesh: Mesh, capacity: int) -> PlanSearch:
    """Return the plans of a transformer on the devices of a mesh.

    capacity: bytes that a device has
    Raises NoPlanFits where none fits, with what would.
    """
    found = _Search(model, mesh, capacity)
    found.run()
    if not found.fitting:
        raise at_call(NoPlanFits(found.nearest(), hint=_remedy(model, mesh, capacity)))
    ranked = sorted(map(simulated, found.cheapest(_SIMULATED)), key=lambda plan: plan.seconds)
    best = ranked[0]
    others = [*ranked[1:], *(each.plan() for each in found.cheapest()[_SIMULATED:])]
    slower = [
        RejectedPlan(plan.name, compared(plan, best), plan.seconds, plan.bytes_per_device) for plan in others
    ]  # fmt: skip
    rejected = (*sorted(slower, key=lambda each: each.seconds), *found.impossible)
    return PlanSearch(str(model), mesh.size(), tuple(ranked), rejected, found.tried, NOTES)


@dataclass
class _Search:
    """A search while it runs.

    fitting: the cheapest way of each extents that fit; smallest: of those that do not, the one that needs least
    """

    model: Transformer
    mesh: Mesh
    capacity: int
    tried: int = 0
    fitting: list[SpreadTransformer] = field(default_factory=list[SpreadTransformer])
    impossible: list[RejectedPlan] = field(default_factory=list[RejectedPlan])
    smallest: SpreadTransformer | None = None

    def run(self) -> None:
        """Price every way."""
        misfits: list[RejectedPlan] = []
        for dp, tp, pp in extents_of(self.mesh.size()):
            name = f"dp {dp} x tp {tp} x pp {pp}"
            reason = indivisible(self.model, dp, tp, pp)
            if reason:
                self.impossible.append(RejectedPlan(name, reason, fits=False))
                continue
            ways = list(self._ways(spread_over(self.mesh, dp, tp, pp), dp, pp))
            self.tried += len(ways)
            fits = [each for each in ways if each.bytes_per_device <= self.capacity]
            if fits:
                self.fitting.append(min(fits, key=lambda each: each.seconds))
                continue
            least = min(ways, key=lambda each: each.bytes_per_device)
            misfits.append(RejectedPlan(name, _too_large(least), 0.0, least.bytes_per_device, fits=False))
            if self.smallest is None or least.bytes_per_device < self.smallest.bytes_per_device:
                self.smallest = least
        self.impossible = [*sorted(misfits, key=lambda each: each.bytes_per_device), *self.impossible]

    def _ways(self, mesh: Mesh, dp: int, pp: int) -> Iterator[SpreadTransformer]:
        rows = self.model.batch // dp
        for micro_batch in _MICRO_BATCHES:
            if rows % micro_batch:
                continue
            for pipeline in pipelines(self.model.layers, pp, rows // micro_batch, micro_batch):
                for again in (False, True):
                    yield SpreadTransformer(self.model, mesh, pipeline, again, self.capacity)

    def cheapest(self, most: int | None = None) -> Sequence[SpreadTransformer]:
        """Return the ways that fit, those that take least first."""
        return sorted(self.fitting, key=lambda each: each.seconds)[:most]

    def nearest(self) -> str:
        """Say how near the smallest way comes."""
        least = self.smallest
        if least is None:
            return f"{self.model}: no dp x tp x pp = {self.mesh.size()} divides its extents"
        return f"{self.model}: at least {_too_large(least)}, with {least.plan().name}"


def pipelines(layers: int, stages: int, micro_batches: int, micro_batch: int) -> Iterator[PipelineShape]:
    """Yield the orders in which a pipeline may take its micro-batches."""
    yield PipelineShape(ONE_F_ONE_B, stages, micro_batches, micro_batch)
    if stages == 1:
        return
    yield PipelineShape(GPIPE, stages, micro_batches, micro_batch)
    for chunks in _CHUNKS:
        if micro_batches % stages == 0 and layers // stages % chunks == 0:
            yield PipelineShape(INTERLEAVED, stages, micro_batches, micro_batch, chunks)


def indivisible(model: Transformer, dp: int, tp: int, pp: int) -> str:
    """Say what of a model cannot be cut so; "" where everything can."""
    for what, whole, axis, parts in (
        ("layers", model.layers, "pp", pp), ("heads", model.heads, "tp", tp),
        ("heads of keys", model.kv_heads, "tp", tp), ("columns of products", model.inner, "tp", tp),
        ("tokens of a sequence", model.sequence, "tp", tp), ("sequences of a step", model.batch, "dp", dp),
    ):  # fmt: skip
        if whole % parts:
            return f"{axis} {parts} does not divide {whole:,} {what}"
    return ""


def _too_large(way: SpreadTransformer) -> str:
    largest = max(way.memory, key=way.memory.__getitem__)
    return (
        f"{amount(way.bytes_per_device)} a device of {amount(way.capacity)}: {largest} "
        f"alone {amount(way.memory[largest])}"
    )


def _remedy(model: Transformer, mesh: Mesh, capacity: int) -> str:
    """Say how many devices would do."""
    count = mesh.size() * 2
    while count <= _MOST_DEVICES:
        more = Mesh(
            ("dp",), (count,), tuple(Device(SIMULATED, number) for number in range(count)), mesh.domains, mesh.memory
        )  # fmt: skip
        found = _Search(model, more, capacity)
        found.run()
        if found.fitting:
            way = found.cheapest(1)[0]
            plan = way.plan()
            return f"{count:,} devices would do: {plan.name} takes {amount(plan.bytes_per_device)} a device"
        count *= 2
    return "choose a smaller model, or a batch that more devices divide"


def simulated(way: SpreadTransformer) -> ParallelPlan:
    """Return the plan with a timeline: its pipeline on a virtual clock, and behind it the gradients."""
    plan, shape, cost = way.plan(), way.pipeline, way.sending
    share = plan.mesh.size() // shape.stages
    names = {
        stage: (f"stage {stage}, {named_devices(devices)}", devices)
        for stage in range(shape.stages)
        for devices in [tuple(range(stage * share, (stage + 1) * share))]
    }
    run = simulate(shape, way.times, cost.seconds, cost.sent, names, cost.basis)
    rows = tuple(_with_tail(row, plan) for row in run.rows)
    timeline = DeviceTimeline(f"{plan.model}: {plan.name}", VIRTUAL, rows, NOTES)
    return replace(plan, seconds=timeline.seconds, bubble=run.bubble, timeline=timeline)


def _with_tail(row: DeviceRow, plan: ParallelPlan) -> DeviceRow:
    at, spans = max(span.end for span in row.spans), list(row.spans)
    for number, each in enumerate(plan.collectives):
        if each.axes == ("dp",):
            cost = each.cost
            name = f"{each.kind} of {each.what} over dp"
            spans.append(DeviceSpan(COMMUNICATION, name, at, at + cost.seconds, cost.sent, cost.basis, number))
            at += cost.seconds
    return replace(row, spans=tuple(spans))


def compared(plan: ParallelPlan, best: ParallelPlan) -> str:
    """Say what makes a plan slower than the best one: the part of its step that grew most."""
    mine, theirs = plan.parts, best.parts
    part = max(mine, key=lambda name: mine[name] - theirs[name])
    more = plan.seconds / best.seconds - 1 if best.seconds else 0.0
    return (
        f"{more:.0%} slower, {in_time(plan.seconds)}: {part} {in_time(mine[part])} instead of {in_time(theirs[part])}"
    )
