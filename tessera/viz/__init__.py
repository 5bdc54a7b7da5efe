"""Views of IR, schedules, profiles, searches and meshes in notebooks; nothing below knows of them.

It may import everything but `ops`.  The functions here are the public ones; each returns a view (`base.view.View`) that
shows itself as a cell's last value, `.save("page.html")`s, and is live as `.widget()`.
"""

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tessera.viz.diffs.film import film as film
    from tessera.viz.diffs.view import diff as diff
    from tessera.viz.editing.view import edit as edit
    from tessera.viz.graph.view import dataflow as dataflow
    from tessera.viz.graph.view import graph_view as graph_view
    from tessera.viz.ir.explorer_view import explore as explore
    from tessera.viz.layouts.view import layout as layout
    from tessera.viz.mesh.collectives_view import collectives as collectives
    from tessera.viz.mesh.devices_view import devices as devices
    from tessera.viz.mesh.plans_view import parallel as parallel
    from tessera.viz.mesh.view import mesh_view as mesh_view
    from tessera.viz.plans.fusion_view import fusion as fusion
    from tessera.viz.plans.memory_view import memory as memory
    from tessera.viz.profile.advice_view import explain as explain
    from tessera.viz.profile.heatmap import heatmap as heatmap
    from tessera.viz.profile.roofline import roofline as roofline
    from tessera.viz.profile.schedule import schedule as schedule
    from tessera.viz.profile.timeline import timeline as timeline
    from tessera.viz.reduction_tree import explain_reduction as explain_reduction
    from tessera.viz.tile_debugger.view import tiles as tiles
    from tessera.viz.tuning.view import dashboard as dashboard
    from tessera.viz.workbenches.view import workbench as workbench

_DEFINED_IN: Final = {
    "collectives": "tessera.viz.mesh.collectives_view",
    "dashboard": "tessera.viz.tuning.view",
    "dataflow": "tessera.viz.graph.view",
    "devices": "tessera.viz.mesh.devices_view",
    "diff": "tessera.viz.diffs.view",
    "edit": "tessera.viz.editing.view",
    "explain": "tessera.viz.profile.advice_view",
    "explain_reduction": "tessera.viz.reduction_tree",
    "explore": "tessera.viz.ir.explorer_view",
    "film": "tessera.viz.diffs.film",
    "fusion": "tessera.viz.plans.fusion_view",
    "graph_view": "tessera.viz.graph.view",
    "heatmap": "tessera.viz.profile.heatmap",
    "layout": "tessera.viz.layouts.view",
    "memory": "tessera.viz.plans.memory_view",
    "mesh_view": "tessera.viz.mesh.view",
    "parallel": "tessera.viz.mesh.plans_view",
    "roofline": "tessera.viz.profile.roofline",
    "schedule": "tessera.viz.profile.schedule",
    "tiles": "tessera.viz.tile_debugger.view",
    "timeline": "tessera.viz.profile.timeline",
    "workbench": "tessera.viz.workbenches.view",
}
"""Modules of the public functions, imported on first use; `explain_reduction` returns a picture, the others views."""

__all__ = [
    "collectives",
    "dashboard",
    "dataflow",
    "devices",
    "diff",
    "edit",
    "explain",
    "explore",
    "film",
    "fusion",
    "graph_view",
    "heatmap",
    "layout",
    "memory",
    "mesh_view",
    "parallel",
    "roofline",
    "schedule",
    "tiles",
    "timeline",
    "workbench",
]


def __getattr__(name: str) -> object:
    if name not in _DEFINED_IN:
        raise AttributeError(f"module 'tessera.viz' has no attribute {name!r}", name=name)
    value: object = getattr(importlib.import_module(_DEFINED_IN[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
