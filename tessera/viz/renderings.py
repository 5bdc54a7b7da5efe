"""Text and HTML of Tessera's objects in notebooks, by class: `display.py` loads it with the first one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, Final, TypeAlias

from tessera.core.compilation import Compilation
from tessera.core.errors.base import TesseraError, render
from tessera.core.listing import Listing
from tessera.core.planning.device_timeline import DeviceTimeline
from tessera.core.planning.parallel_plan import ParallelPlan, PlanSearch
from tessera.core.resources import ResourceReport
from tessera.dist.meshes import Mesh
from tessera.dist.tensors import Tensor
from tessera.kernels.kernel import Kernel
from tessera.lowering.cuda.resources import resource_report
from tessera.profiling.mesh_profile import MeshProfile
from tessera.profiling.results import Profile
from tessera.session.compiled import Compiled, IrText
from tessera.tuning.background import BackgroundSearch
from tessera.tuning.results import Tuning
from tessera.viz.error_view import error_html
from tessera.viz.ir.explorer_view import Explorer, model_of
from tessera.viz.kernel_view import kernel_html, kernel_text
from tessera.viz.mesh.devices_view import devices
from tessera.viz.mesh.placed import array_model
from tessera.viz.mesh.plans_view import parallel
from tessera.viz.mesh.view import mesh_view
from tessera.viz.profile.timeline import timeline
from tessera.viz.resources_view import resources_html, resources_text
from tessera.viz.tuning.table import tuning_text
from tessera.viz.tuning.view import dashboard

Bundle = dict[str, str]
_PRE: Final = "white-space:pre;overflow:auto;max-height:32em;font-size:12px;line-height:1.4"


def compiled_html(compiled: Compiled | Compilation, opened: tuple[str, ...] = ()) -> str:
    """Return the IR explorer of a compilation, with the levels `opened` first; of GPU code, its resources below."""
    viewer = Explorer(model_of(compiled), opened).html()
    if compiled.artifact.resources.registers is None:
        return viewer
    found = compiled.resources() if isinstance(compiled, Compiled) else resource_report(compiled.artifact)
    report = resources_html(found)
    return f"{viewer}<details><summary>resources: registers, occupancy, instructions</summary>{report}</details>"


def compiled_text(compiled: Compiled | Compilation) -> str:
    """Return one line: the kernel, its target, and the levels it went through."""
    artifact = compiled.artifact
    levels = compiled.levels if isinstance(compiled, Compiled) else _levels(compiled)
    return f"{artifact.name} for {artifact.target.name}: {', '.join(levels) or 'no level was looked at'}"


def _levels(compilation: Compilation) -> list[str]:
    return list(dict.fromkeys(listing.level for listing in compilation.listings))


def compiled_bundle(compiled: Compiled | Compilation, opened: tuple[str, ...] = ()) -> Bundle:
    """Return both, ready to be displayed."""
    return {"text/plain": compiled_text(compiled), "text/html": compiled_html(compiled, opened)}


def listing_html(listing: Listing) -> str:
    """Return the text of one level, scrolling."""
    return f'<pre style="{_PRE}"><code>{escape(listing.text)}</code></pre>'


def tensor_html(tensor: Tensor) -> str:
    """Return a tensor's text, and below it its shards on the mesh where they are blocks."""
    head = f'<pre style="{_PRE}">{escape(repr(tensor))}</pre>'
    return head if array_model(tensor) is None else head + mesh_view(tensor).html()


def mesh_profile_html(profile: MeshProfile) -> str:
    """Return the operators' times as text, and below them what each device did when."""
    return f'<pre style="{_PRE}">{escape(str(profile))}</pre>' + devices(profile).html()


Show: TypeAlias = Callable[[Any], str]  # of an object of the class that it is registered for


@dataclass(frozen=True, slots=True)
class Rendering:
    """The text and the HTML of the objects of one class."""

    text: Show
    html: Show


RENDERINGS: Final[Mapping[type, Rendering]] = {
    Kernel: Rendering(kernel_text, kernel_html),
    Tuning: Rendering(tuning_text, lambda tuning: dashboard(tuning).html()),
    BackgroundSearch: Rendering(repr, lambda search: dashboard(search).html()),
    Profile: Rendering(lambda found: timeline(found).text(), lambda found: timeline(found).html()),
    Compiled: Rendering(compiled_text, compiled_html),
    Compilation: Rendering(compiled_text, compiled_html),
    Listing: Rendering(lambda listing: listing.text, listing_html),
    IrText: Rendering(str, lambda text: listing_html(text.listing)),
    ResourceReport: Rendering(resources_text, resources_html),
    TesseraError: Rendering(render, error_html),
    Mesh: Rendering(repr, lambda mesh: mesh_view(mesh).html()),
    Tensor: Rendering(repr, tensor_html),
    DeviceTimeline: Rendering(lambda found: devices(found).text(), lambda found: devices(found).html()),
    MeshProfile: Rendering(lambda found: found.text(), mesh_profile_html),
    PlanSearch: Rendering(str, lambda search: parallel(search).html()),
    ParallelPlan: Rendering(str, lambda plan: parallel(plan).html()),
}
