"""Cost collectives over the groups of a mesh: how each group lies in physical domains, and what links these have.

One table of links, `topology.py`, for what is resharded, explained, simulated and planned.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Protocol

import numpy as np

from tessera.core.placement.mesh import Mesh, PhysicalDomain
from tessera.core.placement.topology import HOSTS, RACKS, Collective, CollectiveCost, Topology, sent

NOTHING: Final = CollectiveCost(0.0, 0.0, "nothing is sent")
_KINDS: Final[Mapping[str, Collective]] = {
    "all_reduce": "all_reduce", "reduce_scatter": "reduce_scatter", "all_gather": "all_gather",
    "all_to_all": "all_to_all", "broadcast": "broadcast", "permute": "permute", "send": "send",
}  # fmt: skip


class TransferCosts(Protocol):
    """Costs of the steps of a plan."""

    def seconds(self, kind: str, mesh: Mesh, axes: Sequence[str], most: float) -> float:
        """Return the time of a collective over groups along `axes`, in which a device receives at most `most` bytes."""
        ...


@dataclass(frozen=True, slots=True)
class LinkCosts:
    """Costs by the topology of a mesh's own domains.  topology: another one, for all meshes."""

    topology: Topology | None = None

    def cost(self, kind: str, mesh: Mesh, axes: Sequence[str], most: float) -> CollectiveCost:
        """Return the cost of a collective over groups along `axes`, in which a device moves at most `most` bytes.

        Kinds that are no collectives, such as slices, move nothing.  Half of an all_reduce takes no longer than all of
        it: small all_gathers and reduce_scatters were measured with a launch of the host each, all_reduces without.
        """
        collective, ranks = _KINDS.get(kind), mesh.size(axes)
        if collective is None or ranks < 2 or most <= 0:
            return NOTHING
        inside, domains = spread(mesh, tuple(axes))
        size = most / sent(collective, ranks, 1.0)
        topology = self.topology or topology_on(mesh)
        found = topology.spread_cost(collective, inside, domains, size)
        if collective not in ("all_gather", "reduce_scatter"):
            return found
        whole = topology.spread_cost("all_reduce", inside, domains, size)
        return found if found.seconds <= whole.seconds else replace(whole, sent=found.sent)

    def seconds(self, kind: str, mesh: Mesh, axes: Sequence[str], most: float) -> float:
        """See `TransferCosts`."""
        return self.cost(kind, mesh, axes, most).seconds


LINKS: Final = LinkCosts()
"""The default."""


def topology_on(mesh: Mesh) -> Topology:
    """Return the topology of a mesh's domains; devices of domains with an unknown name are joined by the network."""
    return _topology(mesh.domains)


@lru_cache(maxsize=64)
def _topology(domains: tuple[PhysicalDomain, ...]) -> Topology:
    largest = domains[-1] if domains else PhysicalDomain("device", 1)
    for known, name in ((RACKS, "NVL72"), (HOSTS, "host")):
        if largest.name == name:
            return replace(known, domain=replace(known.domain, size=largest.size))
    return replace(HOSTS, domain=replace(HOSTS.domain, name=largest.name, size=1))


@lru_cache(maxsize=4096)
def spread(mesh: Mesh, axes: tuple[str, ...]) -> tuple[int, int]:
    """Return how many devices of a group along `axes` stand in one domain at most, and in how many domains they stand.

    Of several groups that lie otherwise, the most of both.
    """
    size = topology_on(mesh).domain.size
    number = np.array([device.index // size for device in mesh.devices]).reshape(mesh.shape)
    along = [mesh.number(axis) for axis in axes]
    groups = np.moveaxis(number, along, range(-len(along), 0)).reshape(-1, mesh.size(axes))
    inside = domains = 1
    for group in np.unique(np.sort(groups, axis=1), axis=0):
        counts = np.unique(group, return_counts=True)[1]
        inside, domains = max(inside, int(counts.max())), max(domains, len(counts))
    return inside, domains
