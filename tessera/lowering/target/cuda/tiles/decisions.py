"""The decisions about a tile kernel, one after the other; each is a pass whose outcome stands in the Tile IR it leaves.

A decision changes the `Plan`, which the code that follows obeys, and marks operations with what it decided, for those
who look.
"""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from tessera.core.mlir import ir
from tessera.core.program.program import Program
from tessera.core.program.types import Array
from tessera.lowering.target.cuda.architectures import Architecture
from tessera.lowering.target.cuda.build import width
from tessera.lowering.target.cuda.tiles.access import access_bytes
from tessera.lowering.target.cuda.tiles.byte_products import promotion
from tessera.lowering.target.cuda.tiles.eligible import eligible
from tessera.lowering.target.cuda.tiles.infer import infer, reduction_bits
from tessera.lowering.target.cuda.tiles.order import cluster_of
from tessera.lowering.target.cuda.tiles.pipeline import (
    RingPlan,
    find_overlaps,
    find_rings,
)
from tessera.lowering.target.cuda.tiles.plan import Plan, padded
from tessera.lowering.target.cuda.tiles.product_choice import MMA, WGMMA, product_bits, product_kind, sum_layouts
from tessera.lowering.target.cuda.tiles.staging import find_copies
from tessera.lowering.target.cuda.tiles.streams import find_streams
from tessera.lowering.target.cuda.tiles.team import WARP
from tessera.lowering.target.cuda.uniformity import is_tile, walk

_MOST_VALUES: Final = 256
_ROW_VALUES: Final = 128
_VALUES: Final = 32
_LANES_RESIDENT: Final = 512
"""Lanes of a multiprocessor with 128 registers each: the fastest of 40 to 255 for rows of 8192 on an H200."""
_MOST_WARP_BITS: Final = 3
_MOST_BLOCKS: Final = 4
_BLOCK_BYTES: Final = 128

Mark = tuple[Any, str, str]
"""An operation, a title, and what was decided."""
Observer = Callable[[str, float], None]
"""Called with the name of each decision, and the seconds it took, while it and those before it are marked."""


