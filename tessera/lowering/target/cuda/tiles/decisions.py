"""The decisions about a tile kernel, one after the other; each is a pass whose outcome stands in the Tile IR it leaves.

A decision changes the `Plan`, which the code that follows obeys, and marks operations with what it decided, for those
who look.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from tessera.core.mlir import ir
from tessera.core.program.program import Program
from tessera.core.tile.dialect import COMPUTE
from tessera.lowering.target.cuda.architectures import Architecture
from tessera.lowering.target.cuda.build import width
from tessera.lowering.target.cuda.tiles.byte_products import promotion
from tessera.lowering.target.cuda.tiles.copied_loads import (
    copied_ahead,
    copied_by_team,
    fits_copy_engine,
    vector_copied_ahead,
)
from tessera.lowering.target.cuda.tiles.decision import Decision, Kernel, Mark
from tessera.lowering.target.cuda.tiles.eligible import eligible
from tessera.lowering.target.cuda.tiles.infer import infer, reduction_bits
from tessera.lowering.target.cuda.tiles.order import band_of, cluster_of, unevenness
from tessera.lowering.target.cuda.tiles.overlap_plan import OverlapPlan, find_overlaps
from tessera.lowering.target.cuda.tiles.pipeline import (
    add_vectors,
    find_rings,
    find_running,
    is_vector,
    source_load,
)
from tessera.lowering.target.cuda.tiles.plan import Plan, padded
from tessera.lowering.target.cuda.tiles.product_choice import (
    MMA,
    WGMMA,
    lies_across_k,
    product_bits,
    product_kind,
    sum_layouts,
)
from tessera.lowering.target.cuda.tiles.realignment import find_realigned, is_gapless
from tessera.lowering.target.cuda.tiles.rescaling import find_rescalings
from tessera.lowering.target.cuda.tiles.staging import find_copies
from tessera.lowering.target.cuda.tiles.store_decisions import DelayStores, DivideStores
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

Observer = Callable[[str, float], None]
"""Called with the name of each decision, and the seconds it took, while it and those before it are marked."""


@dataclass(frozen=True, slots=True)
class ChooseProducts(Decision):
    """Say how each product is computed: by warp groups, by warps, or by fused multiply-adds.

    before: `%s = tessera.dot %a, %b`
    after:  `%s = tessera.dot %a, %b product wgmma`; with factors of tf32, their loads are `rounded to tf32`
    """

    name: ClassVar[str] = "cuda-choose-products"

    def decide(self, kernel: Kernel) -> bool:
        """By the element types, the extents and the chip."""
        found = {op: product_kind(op, kernel.chip, lambda load: copied_ahead(kernel, load)) for op in kernel.dots}
        kernel.plan.products = {op: kind for op, kind in found.items() if kind is not None}
        groups = [op for op, kind in found.items() if kind == WGMMA and COMPUTE in op.attributes]
        kernel.plan.rounded = {source_load(factor) for op in groups for factor in list(op.operands)[:2]}
        kernel.plan.promote = promotion(kernel.dots, kernel.program)
        return None not in found.values()

    def marks(self, plan: Plan, function: Any) -> Iterator[Mark]:
        """At each product."""
        del function
        for op, kind in plan.products.items():
            yield op, "product", kind
        for load in plan.rounded:
            yield load, "rounded", "to tf32"


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
class Realign(Decision):
    """Let the launcher copy factors to rows that the copy engine can read (option `realign`).

    That reads and writes each element once; otherwise lanes fetch them 4 or 2 bytes at a time, again in every group
    that reads them.  So it is done where several groups read the same elements.

    before: `%a = tessera.load %A[...]` of an array whose rows begin anywhere
    after:  `%a = tessera.load %A[...] realigned before the kernel`
    keeps:  arrays that have gaps or that the kernel writes, and products of which every element is read by one group
    """

    name: ClassVar[str] = "cuda-realign"

    def decide(self, kernel: Kernel) -> bool:
        """For all factors of a product, or none of them."""
        plan = kernel.plan
        if kernel.option("realign", 1) and kernel.dots and kernel.chip.bulk_copies and _fills_processor(plan):
            plan.realigned = find_realigned(
                [dot for dot in kernel.dots if plan.products[dot] != MMA],
                lambda load: copied_ahead(kernel, load),
                lambda load: is_gapless(kernel.array(load.operands[0])) and fits_copy_engine(kernel, load),
            )
        return True

    def marks(self, plan: Plan, function: Any) -> Iterator[Mark]:
        """At the loads."""
        del function
        for load in plan.realigned:
            yield load, "realigned", "before the kernel"


@dataclass(frozen=True, slots=True)
class CopyAhead(Decision):
    """Give the loads of factors to a warp of its own, which keeps a ring of buffers full (option `stages`).

    before: `for { %a = tessera.load %A[...]; %acc = tessera.dot %a, %b, %acc_1 }`
    after:  `%a = tessera.load %A[...] ring 0`; where the sum goes straight to the next round's product, that one is
            not waited for: `tessera.dot %a, %b, %acc_1 runs_on into the next round`
    keeps:  loads of arrays that the kernel writes, that are neither aligned nor realigned, or that others read as well
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
                lambda load: copied_ahead(kernel, load),
            )
        for ring in plan.rings:
            dot = ring.running
            if dot is not None and (plan.promote or not _may_run_on(plan, dot)):
                ring.running = None
        plan.copies = find_copies(kernel.dots, lambda load: copied_by_team(kernel, load))
        plan.stored = min(
            kernel.option("store_blocks", _MOST_BLOCKS), max((_blocks(op) for op in kernel.operations), default=1)
        )
        return True

    def marks(self, plan: Plan, function: Any) -> Iterator[Mark]:
        """At each load, and at products that run on."""
        for number, ring in enumerate(plan.rings):
            for load in ring.loads:
                if not is_vector(load):
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
    """Issue the second of a loop's two products beside the next round's arithmetic (options `overlap`, `turns`).

    before: `for i: %s = dot(q, k[i]); %p = f(%s); %acc = dot(%p, v[i], %acc_1)`
    after:  the second product is marked `beside the next round's first`, see `overlap`; where registers hold two
            rounds' scores, the first is issued `ahead of its round` (option `ahead`), see `ahead`; factors of sums that
            are mostly one are `skipped where they are one`, see `rescaling`
    """

    name: ClassVar[str] = "cuda-overlap-products"

    def decide(self, kernel: Kernel) -> bool:
        """Where a loop's rounds allow it."""
        plan = kernel.plan
        if kernel.option("overlap", 1):
            found = find_overlaps([op for op in kernel.dots if _may_run_on(plan, op)], plan.rings)
            ahead = kernel.option("ahead", 1) and not plan.promote
            plan.overlaps = {
                one.loop: one if ahead and _lane_values(one, 2, plan.bits) <= _MOST_RUNNING else replace(one, ahead=())
                for one in found
                if _lane_values(one, 1, plan.bits) <= _MOST_RUNNING
            }
            plan.turns = bool(kernel.option("turns", 1))
        if WGMMA in plan.products.values():
            plan.rescalings = find_rescalings(kernel.operations)
        return True

    def marks(self, plan: Plan, function: Any) -> Iterator[Mark]:
        """At the products, and at the multiplications that are left out."""
        for overlap in plan.overlaps.values():
            yield overlap.second, "beside", "the next round's first"
            if overlap.ahead:
                yield overlap.first, "ahead", "of its round"
        for op in plan.rescalings:
            yield op, "skipped", "where they are one"
        if plan.overlaps and plan.turns:
            yield function, "turns", "taken by the warp groups"


