"""Costs of collectives: alpha-beta models of domains of devices that are joined by one switch, and of several domains.

A transfer takes alpha + bytes / beta, bytes of the busiest rank.  A library has several protocols, some with a small
alpha and some with a large beta, and takes the fastest: the cost is the least of several such lines, and at least what
the host needs for a launch (`floor`).

Every figure is either fitted to points that were measured or published, and says in which range, or it is NCCL's own
model of its protocols (base + steps * latency, from its tuning constants), and then a cost says "unmeasured".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Collective = Literal["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "permute", "send"]

KIB: Final = 1 << 10
GIB: Final = 1 << 30
_US: Final = 1e-6
_GB: Final = 1e9


@dataclass(frozen=True, slots=True)
class ProtocolLine:
    """One protocol: `alpha` in microseconds, `beta` in GB/s of the bytes that the busiest rank sends."""

    alpha: float
    beta: float


@dataclass(frozen=True, slots=True)
class Points:
    """A model fitted to points, good from `least` to `most` bytes.

    floor: microseconds that it takes at least; source: where the points are from
    """

    lines: tuple[ProtocolLine, ...]
    least: int
    most: int
    source: str
    floor: float = 0.0


@dataclass(frozen=True, slots=True)
class CollectiveCost:
    """The cost of a collective: seconds, bytes that each rank sends, and what the figure rests on.

    basis: "measured", "published" or "unmeasured", and the source
    """

    seconds: float
    sent: float
    basis: str

    @property
    def measured(self) -> bool:
        """Return whether a point near by was measured or published."""
        return not self.basis.startswith("unmeasured")

    def __add__(self, other: "CollectiveCost") -> "CollectiveCost":
        """Return the cost of one after the other, which is as sure as the less sure of them."""
        basis = self.basis if other.measured else other.basis
        return CollectiveCost(self.seconds + other.seconds, self.sent + other.sent, basis)

    def __str__(self) -> str:
        return f"{self.seconds * 1e6:,.1f} us, {self.sent / 2**20:,.2f} MiB a rank ({self.basis})"


@dataclass(frozen=True)
class SwitchDomain:
    """Devices of which every pair is one hop apart.

    size: how many there are; simple: GB/s a device sends with the protocol for large transfers
    memory: GB/s of a device's own memory, which folds run at; products: TFLOP/s of products of bf16 that kernels reach
    capacity: bytes of a device's memory
    points: fitted models, by collective and number of ranks
    """

    name: str
    size: int
    simple: float
    memory: float
    products: float
    capacity: int
    points: Mapping[tuple[Collective, int], Points]

    def cost(self, collective: Collective, ranks: int, size: float) -> CollectiveCost:
        """Return the cost of a collective of `size` bytes, see `sent`."""
        if ranks < 2 or size <= 0:
            return CollectiveCost(0.0, 0.0, "nothing is sent")
        bytes_sent = sent(collective, ranks, size)
        found = self.points.get((collective, ranks))
        lines, floor = self._protocols(collective, ranks), 0.0
        basis = f"unmeasured: NCCL's model of its protocols, {self.name}"
        if found is not None:
            lines, floor = (*found.lines, *(lines if size < found.least else ())), found.floor
            if found.least <= size <= found.most:
                basis = found.source
            else:
                basis = f"unmeasured: {found.source} is of {_size(found.least)} to {_size(found.most)}"
        least = min(line.alpha * _US + bytes_sent / (line.beta * _GB) for line in lines)
        return CollectiveCost(max(least, floor * _US), bytes_sent, basis)

    def _protocols(self, collective: Collective, ranks: int) -> tuple[ProtocolLine, ...]:
        """Return NCCL's own lines: LL moves 4 bytes of flags with 4 of data; Simple waits for whole chunks."""
        steps = {"all_reduce": 2 * (ranks - 1), "all_gather": ranks - 1, "reduce_scatter": ranks - 1}.get(collective, 1)
        return (
            ProtocolLine(_LL_BASE + _LL_STEP * steps, self.simple / 2),
            ProtocolLine(_SIMPLE_BASE + _SIMPLE_STEP * steps, self.simple),
        )


_LL_BASE, _LL_STEP = 6.6, 0.6
_SIMPLE_BASE, _SIMPLE_STEP = 8.4, 3.4
"""Microseconds of rings over NVLink: NCCL's tuning constants (src/graph/tuning.cc)."""
_NETWORK_LATENCY: Final = 14.0