@dataclass
class Kernel:
    """A kernel that is decided about: its function, and the plan so far."""

    function: Any
    program: Program
    chip: Architecture
    plan: Plan = field(default_factory=Plan)

    def __post_init__(self) -> None:
        self.block = self.function.regions[0].blocks[0]
        self.operations = list(walk(self.block))
        self.dots = [op for op in self.operations if op.name == "tessera.dot"]
        parameters = self.program.parameters
        self._kinds = {a: p.value.type for a, p in zip(self.block.arguments, parameters, strict=True)}
        for op in self.operations:
            if op.name in ("tessera.store", "tessera.write"):
                self.plan.written |= self.parameters(op.operands[0])
            if op.name in ("tessera.load", "tessera.read"):
                self.plan.loaded |= self.parameters(op.operands[0])

    def parameters(self, memory: Any) -> set[int]:
        """The number of the parameter that a memref is."""
        return {number for number, argument in enumerate(self.block.arguments) if argument == memory}

    def only_reads(self, load: Any) -> bool:
        """Whether the kernel does not write the array of a load."""
        return not self.parameters(load.operands[0]) & self.plan.written

    def option(self, name: str, default: int) -> int:
        """An option of the kernel that is a number or a truth value."""
        value = self.program.options.get(name, default)
        return int(value) if isinstance(value, int) else default

    def access_bytes(self, op: Any) -> int:
        """How many bytes of a load's or store's rows move at a time."""
        return access_bytes(self._kinds[op.operands[0]], op)

    @property
    def largest(self) -> int:
        """32-bit values of the largest tile."""
        streamed = self.plan.streamed
        tiles = [v.type for op in self.operations if op not in streamed for v in op.results if is_tile(v.type)]
        kinds = [(kind.shape, kind.element_type) for kind in tiles]
        kinds += [(shape, op.operands[0].type.element_type) for op, shape in self.plan.parts.items()]
        return max(math.prod(padded(shape)) * max(1, width(str(element)) // 32) for shape, element in kinds)


@dataclass(frozen=True, slots=True)
class Decision(ABC):
    """One decision; `name` is what the levels call it."""

    name: ClassVar[str]

    @abstractmethod
    def decide(self, kernel: Kernel) -> bool:
        """Change the plan; False when this way of lowering does not hold the kernel."""

    @abstractmethod
    def marks(self, plan: Plan, function: Any) -> Iterator[Mark]:
        """What was decided, by operation."""


@dataclass(frozen=True, slots=True)
class ChooseProducts(Decision):
    """Say how each product is computed: by warp groups, by warps, or by fused multiply-adds.

    before: `%s = tessera.dot %a, %b`
    after:  `%s = tessera.dot %a, %b product wgmma`
    """

    name: ClassVar[str] = "cuda-choose-products"

    def decide(self, kernel: Kernel) -> bool:
        """By the element types, the extents and the chip."""
        found = {op: product_kind(op, kernel.chip) for op in kernel.dots}
        kernel.plan.products = {op: kind for op, kind in found.items() if kind is not None}
        kernel.plan.promote = promotion(kernel.dots, kernel.program)
        return None not in found.values()

    def marks(self, plan: Plan, function: Any) -> Iterator[Mark]:
        """At each product."""
        del function
        for op, kind in plan.products.items():
            yield op, "product", kind


@dataclass(frozen=True, slots=True)
class ChooseTeam(Decision):
    """Say how many warps compute a group's tiles together (option `warps`).

    after: the function says `warps 8`; with reductions, also how many blocks a multiprocessor should hold, which leaves
           128 registers to a lane: fewer hide less of memory's latency, more leave too little for rows in registers
    """

    name: ClassVar[str] = "cuda-choose-team"

    def decide(self, kernel: Kernel) -> bool:
        """What the products ask for, or a few warps with much to do each: a reduction's cost a warp is fixed."""
        if not kernel.dots:
            kernel.plan.streams = find_streams(kernel.operations, kernel.only_reads)
        kernel.plan.bits = self._bits(kernel)
        if any(op.name == "tessera.reduce" for op in kernel.operations) and not kernel.dots:
            kernel.plan.resident = max(1, _LANES_RESIDENT // (WARP << kernel.plan.bits))
        most = _MOST_VALUES if kernel.dots else _ROW_VALUES
        return kernel.largest <= most << (kernel.plan.bits + 5)

    def _bits(self, kernel: Kernel) -> int:
        wanted = kernel.option("warps", 0)
        if wanted:
            return wanted.bit_length() - 1
        if kernel.dots:
            return product_bits(kernel.plan.products, kernel.operations)
        warps = max(1, kernel.largest // (_VALUES * 32))
        bits = min(_MOST_WARP_BITS, (warps - 1).bit_length())
        reduced = reduction_bits(kernel.operations, padded, kernel.access_bytes, kernel.plan.parts)
        return bits if reduced is None else min(bits, reduced)

    def marks(self, plan: Plan, function: Any) -> Iterator[Mark]:
        """At the function."""
        yield function, "warps", str(1 << plan.bits)
        if plan.resident:
            yield function, "resident", f"{plan.resident} blocks or more on a multiprocessor"
        for op in plan.streams:
            yield op, "streamed", "128 rows at a time"


@dataclass(frozen=True, slots=True)
class CopyAhead(Decision):
    """Give the loads of factors to a warp of its own, which keeps a ring of buffers full (option `stages`).

    before: `for { %a = tessera.load %A[...]; %acc = tessera.dot %a, %b, %acc_1 }`
    after:  `%a = tessera.load %A[...] ring 0`; where the sum goes straight to the next round's product, that one is
            not waited for: `tessera.dot %a, %b, %acc_1 runs_on into the next round`
    keeps:  loads of arrays that the kernel writes, that are not aligned, or that somebody else reads as well
    """

    name: ClassVar[str] = "cuda-copy-ahead"

    def decide(self, kernel: Kernel) -> bool:
        """Rings for the copy engine where the chip has one; the rest is copied by the team itself.

        With a ring, one block has a multiprocessor to itself: small teams rather share it and copy by themselves.
        """
        plan = kernel.plan
        if kernel.dots and kernel.chip.bulk_copies and _fills_processor(plan):
            plan.rings = find_rings(
                kernel.block,
                [dot for dot in kernel.dots if plan.products[dot] != MMA],
                lambda load: _copied_ahead(kernel, load),
            )
        for ring in plan.rings:
            dot = ring.running
            if dot is not None and (plan.products[dot] != WGMMA or plan.promote):
                ring.running = None
        plan.copies = find_copies(kernel.dots, lambda load: _copied_by_team(kernel, load))
        plan.stored = min(_MOST_BLOCKS, max((_blocks(op) for op in kernel.operations), default=1))
        return True

    def marks(self, plan: Plan, function: Any) -> Iterator[Mark]:
        """At each load, and at products that run on."""
        for number, ring in enumerate(plan.rings):
            for load in ring.loads:
                yield load, "ring", str(number)
            if ring.running is not None:
                yield ring.running, "runs_on", "into the next round"
        for copy in plan.copies:
            for load in copy.loads:
                yield load, "copied", "by the team"
        if plan.rings:
            yield function, "copying", "warp"


@dataclass(frozen=True, slots=True)
class OverlapProducts(Decision):
    """Issue the second of a loop's two products beside the next round's first (options `overlap`, `turns`).

    before: `for i: %s = dot(q, k[i]); %p = f(%s); %acc = dot(%p, v[i], %acc_1)`
    after:  the second product is marked `beside the next round's first`; see `overlap`
    """

    name: ClassVar[str] = "cuda-overlap-products"

    def decide(self, kernel: Kernel) -> bool:
        """Where a loop's rounds allow it."""
        plan = kernel.plan
        if kernel.option("overlap", 1):
            plan.turns = bool(kernel.option("turns", 1))
            plan.overlaps = find_overlaps([op for op in kernel.dots if plan.products[op] == WGMMA], plan.rings)
        return True

    def marks(self, plan: Plan, function: Any) -> Iterator[Mark]:
        """At the second products."""
        for overlap in plan.overlaps.values():
            yield overlap.second, "beside", "the next round's first"
        if plan.overlaps and plan.turns:
            yield function, "turns", "taken by the warp groups"


@dataclass(frozen=True, slots=True)
class OrderGroups(Decision):
    """Say in which order groups are done, and which blocks share loads (option `cluster`).

    after: the function says `order large groups first`, `cluster 2`, loads `shared by the cluster`
    """

    name: ClassVar[str] = "cuda-order-groups"

    def decide(self, kernel: Kernel) -> bool:
        """By the bounds of loops and the places of loads: what they have of the group's number."""
        plan = kernel.plan
        plan.uneven = _unevenness(plan.rings)
        plan.cluster, plan.shared = cluster_of(kernel.function, kernel.program, plan)
        return True

    def marks(self, plan: Plan, function: Any) -> Iterator[Mark]:
        """At the function, and at the loads."""
        if plan.uneven:
            yield function, "order", "large groups first"
        if plan.cluster > 1:
            yield function, "cluster", str(plan.cluster)
        for load in plan.shared:
            yield load, "shared", "by the cluster"


@dataclass(frozen=True, slots=True)
class AssignLayouts(Decision):
    """Give each tile its place in the registers of lanes and warps; see `core.layouts`.

    after: `%s = tessera.dot %a, %b layout registers [1:1, 0:8] lanes [1:2, 1:4, 0:1, 0:2, 0:4] warps [0:16, 0:32]`:
           the second bit of a register's number moves 8 along axis 0
    """

    name: ClassVar[str] = "cuda-assign-layouts"

    def decide(self, kernel: Kernel) -> bool:
        """From the products, reductions, loads and stores outwards."""
        plan = kernel.plan
        sums = sum_layouts(plan.products, kernel.operations, plan.bits, plan.is_staged)
        plan.layouts = infer(kernel.operations, plan.bits, padded, kernel.access_bytes, sums, plan.parts)
        return True

    def marks(self, plan: Plan, function: Any) -> Iterator[Mark]:
        """At what makes a tile in registers."""
        for op in walk(function.regions[0].blocks[0]):
            if op.name.startswith("scf.") or plan.is_staged(op):
                continue
            for value in op.results:
                if value in plan.layouts and op.name not in ("arith.constant", "tessera.transpose"):
                    yield op, "layout", plan.layouts[value].text()


DECISIONS: Final[tuple[Decision, ...]] = (
    # What the tensor cores can do decides everything else.
    ChooseProducts(),
    ChooseTeam(),
    # Only loads that products read, so after these were chosen.
    CopyAhead(),
    # Products whose factors are copied ahead can run on while others are prepared.
    OverlapProducts(),
    OrderGroups(),
    # Last: what is copied ahead needs no registers.
    AssignLayouts(),
)


def make_plan(function: Any, program: Program, chip: Architecture, observe: Observer | None = None) -> Plan | None:
    """Decide everything for the `func.func`; None for kernels that are lowered another way."""
    if not eligible(list(walk(function.regions[0].blocks[0])), program):
        return None
    kernel = Kernel(function, program, chip)
    seconds: list[float] = []
    for decision in DECISIONS:
        start = time.perf_counter()
        if not decision.decide(kernel):
            return None
        seconds.append(time.perf_counter() - start)
    if observe is not None:
        _show(kernel, seconds, observe)
    return kernel.plan


def _show(kernel: Kernel, seconds: list[float], observe: Observer) -> None:
    """Mark what was decided, decision by decision; the marks go again, so that the code is the same for everybody."""
    marked: list[tuple[Any, str]] = []
    for decision, spent in zip(DECISIONS, seconds, strict=True):
        for op, title, text in decision.marks(kernel.plan, kernel.function):
            op.attributes[f"tessera.{title}"] = ir.StringAttr.get(text)
            marked.append((op, f"tessera.{title}"))
        observe(decision.name, spent)
    for op, name in marked:
        del op.attributes[name]


def _fills_processor(plan: Plan) -> bool:
    """Whether one block keeps a multiprocessor busy: of products by single warps, two do that better."""
    kinds = set(plan.products.values())
    return WGMMA in kinds or (MMA not in kinds and plan.bits == _MOST_WARP_BITS)


# -- which loads -------------------------------------------------------------------------------------------------


def _blocks(op: Any) -> int:
    """Column blocks of 128 bytes of a stored tile."""
    if op.name != "tessera.store" or not is_tile(op.operands[1].type):
        return 1
    kind = op.operands[1].type
    return max(1, kind.shape[-1] * width(str(kind.element_type)) // 8 // _BLOCK_BYTES)


def _copied_ahead(kernel: Kernel, load: Any) -> bool:
    """Whether the copy engine can do a load: of an aligned array that the kernel only reads."""
    numbers = kernel.parameters(load.operands[0])
    if not numbers or numbers & kernel.plan.written:
        return False
    kind = kernel.program.parameters[next(iter(numbers))].value.type
    if not isinstance(kind, Array) or not kind.aligned or len(kind.shape) > 5:
        return False
    dropped = set(ir.DenseI64ArrayAttr(load.attributes["dropped"]))
    last = len(kind.shape) - 1
    shape = load.results[0].type.shape
    if last in dropped or len(shape) != 2 or shape[0] > 256:
        return False
    return shape[1] * width(str(load.results[0].type.element_type)) // 8 >= 32


def _copied_by_team(kernel: Kernel, load: Any) -> bool:
    """Whether lanes can copy a load to shared memory: of any array that the kernel only reads, a tile of rows."""
    numbers = kernel.parameters(load.operands[0])
    if not numbers or numbers & kernel.plan.written or kernel.plan.ring_of(load) is not None:
        return False
    kind = kernel.program.parameters[next(iter(numbers))].value.type
    shape = load.results[0].type.shape
    dropped = list(ir.DenseI64ArrayAttr(load.attributes["dropped"]))
    if not isinstance(kind, Array) or len(shape) != 2 or len(kind.shape) - 1 in dropped:
        return False
    # Eight rows are what swizzles repeat after, and 16 bytes what they move.
    return shape[0] >= 8 and shape[1] * kind.dtype.bytes >= 16


def _unevenness(rings: list[RingPlan]) -> int:
    """Whether a loop that copies ahead is longer in later groups (1), in earlier ones (-1), or neither (0).

    The index along the last range is the group's number modulo the range's count: a bound made of it differs from
    group to group; an upper one grows with it, as far as anybody has seen.
    """
    for ring in rings:
        if ring.in_loop:
            lower, upper = list(ring.block.owner.operation.operands)[:2]
            for bound, direction in ((upper, 1), (lower, -1)):
                if _depends_on_group(bound):
                    return direction
    return 0


def _depends_on_group(value: Any) -> bool:
    if isinstance(value.owner, ir.Block):
        return False
    op = value.owner.operation
    if op.name == "arith.remui":
        number = op.operands[0].owner
        if not isinstance(number, ir.Block) and number.operation.name == "tessera.id":
            return True
    return any(_depends_on_group(operand) for operand in op.operands)
