"""Timelines of graphs on meshes: on a virtual clock from prices, or in the host's time from a run that was watched.

On the virtual clock a device computes and communicates at once: a kernel waits for collectives that it reads from, and
no others.
"""

import time
from collections.abc import Callable, Mapping
from typing import Final, cast

from tessera.core.graph.graph import Node, Value
from tessera.core.placement.link_costs import LINKS
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.topology import CollectiveCost
from tessera.core.planning.device_timeline import (
    COMMUNICATION,
    COMPUTE,
    HOST,
    VIRTUAL,
    DeviceRow,
    DeviceSpan,
    DeviceTimeline,
    named_devices,
)
from tessera.core.schedule.plan import Group, Plan

PICO: Final = 10**12
"""Prices are in picoseconds."""
_NOTES: Final = {
    VIRTUAL: (
        "kernels take what the planner's reference machine takes, an H200",
        "a device computes and communicates at once, where nothing waits",
    ),
    HOST: (
        "all devices are turns of one process: each kernel has all threads of the CPU",
        "collectives move and fold in this process's memory",
    ),
}  # fmt: skip


def collective_of(group: Group) -> Node | None:
    """Return the collective that a group is; None where it is a kernel, or a call."""
    first = group.members[0]
    return first if first.op == "collective" else None


def named(group: Group) -> str:
    """Return the name of a kernel, or what a collective does: `all_reduce over tp of y`."""
    node = collective_of(group)
    if node is None:
        return group.name
    axes = ", ".join(cast("tuple[str, ...]", node.attributes["axes"]))
    what = node.operands[0].name or node.result.name or f"%g{node.ident}"
    return f"{node.attributes['kind']} over {axes} of {what}"


def cost_of(node: Node, mesh: Mesh) -> CollectiveCost:
    """Return the cost of a collective of a graph of one device."""
    kind, axes = str(node.attributes["kind"]), cast("tuple[str, ...]", node.attributes["axes"])
    parts, result = mesh.size(axes), node.result.type.bytes
    moved: Mapping[str, float] = {
        "all_reduce": 2 * (parts - 1) / parts * result,
        "reduce_scatter": (parts - 1) * result,
        "all_gather": (parts - 1) / parts * result,
        "all_to_all": (parts - 1) / parts * result,
    }
    return LINKS.cost(kind, mesh, axes, moved.get(kind, float(result)))


def planned_timeline(plan: Plan, mesh: Mesh, seconds: Callable[[Group], float]) -> DeviceTimeline:
    """Return the timeline of a plan on a virtual clock.  seconds: of each kernel."""
    ready: dict[Value, float] = {}
    free = {COMPUTE: 0.0, COMMUNICATION: 0.0}
    spans: list[DeviceSpan] = []
    for number, group in enumerate(plan.groups):
        node = collective_of(group)
        kind = COMPUTE if node is None else COMMUNICATION
        cost = None if node is None else cost_of(node, mesh)
        taken = seconds(group) if cost is None else cost.seconds
        begin = max([free[kind], *(ready.get(plan.root(value), 0.0) for value in group.inputs)])
        free[kind] = begin + taken
        ready.update(dict.fromkeys(map(plan.root, group.outputs), free[kind]))
        if cost is None:
            spans.append(DeviceSpan(kind, named(group), begin, free[kind], operator=number))
        elif cost.seconds:
            spans.append(DeviceSpan(kind, named(group), begin, free[kind], cost.sent, cost.basis, number))
    rows = tuple(DeviceRow(named_devices((rank,)), (rank,), tuple(spans)) for rank in range(mesh.size()))
    return DeviceTimeline(f"{plan.graph.name} on {mesh}", VIRTUAL, rows, _NOTES[VIRTUAL])


class MeshWatch:
    """Notes when steps end; each begins where the one before ended."""

    def __init__(self) -> None:
        self.steps: list[tuple[Group, int | None, float, float]] = []
        self._last = 0.0

    def begin(self) -> None:
        """Start the clock."""
        self._last = time.perf_counter()

    def tell(self, group: Group, rank: int | None) -> None:
        """Note that a device is done with a group; None: all are."""
        now = time.perf_counter()
        self.steps.append((group, rank, self._last, now))
        self._last = now


def watched_timeline(plan: Plan, mesh: Mesh, watch: MeshWatch) -> DeviceTimeline:
    """Return the timeline of a run that was watched, in the host's seconds since its beginning."""
    first = watch.steps[0][2] if watch.steps else 0.0
    spans: list[list[DeviceSpan]] = [[] for _ in range(mesh.size())]
    numbers = {group: number for number, group in enumerate(plan.groups)}
    for group, rank, begin, end in watch.steps:
        node = collective_of(group)
        cost = None if node is None else cost_of(node, mesh)
        kind = COMPUTE if cost is None else COMMUNICATION
        sent = 0.0 if cost is None else cost.sent
        basis = "" if cost is None else "host: measured in this process"
        made = DeviceSpan(kind, named(group), begin - first, end - first, sent, basis, numbers[group])
        for each in range(mesh.size()) if rank is None else (rank,):
            spans[each].append(made)
    rows = tuple(DeviceRow(named_devices((rank,)), (rank,), tuple(each)) for rank, each in enumerate(spans))
    return DeviceTimeline(f"{plan.graph.name} on {mesh}", HOST, rows, _NOTES[HOST])
