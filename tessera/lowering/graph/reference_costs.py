"""Prices of graphs on the reference machine: one frozen table, which no target, timing or machine changes.

The form of a graph must be the same wherever it runs, so what it would cost is asked of one machine alone, rounded
figures of one H200: copies at 4.2 TB/s, products of 16-bit floats at 700 TFLOP/s, 2 microseconds for a kernel
(docs/performance.md has what was measured).  Prices are whole picoseconds: sums do not depend on their order.

A graph is divided into kernels as the planner would, in outline: a product is a kernel with the maps of its result; maps
and reductions that use each other are one; what one kernel makes for another is written and read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from tessera.core.base.dtypes import DType
from tessera.core.graph.expr import Apply, walk
from tessera.core.graph.index_maps import IndexMap, is_reshape
from tessera.lowering.graph.contractions import contraction, extents_of
from tessera.lowering.graph.egraph import INPUT, RESULT, EGraph, ENode

VERSION: Final = 1
"""Counts changes of the figures below: plans of other versions may be others."""
LAUNCH: Final = 2_000_000
"""Picoseconds for a kernel to start and end."""
BYTES_PER_SECOND: Final = 4_200_000_000_000
PRODUCTS: Final[Mapping[str, int]] = {
    "f64": 60_000_000_000_000, "f32": 50_000_000_000_000, "tf32": 350_000_000_000_000, "f16": 700_000_000_000_000,
    "bf16": 700_000_000_000_000, "fp8_e4m3": 1_300_000_000_000_000, "fp8_e5m2": 1_300_000_000_000_000,
}  # fmt: skip
"""Operations a second of products by the type of their operands, or the type that these are rounded to."""
ELEMENTWISE: Final = 20_000_000_000_000
"""Operations a second of maps and reductions."""
_PICO: Final = 1_000_000_000_000


@dataclass(frozen=True, slots=True, order=True)
class Price:
    """What a graph costs on the reference machine.

    flops: of its products; bytes: that its kernels read and write
    """

    picoseconds: int
    kernels: int
    flops: int
    bytes: int

    def __str__(self) -> str:
        time = self.picoseconds / 1e6
        return f"{time:.2f} us, {self.kernels} kernels, {self.flops:,} FLOPs, {self.bytes:,} bytes"


def _moving(amount: int) -> int:
    return amount * _PICO // BYTES_PER_SECOND


def product_flops(egraph: EGraph, node: ENode) -> int:
    """Return the multiplications and additions of a contraction."""
    return 2 * prod(extents_of(egraph, contraction(node)).values())


def _multiplying(egraph: EGraph, node: ENode) -> int:
    rate = PRODUCTS.get(_operand_type(egraph, node), PRODUCTS["f32"])
    return product_flops(egraph, node) * _PICO // rate


def _operand_type(egraph: EGraph, node: ENode) -> str:
    compute = str(node.attribute("compute") or "")
    return compute or egraph.type_of(node.kids[0]).dtype.name


def _computing(egraph: EGraph, node: ENode, number: int) -> int:
    """Return the time of the arithmetic of a map or a reduction."""
    if node.op == "reduce":
        return egraph.type_of(node.kids[0]).size * _PICO // ELEMENTWISE
    operations = sum(1 for each in walk(node.body) if isinstance(each, Apply)) if _is_expr(node) else 0
    return operations * egraph.type_of(number).size * _PICO // ELEMENTWISE + 1


def _is_expr(node: ENode) -> bool:
    return node.op == "map" and node.body is not None and not isinstance(node.body, IndexMap)


def node_price(egraph: EGraph, node: ENode, number: int) -> int:
    """Return an estimate of one node alone, for the first choice of nodes: what is made by kernels ends in registers."""
    if node.op in (INPUT, RESULT, "view", "iota") or not node.kids:
        return 0
    moved = _moving(sum(egraph.type_of(kid).bytes for kid in node.kids) + egraph.type_of(number).bytes)
    match node.op:
        case "contract":
            return LAUNCH + max(_multiplying(egraph, node), moved)
        case "map":
            made = any(_in_registers(egraph, kid, number) for kid in node.kids)
            return _computing(egraph, node, number) + (moved // 8 if made else moved + LAUNCH // 2)
        case _:
            return LAUNCH + moved


def _in_registers(egraph: EGraph, kid: int, number: int) -> bool:
    """Return whether a map is computed where one of its operands is made."""
    made = any(node.op in ("contract", "reduce", "map") and node.kids for node in egraph.members[egraph.find(kid)])
    return made and 2 * egraph.type_of(kid).size >= egraph.type_of(number).size


class _Kernels:
    """Divides a chosen graph into kernels.  leaders: of each class, its kernel's first"""

    def __init__(self, egraph: EGraph, order: Sequence[int], choice: Mapping[int, ENode]) -> None:
        self.egraph, self.order, self.choice = egraph, order, choice
        self.leaders = {number: number for number in order}
        self.products = {number for number in order if choice[number].op == "contract"}
        for number in order:
            self._join(number, choice[number])

    def find(self, number: int) -> int:
        while self.leaders[number] != number:
            number = self.leaders[number]
        return number

    def _join(self, number: int, node: ENode) -> None:
        """Let a map or a reduction be part of the kernels that make its operands, where it can be."""
        if node.op not in ("map", "reduce"):
            return
        kids = [kid for kid in node.kids if self.choice[kid].op in ("map", "reduce", "contract") and self.choice[kid].kids]
        size = self.egraph.type_of(number).size
        if node.op == "map":
            for kid in kids:
                if self.find(kid) in self.products and self.egraph.type_of(kid).size == size:
                    self.leaders[self.find(number)] = self.find(kid)
                    return
        for kid in kids:
            mine, theirs = self.find(number), self.find(kid)
            if theirs not in self.products and mine != theirs:
                self.leaders[mine] = theirs

    def source(self, number: int) -> int:
        """Return the class in memory that views of views read."""
        while self.choice[number].op == "view":
            number = self.choice[number].kids[0]
        return number

    def is_free(self, number: int) -> bool:
        """Return whether a class is there without a kernel: arguments, numbers, indices, views."""
        node = self.choice[number]
        return node.op in (INPUT, RESULT, "view", "iota") or not node.kids


