"""`dist.plan(x, layout)`: how a tensor gets to another layout; `dist.plan.search(model, mesh)`: how a model is spread."""

from collections.abc import Iterable
from typing import Final

from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import BadModel
from tessera.core.placement.link_costs import topology_on
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.placement import Placement
from tessera.core.placement.reshard_plan import ReshardPlan
from tessera.core.placement.shard_spec import Distribution
from tessera.core.planning.described_transformer import Transformer
from tessera.core.planning.parallel_plan import PlanSearch
from tessera.dist.tensors import Tensor
from tessera.performance.parallel.graph_search import GraphSource, search_graph
from tessera.performance.parallel.search import search_transformer


class Planning:
    """The type of `dist.plan`: called with a tensor and a layout it plans a change of layout."""

    def __call__(self, x: Tensor, layout: Distribution | Placement) -> ReshardPlan:
        """Return the collectives that bring a tensor to another layout, with bytes and estimated times."""
        return x.plan(layout)

    def search(
        self, model: Transformer | GraphSource, mesh: Mesh | int, *arguments: object,
        batch: str | Iterable[str] = (), memory: int | None = None,
    ) -> PlanSearch:  # fmt: skip
        """Propose dp x tp x pp for a model on the devices of a mesh: what fits, ranked, and why others were rejected.

        model: a `dist.Transformer`, or what `@graph.module` or `tessera.grad` make, with examples of its arguments
        mesh: a mesh, whose devices are used in their order, or a number of simulated devices
        arguments: of a function: arrays, or types in words: "bf16[4096, 8192]"
        batch: names of the inputs whose first dimension is the batch, which dp cuts; by default the first one
        memory: bytes of a device; by default the mesh's, else that of its kind of device

        Raises NoPlanFits where no way fits, with what would; BadModel where arguments are missing.
        """
        place = Mesh.of("dp", range(mesh)) if isinstance(mesh, int) else mesh
        capacity = memory or place.memory or topology_on(place).domain.capacity
        if isinstance(model, Transformer):
            return search_transformer(model, place, capacity)
        if not isinstance(model, GraphSource):  # pyright: ignore[reportUnnecessaryIsInstance] - users give anything
            hint = "give a dist.Transformer, or what @graph.module makes"
            raise at_call(BadModel(f"{type(model).__name__} is no model that can be planned", hint=hint))
        if not arguments:
            hint = 'add examples of its arguments: dist.plan.search(f, mesh, "bf16[4096, 8192]", ...)'
            raise at_call(BadModel("a function is planned for the shapes of its arguments", hint=hint))
        names = (batch,) if isinstance(batch, str) else tuple(batch)
        return search_graph(model, place, arguments, names, capacity)


plan: Final = Planning()
"""The public name."""
