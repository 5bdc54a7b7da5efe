"""The collectives view: each collective that was inserted into a graph, with shards of its value before and after."""

from dataclasses import dataclass
from html import escape
from typing import Final, cast

from tessera.core.base.plurals import counted
from tessera.core.placement.link_costs import LINKS
from tessera.core.placement.memory import amount
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.sharded_type import ShardedType
from tessera.core.planning.device_timeline import in_time
from tessera.dist.tensors import Tensor
from tessera.graphs.mesh_executable import MeshExecutable
from tessera.lowering.sharding.inserted import InsertedCollective, inserted_collectives
from tessera.viz.base.payload import Json
from tessera.viz.base.view import View
from tessera.viz.mesh.model import ShardedArray
from tessera.viz.mesh.on_mesh import on_mesh
from tessera.viz.mesh.placed import array_model
from tessera.viz.mesh.view import MeshModel, MeshView, Transfer, transfers

_MOST_SHOWN: Final = 8
"""Collectives with pictures; further ones are listed."""
_CELL: Final = "padding:1px 12px 1px 0;border:none;text-align:left"


@dataclass(frozen=True, slots=True)
class CollectiveModel:
    """One collective.

    before, after: types of its value; sent: bytes of the busiest device; line: of the user's text, 0: none
    picture, result: the mesh before, with what moves, and after; None where too many are shown
    """

    name: str
    kind: str
    axes: str
    before: str
    after: str
    sent: float
    seconds: float
    basis: str
    line: int
    why: str
    picture: MeshModel | None
    result: MeshModel | None


@dataclass(frozen=True, slots=True)
class CollectivesModel:
    """The collectives of a graph, in order."""

    title: str
    mesh: str
    collectives: tuple[CollectiveModel, ...]


def collectives(x: object, *arguments: object) -> "CollectivesView":
    """Show the collectives of a function of operators on a mesh: why each is there, what it moves, before and after.

    arguments: arrays on a mesh, stored or not; none: those of the last call
    Raises NothingToShow for what runs on no mesh, NotCalledYet, AmbiguousSharding.
    """
    return CollectivesView(collectives_model(on_mesh(x, arguments, "collectives")))


def collectives_model(executable: MeshExecutable) -> CollectivesModel:
    """Return the view model."""
    sharded, mesh = executable.sharded, executable.mesh
    producers = sharded.graph.producers
    found: list[CollectiveModel] = []
    inserted = [each for each in inserted_collectives(sharded) if mesh.size(each.step.axes) > 1]
    for number, each in enumerate(inserted):
        maker = producers.get(each.value)
        name = each.value.name or (f"%g{maker.ident}" if maker is not None else "an input")
        found.append(_collective(each, name, mesh, pictured=number < _MOST_SHOWN))
    return CollectivesModel(f"collectives of {sharded.graph.name}", str(mesh), tuple(found))


def _collective(each: InsertedCollective, name: str, mesh: Mesh, *, pictured: bool) -> CollectiveModel:
    step = each.step
    sent = step.moved(each.value.type, mesh.size)
    cost = LINKS.cost(step.kind, mesh, step.axes, sent)
    before, after = _array(each.before, name, mesh), _array(each.after, name, mesh)
    picture = result = None
    if pictured and before is not None and after is not None:
        moved = pairwise(each, mesh) if each.step.before.partial else transfers(before, after)
        picture = MeshModel(before.mesh, before, moved)
        result = MeshModel(after.mesh, after)
    user, span = each.user, each.user.span if each.user is not None else None
    why = "the result is asked for so" if user is None else f"{user.op} needs it so"
    return CollectiveModel(
        name, step.kind, ", ".join(step.axes), str(each.before), str(each.after), float(sent), cost.seconds, cost.basis,
        span.line if span is not None else 0, why, picture, result,
    )  # fmt: skip


def _array(kind: ShardedType, name: str, mesh: Mesh) -> ShardedArray | None:
    return array_model(Tensor(kind, mesh, name))


def pairwise(each: InsertedCollective, mesh: Mesh) -> tuple[Transfer, ...]:
    """Return what devices send each other to reduce: a slice of its contribution each, of all_reduce a result each."""
    group_size = mesh.size(each.step.axes)
    times = 2 if each.step.kind == "all_reduce" else 1
    size = times * each.before.bytes_on(mesh) // group_size
    return tuple(
        Transfer(source, destination, size)
        for group in mesh.along(each.step.axes) for source in group for destination in group
        if source != destination
    )  # fmt: skip


class CollectivesView(View[CollectivesModel]):
    """Collectives, each with two pictures of the mesh."""

    kind = "collectives"
    parts = ("mesh",)

    @property
    def title(self) -> str:
        """The function."""
        return self.data.title

    def text(self) -> str:
        """Return a line for each collective."""
        head = f"{self.title} on {self.data.mesh}: {counted(len(self.data.collectives), 'collective')}"
        return "\n".join((head, *(f"  {_line(each)}" for each in self.data.collectives)))

    def plain_html(self) -> str:
        """Return a table of the collectives."""
        rows = [("collective", "of", "before", "after", "sent by a device", "time", "line")]
        rows += [
            (
                f"{each.kind} over {each.axes}", each.name, each.before, each.after, amount(each.sent), _time(each),
                str(each.line or ""),
            )
            for each in self.data.collectives
        ]  # fmt: skip
        cells = ["".join(f'<td style="{_CELL}">{escape(text)}</td>' for text in row) for row in rows]
        body = "".join(f"<tr>{row}</tr>" for row in cells)
        return f'<div><b>{escape(self.title)}</b></div><table style="border-collapse:collapse">{body}</table>'

    def payload(self) -> Json:
        """Return the collectives, each with the payloads of its pictures."""
        return {
            "title": self.title,
            "mesh": self.data.mesh,
            "collectives": [_payload(each) for each in self.data.collectives],
        }


def _payload(each: CollectiveModel) -> Json:
    views = [None if model is None else MeshView(model).payload() for model in (each.picture, each.result)]
    return {
        "head": f"{each.kind} over {each.axes} of {each.name}", "before": each.before, "after": each.after,
        "sent": amount(each.sent), "time": _time(each), "basis": each.basis, "line": each.line, "why": each.why,
        "pictures": cast("Json", views),
    }  # fmt: skip


def _time(each: CollectiveModel) -> str:
    unmeasured = " (unmeasured)" if each.basis.startswith("unmeasured") else ""
    return in_time(each.seconds) + unmeasured


def _line(each: CollectiveModel) -> str:
    line = f", line {each.line}" if each.line else ""
    return (
        f"{each.kind} over {each.axes} of {each.name}: {each.before} -> {each.after}, {amount(each.sent)} a device, "
        f"{_time(each)}{line}"
    )