@dataclass(frozen=True, slots=True)
class RunProducts(Decision):
    """Let the products of a loop with four or more run until their sums are needed (option `overlap`).

    before: `for i: %s = dot(k, q[i]); %dp = dot(v, do[i]); %base = load %B[i]; ...; %dk = dot(%ds, q[i], %dk_1)`
    after:  the first product is marked `issued a round early`, and the vectors that the loop reads come with a ring's
            buffers: `%base = tessera.load %B[...] ring 1`; see `running`
    """

    name: ClassVar[str] = "cuda-run-products"

    def decide(self, kernel: Kernel) -> bool:
        """Where all that the tensor cores read of shared memory is copied ahead."""
        plan = kernel.plan
        if kernel.option("overlap", 1) and not plan.promote and all(_may_run_on(plan, op) for op in kernel.dots):
            plan.running = find_running(kernel.dots, plan.rings, WARP << plan.bits)
        loops = {running.ahead.block for running in plan.running.values()}
        for ring in plan.rings:
            if ring.block in loops:
                ring.running = None
        vectors = [op for op in kernel.operations if op.name == "tessera.load" and op.block in loops]
        add_vectors(plan.rings, [op for op in vectors if vector_copied_ahead(kernel, op)])
        return True

    def marks(self, plan: Plan, function: Any) -> Iterator[Mark]:
        """At the first products, and at the vectors."""
        del function
        for running in plan.running.values():
            yield running.ahead, "issued", "a round early"
        for number, ring in enumerate(plan.rings):
            for load in filter(is_vector, ring.loads):
                yield load, "ring", str(number)


