"""What is decided before any code: who computes, which layout each tile has, which loads are copied ahead.

`make_plan` gives None for kernels that this way of lowering does not hold: those with lanes of their own, shared
buffers, or tiles too large for registers.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tessera.core.layouts import Layout
from tessera.core.mlir import ir
from tessera.core.program.program import Program
from tessera.core.program.types import Array
from tessera.lowering.target.cuda.architectures import Architecture
from tessera.lowering.target.cuda.build import width
from tessera.lowering.target.cuda.tiles.access import access_bytes
from tessera.lowering.target.cuda.tiles.infer import Aligned, infer, reduction_bits
from tessera.lowering.target.cuda.tiles.pipeline import OverlapPlan, RingPlan, find_overlaps, find_rings
from tessera.lowering.target.cuda.tiles.product_choice import WGMMA, product_bits, product_kind, sum_layouts
from tessera.lowering.target.cuda.tiles.staging import CopyPlan, find_copies
from tessera.lowering.target.cuda.uniformity import is_tile, walk

_OPERATIONS: Final = frozenset(
    f"tessera.{name}"
    for name in ("id", "dim", "read", "write", "load", "store", "reduce", "dot", "broadcast", "reshape", "transpose",
                 "arange")
) | {"scf.for", "scf.if", "scf.yield", "tensor.splat", "func.return"}  # fmt: skip
_IDS: Final = ("group", "grid_groups")
_MOST_VALUES: Final = 256
_ROW_VALUES: Final = 128
_VALUES: Final = 32
_MOST_WARP_BITS: Final = 3


@dataclass
class Plan:
    """The decisions.

    bits: of the team's warp numbers
    layouts: of every tile that has one of its own; extents are padded to powers of two
    rings: of buffers that a warp of its own fills, by load
    copies: of buffers that the team fills itself
    products: how each product is computed
    overlaps: loops with a product that runs beside the next round's first one, by loop
    turns: whether the two warp groups of an overlapped loop take turns at issuing products
    uneven: whether the work of a group grows (1) or shrinks (-1) along the last range, or neither (0)
    cluster: blocks that share loads; shared: the loads they share
    written: parameters (numbers) that the kernel writes
    """

    bits: int
    products: Mapping[Any, str]
    layouts: dict[Any, Layout] = field(default_factory=dict[Any, Layout])
    rings: list[RingPlan] = field(default_factory=list[RingPlan])
    copies: list[CopyPlan] = field(default_factory=list[CopyPlan])
    written: set[int] = field(default_factory=set[int])
    loaded: set[int] = field(default_factory=set[int])
    overlaps: dict[Any, OverlapPlan] = field(default_factory=dict[Any, OverlapPlan])
    turns: bool = True
    uneven: int = 0
    cluster: int = 1
    shared: set[Any] = field(default_factory=set[Any])

    @property
    def specialised(self) -> bool:
        """Whether a warp of its own does the loading."""
        return bool(self.rings)

    def ring_of(self, op: Any) -> RingPlan | None:
        """The ring that load `op` goes through."""
        return next((ring for ring in self.rings if op in ring.loads), None)

    def is_staged(self, op: Any) -> bool:
        """Whether the bytes of load `op` go to shared memory as they lie in the array."""
        return self.ring_of(op) is not None or any(op in copy.loads for copy in self.copies)


def padded(shape: Any) -> tuple[int, ...]:
    """The extents rounded up to powers of two."""
    return tuple(1 << (extent - 1).bit_length() for extent in shape)


def make_plan(function: Any, program: Program, chip: Architecture) -> Plan | None:
    """Decide everything for the `func.func`, or give None."""
    block = function.regions[0].blocks[0]
    operations = list(walk(block))
    if not _eligible(operations, program):
        return None
    dots = [op for op in operations if op.name == "tessera.dot"]
    products = {op: product_kind(op, chip) for op in dots}
    if None in products.values():
        return None
    kinds = {a: p.value.type for a, p in zip(block.arguments, program.parameters, strict=True)}
    aligned = lambda op: access_bytes(kinds[op.operands[0]], op)  # noqa: E731 - known to the two lines below
    bits = _team(operations, products, program, aligned)
    if _largest(operations) > (_MOST_VALUES if dots else _ROW_VALUES) << (bits + 5):
        return None
    plan = Plan(bits, products=products)
    for op in operations:
        if op.name in ("tessera.store", "tessera.write"):
            plan.written |= _parameters(block, op.operands[0])
        if op.name in ("tessera.load", "tessera.read"):
            plan.loaded |= _parameters(block, op.operands[0])
    if dots:
        if chip.bulk_copies:
            plan.rings = find_rings(block, dots, lambda load: _copied_ahead(block, program, plan, load))
        for ring in plan.rings:
            if ring.running is not None and products[ring.running] != WGMMA:
                ring.running = None
        plan.copies = find_copies(dots, lambda load: _copied_by_team(block, program, plan, load))
        plan.uneven = _unevenness(plan.rings)
        if program.options.get("overlap", True):
            plan.turns = bool(program.options.get("turns", True))
            plan.overlaps = find_overlaps([op for op in dots if products[op] == WGMMA], plan.rings)
    sums = sum_layouts(products, operations, bits, plan.is_staged)
    plan.layouts = infer(operations, bits, padded, aligned, sums)
    return plan


def _eligible(operations: list[Any], program: Program) -> bool:
    if program.group is not None or program.domain.kind == "lanes":
        return False
    if not any(is_tile(v.type) for op in operations for v in op.results):
        return False
    for op in operations:
        if op.name not in _OPERATIONS and op.name.partition(".")[0] not in ("arith", "math"):
            return False
        if op.name == "tessera.id" and ir.StringAttr(op.attributes["of"]).value not in _IDS:
            return False
        if op.name == "tessera.reshape" and not _plain_reshape(op):
            return False
        if op.name == "tessera.reduce" and not _plain_reduce(op):
            return False
        if op.name == "scf.for" and any(is_tile(v.type) for v in list(op.operands)[:3]):
            return False
    return True


def _plain_reduce(op: Any) -> bool:
    """Whether padding to powers of two leaves the elements in the order in which they are added."""
    exact = ir.StringAttr(op.attributes["kind"]).value != "sum" or isinstance(
        op.operands[0].type.element_type, ir.IntegerType
    )
    inner = [extent for extent in op.operands[0].type.shape if extent != 1][1:]
    return exact or "axis" in op.attributes or all(extent & (extent - 1) == 0 for extent in inner)


def _plain_reshape(op: Any) -> bool:
    """Whether padding to powers of two does not come between the elements."""
    before, after = (tuple(v.type.shape) for v in (op.operands[0], op.results[0]))
    if [e for e in before if e != 1] == [e for e in after if e != 1]:
        return True
    return all(e & (e - 1) == 0 for e in (*before, *after))


def _team(operations: list[Any], products: dict[Any, str], program: Program, aligned: Aligned) -> int:
    """Bits of the team's warp numbers: what the products ask for.

    Without products, a few warps with much to do each: what reductions cost once a warp then counts for many elements.
    """
    wanted = program.options.get("warps")
    if isinstance(wanted, int):
        return max(0, wanted.bit_length() - 1)
    if products:
        return product_bits(products, operations)
    warps = max(1, _largest(operations) // (_VALUES * 32))
    bits = min(_MOST_WARP_BITS, (warps - 1).bit_length())
    reduced = reduction_bits(operations, padded, aligned)
    return bits if reduced is None else min(bits, reduced)


def _largest(operations: list[Any]) -> int:
    tiles = [v.type for op in operations for v in op.results if is_tile(v.type)]
    return max(math.prod(padded(kind.shape)) * max(1, width(str(kind.element_type)) // 32) for kind in tiles)


def _parameters(block: Any, memory: Any) -> set[int]:
    return {number for number, argument in enumerate(block.arguments) if argument == memory}


def _copied_ahead(block: Any, program: Program, plan: Plan, load: Any) -> bool:
    """Whether the copy engine can do a load: of an aligned array that the kernel only reads."""
    numbers = _parameters(block, load.operands[0])
    if not numbers or numbers & plan.written:
        return False
    kind = program.parameters[next(iter(numbers))].value.type
    if not isinstance(kind, Array) or not kind.aligned or len(kind.shape) > 5:  # noqa: PLR2004 - the engine's limit
        return False
    dropped = set(ir.DenseI64ArrayAttr(load.attributes["dropped"]))
    last = len(kind.shape) - 1
    shape = load.results[0].type.shape
    if last in dropped or len(shape) != 2 or shape[0] > 256:  # noqa: PLR2004 - a box has 256 rows at most
        return False
    return shape[1] * width(str(load.results[0].type.element_type)) // 8 >= 32  # noqa: PLR2004 - the least swizzle


def _copied_by_team(block: Any, program: Program, plan: Plan, load: Any) -> bool:
    """Whether lanes can copy a load to shared memory: of any array that the kernel only reads, a tile of rows."""
    numbers = _parameters(block, load.operands[0])
    if not numbers or numbers & plan.written or plan.ring_of(load) is not None:
        return False
    kind = program.parameters[next(iter(numbers))].value.type
    shape = load.results[0].type.shape
    if not isinstance(kind, Array) or len(shape) != 2 or len(kind.shape) - 1 in ir.DenseI64ArrayAttr(load.attributes["dropped"]):  # noqa: PLR2004, E501
        return False
    return shape[0] >= 8 and shape[1] * kind.dtype.bytes >= 16  # noqa: PLR2004 - what the swizzles repeat after


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


def uses(value: Any) -> Iterator[tuple[Any, int]]:
    """Each use of a value: (operation, operand number)."""
    for use in value.uses:
        yield use.owner.operation, use.operand_number
