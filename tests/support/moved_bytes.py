"""The bytes that a device sends in collectives: one formula for graphs of ours and for compiled HLO of XLA.

Of n devices that take part, with r bytes of result on each:

    all_reduce      2 r (n - 1) / n     as a reduce_scatter and an all_gather
    all_gather        r (n - 1) / n
    reduce_scatter    r (n - 1)
    all_to_all        r (n - 1) / n
    permute           r                 of the devices that send to another one
    slice             0                 a device keeps its part of what it has
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, cast

from tessera.core.graph.graph import Graph

SIZES: Final = {"f64": 8, "f32": 4, "bf16": 2, "f16": 2, "s64": 8, "s32": 4, "u32": 4, "s8": 1, "u8": 1, "pred": 1}
COLLECTIVE: Final = re.compile(
    r"= (.*?) (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute|collective-broadcast)(\S*?)\((.*)"
)


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective.  size: the bytes of its result on a device; devices: that take part; share: that send at all."""

    kind: str
    size: int
    devices: int
    share: Fraction = Fraction(1)

    @property
    def sent(self) -> Fraction:
        n = self.devices
        return self.share * self.size * {
            "all_reduce": Fraction(2 * (n - 1), n), "all_gather": Fraction(n - 1, n), "reduce_scatter": n - 1,
            "all_to_all": Fraction(n - 1, n), "permute": 1, "slice": 0,
        }[self.kind]  # fmt: skip


def of_graph(graph: Graph) -> Iterator[Collective]:
    """Yield the collectives of the graph of one device."""
    for node in graph.nodes:
        assert not node.graphs, "collectives of loops are not counted"
        if node.op == "collective":
            kind, parts = (node.attributes[name] for name in ("kind", "parts"))
            yield Collective(str(kind), node.result.type.bytes, cast("int", parts))


def of_hlo(text: str, devices: int) -> Iterator[Collective]:
    """Yield the collectives of compiled HLO, all of which its entry has to hold: those of loops run more than once."""
    entry = text[text.index("\nENTRY") :]
    assert len(COLLECTIVE.findall(entry)) == len(COLLECTIVE.findall(text))
    for shapes, kind, more, attributes in COLLECTIVE.findall(entry):
        assert not more, f"{kind}{more} has other results than {kind}"
        size = sum(
            SIZES[dtype] * math.prod(map(int, filter(None, dims.split(","))))
            for dtype, dims in re.findall(r"(\w+)\[([\d,]*)\]", shapes)
        )
        if kind == "collective-permute":
            pairs = re.findall(
                r"\{(\d+),(\d+)\}", attributes.partition("source_target_pairs={")[2].partition("}}")[0] + "}"
            )
            yield Collective("permute", size, devices, Fraction(sum(a != b for a, b in pairs), devices))
        else:
            yield Collective(kind.replace("-", "_"), size, group_size(attributes, devices))


def group_size(attributes: str, devices: int) -> int:
    """Return how many devices are a group: {{0,1},{2,3}}, [4,2]<=[8], mesh['a'=2,'b'=4] {'b'}, or {}, which is all."""
    if found := re.search(r"replica_groups=\{\{([\d,]+)\}", attributes):
        return len(found[1].split(","))
    if found := re.search(r"replica_groups=\[\d+,(\d+)\]", attributes):
        return int(found[1])
    if found := re.search(r"replica_groups=mesh\[(.*?)\][^{]*\{(.*?)\}", attributes):
        extents = {axis: int(size) for axis, size in re.findall(r"('\w+')=(\d+)", found[1])}
        return math.prod(extents[axis] for axis in found[2].split(","))
    assert "replica_groups={}" in attributes, attributes
    return devices