@dataclass(frozen=True, slots=True)
class OrderGroups(Decision):
    """Say in which order groups are done, and which blocks share loads (option `cluster`).

    after: the function says `order large groups first`, `cluster 2`, loads `shared by the cluster`
    """

    name: ClassVar[str] = "cuda-order-groups"

    def decide(self, kernel: Kernel) -> bool:
        """By the bounds of loops and the places of loads: what they have of the group's number."""
        plan = kernel.plan
        plan.uneven = unevenness(plan.rings)
        plan.cluster, plan.shared = cluster_of(kernel.function, kernel.program, plan)
        # Neighbours of a cluster are in one band.
        plan.band = -(-kernel.option("band", band_of(kernel.function)) // plan.cluster) * plan.cluster
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


_MOST_RUNNING: Final = 200
"""Values of an overlapped loop, of 232 registers of a lane; the rest is for what is computed on the way."""

DECISIONS: Final[tuple[Decision, ...]] = (
    # What the tensor cores can do decides everything else.
    ChooseProducts(),
    ChooseTeam(),
    # Only loads that products read, so after these were chosen; the copy engine reads what is realigned.
    Realign(),
    CopyAhead(),
    # Products whose factors are copied ahead can run on while others are prepared.
    OverlapProducts(),
    RunProducts(),
    OrderGroups(),
    # What is copied ahead needs no registers.
    AssignLayouts(),
    # By the layouts.
    DivideStores(),
    # Of stores by warp groups.
    DelayStores(),
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


def _lane_values(overlap: OverlapPlan, rounds: int, bits: int) -> int:
    """32-bit values of a lane: the scores of some rounds, the weights of one, and the sums."""
    scores, sums = (math.prod(op.results[0].type.shape) for op in (overlap.first, overlap.second))
    weights = scores * width(str(overlap.second.operands[0].type.element_type)) // 32
    return (rounds * scores + weights + sums) >> (bits + 5)


def _may_run_on(plan: Plan, dot: Any) -> bool:
    """Whether a product may go on beside others: warp groups do it, and nobody writes registers it still reads."""
    return plan.products[dot] == WGMMA and not lies_across_k(dot)


def _blocks(op: Any) -> int:
    """Column blocks of 128 bytes of a stored tile."""
    if op.name != "tessera.store" or not is_tile(op.operands[1].type):
        return 1
    kind = op.operands[1].type
    return max(1, kind.shape[-1] * width(str(kind.element_type)) // 8 // _BLOCK_BYTES)
