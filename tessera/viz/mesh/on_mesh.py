"""The subject of views of graphs on meshes: a function of operators whose arrays lie on one."""

from tessera.core.errors.catalog import NothingToShow
from tessera.graphs.mesh_executable import MeshExecutable
from tessera.viz.operators.captured import captured


def on_mesh(x: object, arguments: tuple[object, ...], view: str) -> MeshExecutable:
    """Return what runs a function on a mesh, for arguments like these; without any, of its last call.

    Raises NothingToShow for what is no function of operators, and for arrays that lie on no mesh; NotCalledYet.
    """
    if isinstance(x, MeshExecutable):
        return x
    found = captured(x, arguments, view)
    if not isinstance(found.executable, MeshExecutable):
        raise NothingToShow(
            f"{found.name} runs on one device: {view}() shows what the devices of a mesh do",
            hint="give arrays that lie on a mesh: dist.tensor(shape, layout, mesh); they may be empty",
        )
    return found.executable