@dataclass(frozen=True)
class Topology:
    """Domains of one kind, and what joins them.

    between: GB/s that one device sends to devices of other domains
    """

    domain: SwitchDomain
    between: float

    def cost(self, collective: Collective, ranks: int, size: float) -> CollectiveCost:
        """Return the cost of a collective over the first `ranks` devices, domain after domain."""
        return self.spread_cost(collective, min(ranks, self.domain.size), -(-ranks // self.domain.size), size)

    def spread_cost(self, collective: Collective, inside: int, domains: int, size: float) -> CollectiveCost:
        """Return the cost of a collective over a group of which at most `inside` devices stand in each of some domains.

        Over several domains: inside each, then across with the share of each device, then inside again.
        """
        if domains == 1:
            return self.domain.cost(collective, inside, size)
        steps = 2 * (domains - 1) if collective == "all_reduce" else domains - 1
        share = size / inside if collective in _SHARED else size
        bytes_sent = sent(collective, domains, share)
        across = CollectiveCost(
            steps * _NETWORK_LATENCY * _US + bytes_sent / (self.between * _GB), bytes_sent,
            "unmeasured: between domains",
        )  # fmt: skip
        if collective == "all_reduce":
            scatter = self.domain.cost("reduce_scatter", inside, size)
            return scatter + across + self.domain.cost("all_gather", inside, size)
        return self.domain.cost(collective, inside, size) + across

    def tree_all_reduce(self, ranks: int, size: float, partials: float = 1.0, widening: float = 1.0) -> CollectiveCost:
        """Return the cost of an all-reduce that moves partial nodes, folds them, and gathers results.

        partials: mean partial nodes a rank; widening: bytes of a partial node's element over those of a result's
        """
        moved = self.cost("all_to_all", ranks, size * partials * widening)
        read = size * partials * widening + size / max(1, ranks)
        fold = CollectiveCost(read / (self.domain.memory * _GB), 0.0, "unmeasured: memory's bandwidth")
        return moved + fold + self.cost("all_gather", ranks, size)


_SHARED: Final = frozenset({"all_reduce", "all_gather", "reduce_scatter"})


def sent(collective: Collective, ranks: int, size: float) -> float:
    """Return the bytes that the busiest rank sends.

    size: bytes of the whole array: what each rank has of an all_reduce, reduce_scatter, all_to_all, and what each gets
        of an all_gather, broadcast, permute, send
    """
    share = (ranks - 1) / ranks
    multiples = {"all_reduce": 2 * share, "all_gather": share, "reduce_scatter": share, "all_to_all": share}
    return size * multiples.get(collective, 1.0)


def _size(size: int) -> str:
    return (
        f"{size // GIB} GiB" if size >= GIB else f"{size // (1 << 20)} MiB" if size >= 1 << 20 else f"{size // KIB} KiB"
    )


_H200: Final = "measured on 2 and 4 H200s, NCCL 2.28.9, no multicast"
_NVL72: Final = "published for an NVL72, 72 ranks (github.com/coreweave/nccl-tests/pull/43)"


def _measured(*lines: tuple[float, float], floor: float = 0.0) -> Points:
    return Points(tuple(ProtocolLine(*line) for line in lines), 8 * KIB, GIB, _H200, floor)


HOST_OF_8: Final = SwitchDomain(
    "host of 8 H200s", 8, 360.0, 4800.0, 660.0, 141 * 10**9,
    {
        ("all_reduce", 2): _measured((11.3, 158.8), (38.6, 315.5)),
        ("all_reduce", 4): _measured((15.1, 217.3), (38.1, 348.4)),
        ("all_gather", 2): _measured((19.6, 30.0), (35.2, 275.4), floor=22.8),
        ("all_gather", 4): _measured((32.3, 314.2), floor=39.6),
        ("reduce_scatter", 2): _measured((22.2, 30.0), (42.9, 268.2), floor=24.4),
        ("reduce_scatter", 4): _measured((32.2, 318.9), floor=44.4),
    },
)  # fmt: skip
"""8 Hopper GPUs on NVLink 4.  The floors are those of launches from Python, one by one.  Products: two thirds of the
989 TFLOP/s of the data sheet."""
NVL72: Final = SwitchDomain(
    "NVL72", 72, 720.0, 8000.0, 1600.0, 186 * 10**9,
    {("all_reduce", 72): Points((ProtocolLine(606.0, 866.0),), GIB // 2, 8 * GIB, _NVL72)},
)  # fmt: skip
"""72 Blackwell GPUs on NVLink 5.  606 us is the ramp of the bandwidth, no latency.  Products: two
thirds of the 2,450 TFLOP/s of the data sheet."""

HOSTS: Final = Topology(HOST_OF_8, 50.0)
RACKS: Final = Topology(NVL72, 50.0)
"""50 GB/s: one network card of 400 Gbit/s a GPU."""


def topology_of(devices: int) -> Topology:
    """Return the topology that a simulated mesh of so many devices has: multiples of 72 are racks, others hosts."""
    return RACKS if devices % NVL72.size == 0 else HOSTS
