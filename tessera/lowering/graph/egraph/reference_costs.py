"""Prices of graphs on the reference machine: one frozen table, which no target, timing or machine changes.

The form of a graph must be the same wherever it runs, so what it would cost is asked of one machine alone, rounded
figures of one H200: copies at 4.2 TB/s, products of 16-bit floats at 700 TFLOP/s, 2 microseconds for a kernel
(docs/performance.md has what was measured).  Prices are whole picoseconds: sums do not depend on their order.

A graph is divided into kernels as the planner would, in outline: a product is a kernel with the maps of its result;
maps and reductions that use each other are one; what one kernel makes for another is written and read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from tessera.core.graph.expr import Apply, Argument, Literal, walk
from tessera.core.graph.extents import larger
from tessera.core.graph.index_maps import IndexMap, is_reshape
from tessera.lowering.graph.egraph.contractions import contraction, extents_of
from tessera.lowering.graph.egraph.egraph import INPUT, RESULT, EGraph, ENode

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
UNTILED: Final = ELEMENTWISE // 8
"""Operations a second of products without rows and columns of their own, which fill no tile."""
PICO: Final = 1_000_000_000_000
"""Picoseconds of a second."""


@dataclass(frozen=True, slots=True, order=True)
class Price:
    """The cost of a graph on the reference machine.

    flops: of its products; bytes: that its kernels read and write
    """

    picoseconds: int
    kernels: int
    flops: int
    bytes: int

    def __str__(self) -> str:
        time = self.picoseconds / 1e6
        return f"{time:.2f} us, {self.kernels} kernels, {self.flops:,} FLOPs, {self.bytes:,} bytes"


def sum_of(prices: Sequence[Price]) -> Price:
    """Return the price of several graphs, one after the other."""
    return Price(
        sum(each.picoseconds for each in prices), sum(each.kernels for each in prices),
        sum(each.flops for each in prices), sum(each.bytes for each in prices),
    )  # fmt: skip


def moving_time(amount: int) -> int:
    """Return the picoseconds that reading or writing so many bytes takes."""
    return amount * PICO // BYTES_PER_SECOND


def product_flops(egraph: EGraph, node: ENode) -> int:
    """Return the multiplications and additions of a contraction."""
    return 2 * prod(extents_of(egraph, contraction(node)).values())


def product_rate(name: str) -> int:
    """Return the operations a second of products of a type; types without a row count as f32."""
    return PRODUCTS.get(name, PRODUCTS["f32"])


def _multiplying(egraph: EGraph, node: ENode) -> int:
    each = contraction(node)
    tiled = any((set(mine) - set(other)) & set(each.result) for mine, other in (each.labels, each.labels[::-1]))
    rate = product_rate(_operand_type(egraph, node)) if tiled else UNTILED
    return product_flops(egraph, node) * PICO // rate


def _operand_type(egraph: EGraph, node: ENode) -> str:
    compute = str(node.attribute("compute") or "")
    return compute or egraph.type_of(node.kids[0]).dtype.name


def _computing(egraph: EGraph, node: ENode, number: int) -> int:
    """Return the time of the arithmetic of a map or a reduction."""
    if node.op == "reduce":
        return egraph.type_of(node.kids[0]).size * PICO // ELEMENTWISE
    assert isinstance(node.body, Apply | Argument | Literal)
    operations = sum(1 for each in walk(node.body) if isinstance(each, Apply))
    return operations * egraph.type_of(number).size * PICO // ELEMENTWISE + 1


def node_price(egraph: EGraph, node: ENode, number: int) -> int:
    """Return an estimate of one node alone, for the first choice: what kernels make is in registers at their end."""
    if node.op in (INPUT, RESULT, "view", "iota") or not node.kids:
        return 0
    moved = moving_time(sum(egraph.type_of(kid).bytes for kid in node.kids) + egraph.type_of(number).bytes)
    match node.op:
        case "contract":
            return LAUNCH + larger(_multiplying(egraph, node), moved)
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
    """Divides a chosen graph into kernels.

    leaders: of each class, another one of its kernel; products: the kernels that begin with a contraction
    reads: bytes by kernel and class; written: bytes of the classes that kernels write; work: time of each kernel
    """

    def __init__(self, egraph: EGraph, order: Sequence[int], choice: Mapping[int, ENode]) -> None:
        self.egraph, self.choice = egraph, choice
        self.leaders = {number: number for number in order}
        self.products = {number for number in order if choice[number].op == "contract"}
        self.reads: dict[tuple[int, int], int] = {}
        self.written: dict[int, int] = {}
        self.work: dict[int, int] = {}
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
        makers = [(kid, self.choice[kid]) for kid in node.kids]
        kids = [kid for kid, maker in makers if maker.op in ("map", "reduce", "contract") and maker.kids]
        size = self.egraph.type_of(number).size
        for kid in kids if node.op == "map" else ():
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

    def run(self, number: int) -> int:
        """Note what a class costs the kernel that makes it; return its FLOPs."""
        node = self.choice[number]
        if self.is_free(number):
            return 0
        home = self.find(number)
        self.work.setdefault(home, 0)
        for kid in node.kids:
            self._read(kid, home)
        if node.op == "contract":
            self.work[home] += _multiplying(self.egraph, node)
            return product_flops(self.egraph, node)
        if node.op in ("map", "reduce"):
            self.work[home] += _computing(self.egraph, node, number)
        return 0

    def give(self, root: int) -> None:
        """Note that a class is an output: views that are no reshapes are copied by a kernel."""
        flat, body = self.source(root), self.choice[root].body
        shape = self.egraph.type_of(self.choice[root].kids[0]).shape if self.choice[root].kids else ()
        if flat != root and isinstance(body, IndexMap) and not is_reshape(body, shape):
            copy = -1 - root
            self.leaders[copy], self.work[copy] = copy, 0
            self._read(root, copy)
            self.reads[copy, copy] = self.egraph.type_of(root).bytes  # as many are written
        elif not self.is_free(flat):
            self.written[flat] = self.egraph.type_of(flat).bytes

    def _read(self, kid: int, home: int) -> None:
        """Note that a kernel reads a class, and that another one writes it."""
        source = self.source(kid)
        node = self.choice[source]
        if not node.kids and node.op != INPUT:
            return
        if self.is_free(source):
            self.reads[home, kid] = self.egraph.type_of(kid).bytes
        elif self.find(source) != home or source != kid:
            self.reads[home, kid] = self.egraph.type_of(kid).bytes
            self.written[source] = self.egraph.type_of(source).bytes

    def traffic(self) -> dict[int, int]:
        """Return the bytes that each kernel reads and writes."""
        found = dict.fromkeys(self.work, 0)
        for (home, _), size in self.reads.items():
            found[home] += size
        for number, size in self.written.items():
            found[self.find(number)] += size
        return found


def price(egraph: EGraph, order: Sequence[int], choice: Mapping[int, ENode], roots: Sequence[int]) -> Price:
    """Return the price of a chosen graph; order: its classes, each after those that it is made of."""
    kernels = _Kernels(egraph, order, choice)
    flops = sum(kernels.run(number) for number in order)
    for root in dict.fromkeys(roots):
        kernels.give(root)
    traffic = kernels.traffic()
    time = sum(LAUNCH + larger(work, moving_time(traffic[home])) for home, work in kernels.work.items())
    return Price(time, len(kernels.work), flops, sum(traffic.values()))
