"""Index launches: `index_launch(axis="tp")(tp_gemm)(A.parts("tp"), B.parts("tp"), C.parts("tp"))`.

A task for each place along the axis runs on the shards there.  Where a point sees something else than its shard, the
collectives between are inserted; what points write is stored when all of them have ended well, or not at all.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from tessera.api.index_launches.launch_order import Use, ordered
from tessera.api.index_launches.partial_sums import require_sums
from tessera.api.index_launches.point_kernels import point_kernel
from tessera.api.index_launches.point_signature import PointParameter, parameters_of, summed_over
from tessera.api.index_launches.regions import Access, access, point_axes, require_disjoint
from tessera.core.base.plurals import counted
from tessera.core.errors.base import TesseraError
from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import BadIndexLaunch
from tessera.core.placement.devices import ON_GPU, Device
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.placement import Placement
from tessera.core.placement.reshard_plan import ReshardPlan
from tessera.core.placement.sharded_type import ShardedType
from tessera.dist.tensors import Parts, Tensor
from tessera.kernels.kernel import Kernel
from tessera.runtime.driver import driver as door
from tessera.runtime.memory.device_shards import Shard, on_host, store
from tessera.runtime.shards.fold_leaves import identity
from tessera.runtime.shards.point_threads import inside_point, run_points
from tessera.runtime.streams.graph_capture import HostCall, recording

Function = Callable[..., object]


def index_launch(axis: str | Sequence[str]) -> Callable[[Function], "LaunchedOver"]:
    """Return what launches a kernel or a function once for each place along a mesh axis, or along several together.

    Arguments are tensors, their `parts`, or numbers and arrays that are the same for all points.
    """
    axes = (axis,) if isinstance(axis, str) else tuple(axis)
    return lambda function: LaunchedOver(function, axes)


class LaunchedOver:
    """A function that is called with tensors, and runs once a point."""

    def __init__(self, function: Function, axes: tuple[str, ...]) -> None:
        """See `index_launch`."""
        self.function, self.axes = function, axes
        self.name = str(getattr(function, "__name__", "a function"))

    def bound(self, arguments: Sequence[object], keywords: Mapping[str, object]) -> dict[str, object]:
        """Return the arguments by the names of parameters.  Raises BadIndexLaunch."""
        inner = cast("Function", getattr(self.function, "function", self.function))
        try:
            bound = inspect.signature(inner).bind(*arguments, **keywords)
        except TypeError as mistake:
            raise BadIndexLaunch(f"{self.name}: {mistake}", hint="give one argument a parameter") from None
        bound.apply_defaults()
        return dict(bound.arguments)

    def __call__(self, *arguments: object, **keywords: object) -> "LaunchReport":
        """Launch; inside of a capture, whenever the graph is launched.

        Raises BadIndexLaunch, RegionConflict, NotStored, and the mistakes of the function.
        """
        noted = recording()
        try:
            points = _Points(self, arguments, keywords)
            if noted is None:
                return points.launch()
            noted.add(None, HostCall(self.name, CapturedPoints(self, arguments, keywords, points.report)))
            return points.planned()
        except TesseraError as mistake:
            raise at_call(mistake) from None

    def __repr__(self) -> str:
        return f"<{self.name} launched over {', '.join(self.axes)}>"


@dataclass(frozen=True, slots=True, eq=False)
class CapturedPoints:
    """An index launch in a captured graph: of the same tensors each time, whose shards may be others by then."""

    over: LaunchedOver
    arguments: tuple[object, ...]
    keywords: Mapping[str, object]
    report: "LaunchReport"

    def run(self) -> None:
        """Launch anew; what points return is in the report of the capture."""
        self.report.results = _Points(self.over, self.arguments, self.keywords).launch().results

    def cancel(self) -> None:
        """Do nothing: a launch stops its points when it is interrupted."""


@dataclass
class LaunchReport:
    """Report of a launch.

    axes: along which points differ; ranks: of the devices that computed them
    collectives: plans that were inserted, by the parameter; results: what points returned
    """

    name: str
    mesh: Mesh
    axes: tuple[str, ...]
    ranks: tuple[int, ...]
    collectives: list[tuple[str, ReshardPlan]] = field(default_factory=list[tuple[str, ReshardPlan]])
    results: list[object] = field(default_factory=list[object])

    @property
    def points(self) -> int:
        """How many points there are."""
        return len(self.ranks)

    def __repr__(self) -> str:
        simulated = " on simulated devices" if self.mesh.simulated else ""
        head = f"{self.name}: {counted(self.points, 'point')} along {', '.join(self.axes)}{simulated}"
        lines = [f"{name}: {plan}" for name, plan in self.collectives]
        return "\n".join((head, *lines))


class _Points:
    """One launch."""

    def __init__(self, over: LaunchedOver, arguments: Sequence[object], keywords: Mapping[str, object]) -> None:
        self.over = over
        self.given = over.bound(arguments, keywords)
        tensors = {name: _tensor(value, over.axes) for name, value in self.given.items()}
        meshes = [each.mesh for each in tensors.values() if each is not None]
        if not meshes:
            hint = f'give tensors: X = dist.tensor(...), then X.parts("{over.axes[0]}")'
            raise BadIndexLaunch(f"no argument of {over.name} lies on a mesh", hint=hint)
        self.mesh = meshes[0]
        if any(mesh != self.mesh for mesh in meshes):
            raise BadIndexLaunch(f"the arguments of {over.name} lie on several meshes", hint="declare them on one mesh")
        for axis in over.axes:
            self.mesh.number(axis)
        parameters = parameters_of(over.function, self.mesh.axes)
        summed = summed_over(parameters, over.axes)
        self.parameters = {each.name: each for each in parameters}
        self.accesses = [
            access(self.parameters[name], tensor, over.axes, summed.get(name, ()))
            for name, tensor in tensors.items()
            if tensor is not None
        ]
        self.axes = point_axes(self.accesses, over.axes, self.mesh)
        self.ranks = [group[0] for group in self.mesh.along([a for a in self.mesh.axes if a not in self.axes])]
        self._require_legal()
        self.seen: dict[str, Tensor] = {}
        self.results: list[object] = [None] * len(self.ranks)
        self.report = LaunchReport(over.name, self.mesh, self.axes, tuple(self.ranks))

    def _require_legal(self) -> None:
        require_disjoint(self.accesses, self.axes, self.mesh)
        partial = {each.parameter.name: each.partial for each in self.accesses if each.partial}
        if partial and isinstance(self.over.function, Kernel):
            dtypes = {each.parameter.name: each.tensor.type.dtype for each in self.accesses}
            require_sums(self.over.function, tuple(self.parameters.values()), partial, dtypes, self.given)
        on_mesh = {each.parameter.name for each in self.accesses}
        for name, value in self.given.items():
            parameter = self.parameters.get(name)
            if parameter is not None and parameter.writes and name not in on_mesh and len(self.ranks) > 1:
                kind = type(value).__name__
                raise BadIndexLaunch(
                    f"{name} is written by {counted(len(self.ranks), 'point')}, and is a {kind} that lies on no mesh",
                    hint="give a tensor: dist.tensor(...)",
                )

    def launch(self) -> LaunchReport:
        """Run, or begin to."""
        for each in self.accesses:
            if each.parameter.privilege == "read" and not each.tensor.uses:
                each.tensor.shard(0)  # says at once where nothing is stored
        self.planned()
        uses = [Use(each.tensor, each.parameter.privilege) for each in self.accesses]
        ordered(uses, self._compute, self._commit)
        return self.report

    def planned(self) -> LaunchReport:
        """Return the report of the collectives alone, before anything runs."""
        self.plans = {each.parameter.name: self._plan(each) for each in self.accesses}
        for each in self.accesses:
            there, back = self.plans[each.parameter.name]
            for plan in (there, back):
                if plan is not None and plan.steps:
                    self.report.collectives.append((each.parameter.name, plan))
        return self.report

    def _plan(self, each: Access) -> tuple[ReshardPlan | None, ReshardPlan | None]:
        """Return the collectives before and after the points."""
        seen = self._seen_placement(each)
        tensor = each.tensor
        old = each.parameter.privilege == "read" or (each.parameter.privilege == "update" and tensor.stored)
        there = tensor.plan(seen) if old else None
        if not each.parameter.writes:
            return there, None
        return there, Tensor(ShardedType(tensor.type.dtype, tensor.shape, seen), self.mesh).plan(tensor.placement)

    def _seen_placement(self, each: Access) -> Placement:
        partial = each.partial
        if each.parameter.privilege == "reduce_sum":
            partial = tuple(axis for axis in self.axes if axis not in each.needed.axes)
        return Placement(each.needed.splits, partial).normal(each.tensor.shape, self.mesh)

    def _compute(self) -> None:
        for each in self.accesses:
            self.seen[each.parameter.name] = self._prepare(each)
        point = self._point_function()
        values = [self._values_at(rank) for rank in self.ranks]

        def run(number: int) -> Callable[[], None]:
            def call() -> None:
                rank = self.ranks[number]
                with inside_point(self._point_name(rank)), _inside(self.mesh.devices[rank]):
                    self.results[number] = point(*values[number][0], **values[number][1])

            return call

        points = [run(number) for number in range(len(self.ranks))]
        if self._launches_only():
            for begin in points:
                begin()
        else:
            run_points(points)
        if any(each is not None for each in self.results):
            self.report.results = self.results

    def _point_name(self, rank: int) -> str:
        """Return what a mistake says of a point: its coordinates and its device."""
        coordinates = dict(zip(self.mesh.axes, self.mesh.coordinates(rank), strict=True))
        along = ", ".join(f"{axis}={coordinates[axis]}" for axis in self.axes)
        return f"point {along} of {self.over.name}, on {self.mesh.devices[rank]}"

    def _launches_only(self) -> bool:
        """Return whether points do nothing but launch on GPUs, which go on side by side without threads."""
        on_gpus = all(self.mesh.devices[rank].kind == ON_GPU for rank in self.ranks)
        return on_gpus and isinstance(self.over.function, Kernel)

    def _prepare(self, each: Access) -> Tensor:
        """Return the tensor that points see: their own memory where they write."""
        seen, tensor = self._seen_placement(each), each.tensor
        if each.parameter.privilege == "read":
            return tensor if seen == tensor.placement else tensor.reshard(seen)
        if tensor.stored and (each.parameter.privilege == "update" or self._may_write_parts(each)):
            return tensor.reshard(seen)
        made = Tensor(ShardedType(tensor.type.dtype, tensor.shape, seen), self.mesh, tensor.name)
        made.allocate()
        if each.parameter.privilege == "reduce_sum":
            nothing = identity("sum", tensor.dtype)
            for rank in self.ranks:
                store(made.shard(rank), nothing)
        return made

    def _may_write_parts(self, each: Access) -> bool:
        """Return whether what a point writes may be less than all: of a function of the host nothing is known."""
        compiled = isinstance(self.over.function, Kernel) or hasattr(self.over.function, "function")
        return each.parameter.privilege == "write" and not compiled

    def _point_function(self) -> Function:
        function = self.over.function
        if not isinstance(function, Kernel):
            return function
        shapes = {name: seen.map for name, seen in self.seen.items()}
        partial = {each.parameter.name for each in self.accesses if each.partial}
        return point_kernel(function, tuple(self.parameters.values()), self.mesh, shapes, partial).__call__

    def _values_at(self, rank: int) -> tuple[list[object], dict[str, object]]:
        values: dict[str, object] = {}
        for name, value in self.given.items():
            seen = self.seen.get(name)
            values[name] = value if seen is None else _view(seen.shard(rank), self.parameters[name])
        return list(values.values()), {}

    def _commit(self) -> None:
        for each in self.accesses:
            if not each.parameter.writes:
                continue
            made = self.seen[each.parameter.name]
            result = made if made.placement == each.tensor.placement else made.reshard(each.tensor.placement)
            adds = each.parameter.privilege == "reduce_sum" and each.tensor.stored
            old = {rank: each.tensor.shard(rank) for rank in range(self.mesh.size())} if adds else {}
            for rank in range(self.mesh.size()):
                shard = result.shard(rank)
                each.tensor.put(rank, _sum(old[rank], shard) if adds else shard)


def _sum(old: Shard, added: Shard) -> Shard:
    before = on_host(old)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(before + on_host(added), before.dtype)


def _inside(device: Device) -> AbstractContextManager[None]:
    """Let what a point makes lie on its device."""
    return door.driver().inside(device.index) if device.kind == ON_GPU else nullcontext()


def _view(shard: Shard, parameter: PointParameter) -> Shard:
    """Return a shard as a point gets it: what is only read cannot be written."""
    if parameter.writes or not isinstance(shard, np.ndarray):
        return shard
    view = on_host(shard).view()
    view.flags.writeable = False
    return view


def _tensor(value: object, axes: tuple[str, ...]) -> Tensor | None:
    if isinstance(value, Parts):
        missing = [axis for axis in value.axes if axis not in axes]
        if missing and set(value.axes) != set(value.whole.mesh.axes):
            what = f"parts along {', '.join(value.axes)}, in a launch over {', '.join(axes)}"
            over = ", ".join(f'"{axis}"' for axis in value.axes)
            raise BadIndexLaunch(
                what, hint=f"write .parts({', '.join(repr(a) for a in axes)}), or launch over ({over})"
            )
        return value.whole
    return value if isinstance(value, Tensor) else None