def price(egraph: EGraph, order: Sequence[int], choice: Mapping[int, ENode], roots: Sequence[int]) -> Price:
    """Return the price of a chosen graph; order: its classes, each after those that it is made of."""
    kernels = _Kernels(egraph, order, choice)
    reads: dict[tuple[int, int], int] = {}
    written: dict[int, int] = {}
    flops = moved = time = 0
    work: dict[int, int] = {}
    for number in order:
        node = choice[number]
        if kernels.is_free(number):
            continue
        home = kernels.find(number)
        work.setdefault(home, 0)
        if node.op == "contract":
            flops += product_flops(egraph, node)
            work[home] += _multiplying(egraph, node)
        elif node.op in ("map", "reduce"):
            work[home] += _computing(egraph, node, number)
        for kid in node.kids:
            _read(kernels, kid, home, reads, written)
    for root in dict.fromkeys(roots):
        flat = kernels.source(root)
        body = choice[root].body
        if flat != root and isinstance(body, IndexMap) and not is_reshape(body, egraph.type_of(choice[root].kids[0]).shape):
            work[-1 - root] = 0
            _read(kernels, root, -1 - root, reads, written)
            moved += egraph.type_of(root).bytes
            time += _moving(egraph.type_of(root).bytes)
        elif not kernels.is_free(flat):
            written[flat] = egraph.type_of(flat).bytes
    traffic: dict[int, int] = dict.fromkeys(work, 0)
    for (home, _), size in reads.items():
        traffic[home] += size
    for number, size in written.items():
        traffic[kernels.find(number)] += size
    moved += sum(traffic.values())
    time += sum(LAUNCH + max(work[home], _moving(traffic[home])) for home in work)
    return Price(time, len(work), flops, moved)


def _read(
    kernels: _Kernels, kid: int, home: int, reads: dict[tuple[int, int], int], written: dict[int, int]
) -> None:  # fmt: skip
    """Note that a kernel reads a class, and that another one writes it."""
    source = kernels.source(kid)
    node = kernels.choice[source]
    if not node.kids and node.op != INPUT:
        return
    if kernels.is_free(source):
        reads[home, kid] = kernels.egraph.type_of(kid).bytes
    elif kernels.find(source) != home or source != kid:
        reads[home, kid] = kernels.egraph.type_of(kid).bytes
        written[source] = kernels.egraph.type_of(source).bytes


def rate_of(dtype: DType) -> int:
    """Return the operations a second of products of a type."""
    return PRODUCTS.get(dtype.name, PRODUCTS["f32"])
