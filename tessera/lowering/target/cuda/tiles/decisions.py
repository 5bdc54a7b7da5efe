"""The decisions about a tile kernel, one after the other; each is a pass whose outcome stands in the Tile IR it leaves.

A decision changes the `Plan`, which the code that follows obeys, and marks operations with what it decided, for those
who look.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from tessera.core.mlir import ir
from tessera.core.program.program import Program
from tessera.core.targets import Architecture
from tessera.core.tile.dialect import COMPUTE
from tessera.lowering.target.cuda.tiles.copy_decisions import CopyAhead, Realign
from tessera.lowering.target.cuda.tiles.decision import Decision, Kernel, Mark, Refusal
from tessera.lowering.target.cuda.tiles.eligible import eligible, first_unfit, has_lanes
from tessera.lowering.target.cuda.tiles.infer import infer, reduction_bits
from tessera.lowering.target.cuda.tiles.order_choice import band_of, cluster_of, has_bands, unevenness
from tessera.lowering.target.cuda.tiles.plan import Plan, padded
from tessera.lowering.target.cuda.tiles.product_choice import (
    MOST_WARP_BITS,
    multiplies_tf32,
    product_bits,
    sum_layouts,
)
from tessera.lowering.target.cuda.tiles.product_decisions import ChooseProducts, OverlapProducts, RunProducts
from tessera.lowering.target.cuda.tiles.register_limits import require_registers
from tessera.lowering.target.cuda.tiles.store_decisions import DelayStores, DivideStores
from tessera.lowering.target.cuda.tiles.streams import find_streams
from tessera.lowering.target.cuda.tiles.team import WARP
from tessera.lowering.target.cuda.uniformity import walk
from tessera.lowering.target.launch import ranges_of
from tessera.lowering.tile.round_factors import round_factors

_MOST_VALUES: Final = 256
_ROW_VALUES: Final = 128
_VALUES: Final = 32
_LANES_RESIDENT: Final = 512
"""Lanes of a multiprocessor with 128 registers each: the fastest of 40 to 255 for rows of 8192 on an H200."""

Observer = Callable[[str, float], None]
"""Called with the name of each decision, and the seconds it took, while it and those before it are marked."""
Refused = Callable[[Refusal], object]


@dataclass(frozen=True, slots=True)
class ChooseTeam(Decision):
    """Say how many warps compute a group's tiles together (option `warps`).

    before: `func.func @f(...)`
    after:  `func.func @f(...) warps 8`; with reductions, also how many blocks a multiprocessor should hold, which
            leaves 128 registers to a lane: fewer hide less of memory's latency, more leave too little for rows in
            registers
    """

    name: ClassVar[str] = "cuda-choose-team"

    def decide(self, kernel: Kernel) -> bool:
        """What the products ask for, or a few warps with much to do each: a reduction's cost a warp is fixed."""
        if not kernel.dots:
            kernel.plan.streams = find_streams(kernel.operations, kernel.only_reads)
        kernel.plan.bits = self._bits(kernel)
        if any(op.name == "tessera.reduce" for op in kernel.operations) and not kernel.dots:
            kernel.plan.resident = max(1, _LANES_RESIDENT // (WARP << kernel.plan.bits))
        most, lanes = _MOST_VALUES if kernel.dots else _ROW_VALUES, WARP << kernel.plan.bits
        if kernel.largest <= most * lanes:
            return True
        needed = f"the largest tile takes {kernel.largest // lanes} registers of each lane of {lanes // WARP} warps"
        return kernel.refuse(f"{needed}, and {most} is the most", "more warps (the option `warps`) or smaller blocks")

    def _bits(self, kernel: Kernel) -> int:
        wanted = kernel.option("warps", 0)
        if wanted:
            return wanted.bit_length() - 1
        if kernel.dots:
            return product_bits(kernel.plan.products, kernel.operations)
        warps = max(1, kernel.largest // (_VALUES * WARP))
        bits = min(MOST_WARP_BITS, (warps - 1).bit_length())
        vector = kernel.option("vector", 0)
        reduced = reduction_bits(kernel.operations, padded, kernel.access_bytes, kernel.plan.parts, vector)
        return bits if reduced is None else min(bits, reduced)

    def marks(self, plan: Plan, function: Any) -> Iterator[Mark]:
        """At the function."""
        yield function, "warps", str(1 << plan.bits)
        if plan.resident:
            yield function, "resident", f"{plan.resident} blocks or more on a multiprocessor"
        for op in plan.streams:
            yield op, "streamed", "128 rows at a time"


@dataclass(frozen=True, slots=True)
class OrderGroups(Decision):
    """Say in which order groups are done, and which blocks share loads (options `band`, `cluster`).

    after: the function says `grid persistent`: as many blocks as multiprocessors, each of which takes one group after
           the other; `band 16`: so many rows of groups are done side by side, column after column, before the next
           rows; `order large and small groups in pairs`, of a few heads at a time, where groups differ in work;
           `cluster 2`, and loads `shared by the cluster`
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
        if plan.specialised:
            yield function, "grid", "persistent"
        if plan.products and has_bands(ranges_of(function), plan):
            yield function, "band", str(plan.band)
        if plan.uneven:
            yield function, "order", "large and small groups in pairs"
        if plan.cluster > 1:
            yield function, "cluster", str(plan.cluster)
        for load in plan.shared:
            yield load, "shared", "by the cluster"


@dataclass(frozen=True, slots=True)
class AssignLayouts(Decision):
    """Give each tile its place in the registers of lanes and warps (options `vector`, `warp_columns`).

    before: `%s = tessera.dot %a, %b`
    after:  `%s = tessera.dot %a, %b layout registers [1:1, 0:8] lanes [1:2, 1:4, 0:1, 0:2, 0:4] warps [0:16, 0:32]`:
            the second bit of a register's number moves 8 along axis 0; see `core.layouts`
    `vector`: a lane has at most so many neighbouring elements of what is loaded, stored or reduced, where 16 bytes are
            the rule: with `vector=2`, `registers [1:1] lanes [1:2, 1:4, ...]`
    `warp_columns`: so many warps share the columns of a product, and the others its rows, where the rule is what reads
            least of the factors: with `warp_columns=2`, `warps [0:16, 1:32]`.  Warp groups have whole rows, and so
            have warps that reduce them: there, and where a warp would have less than an instruction, another value
            than those that the message names is a mistake (TSR-E005)
    """

    name: ClassVar[str] = "cuda-assign-layouts"

    def decide(self, kernel: Kernel) -> bool:
        """From the products, reductions, loads and stores outwards."""
        plan, beside = kernel.plan, kernel.option("warp_columns", 0)
        sums = sum_layouts(plan.products, kernel.operations, plan.bits, plan.is_staged, beside)
        vector = kernel.option("vector", 0)
        plan.layouts = infer(kernel.operations, plan.bits, padded, kernel.access_bytes, sums, plan.parts, vector)
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


def make_plan(
    function: Any, program: Program, chip: Architecture, observe: Observer | None = None, refused: Refused | None = None
) -> Plan | None:
    """Decide everything for the `func.func`; None for kernels that are lowered another way.

    refused: is told why there is no plan for a kernel that says nothing of single lanes
    Raises NotOnCuda for sums that no lane has registers for.
    """
    operations = list(walk(function.regions[0].blocks[0]))
    if not eligible(operations, program):
        unfit = None if has_lanes(program) else first_unfit(operations)
        if refused is not None and unfit is not None:
            refused(Refusal(f"`{_word(unfit)}` keeps the kernel's tiles in memory", "another kernel for that", unfit))
        return None
    for op in operations:
        if COMPUTE in op.attributes and not multiplies_tf32(op):
            round_factors(op)
    kernel = Kernel(function, program, chip)
    seconds: list[float] = []
    for decision in DECISIONS:
        start = time.perf_counter()
        if not decision.decide(kernel):
            if refused is not None and kernel.refusal is not None:
                refused(kernel.refusal)
            return None
        seconds.append(time.perf_counter() - start)
    require_registers(kernel.plan, kernel.operations)
    if observe is not None:
        _show(kernel, seconds, observe)
    return kernel.plan


def _word(op: Any) -> str:
    """What an operation is called, without its dialect."""
    return str(op.name).rpartition(".")[2]


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
