"""What is decided before any code: who computes, which layout each tile has, which loads are copied ahead.

`make_plan` gives None for kernels that this way of lowering does not hold: those with lanes of their own, shared
buffers, or tiles too large for registers.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tessera.core.layouts import Layout
from tessera.core.mlir import ir
from tessera.core.program.program import Program
from tessera.core.program.types import Array
from tessera.lowering.target.cuda.architectures import Architecture
from tessera.lowering.target.cuda.build import width
from tessera.lowering.target.cuda.tiles.infer import infer
from tessera.lowering.target.cuda.tiles.pipeline import OverlapPlan, RingPlan, find_overlaps, find_rings
from tessera.lowering.target.cuda.uniformity import is_tile, walk

_OPERATIONS: Final = frozenset(
    f"tessera.{name}"
    for name in ("id", "dim", "read", "write", "load", "store", "reduce", "dot", "broadcast", "reshape", "transpose",
                 "arange")
) | {"scf.for", "scf.if", "scf.yield", "tensor.splat", "func.return"}  # fmt: skip
_IDS: Final = ("group", "grid_groups")
_MOST_VALUES: Final = 256
_VALUES: Final = 32
_MOST_WARP_BITS: Final = 3
_GROUP_ROWS: Final = 64


@dataclass
class Plan:
    """The decisions.

    bits: of the team's warp numbers
    layouts: of every tile that has one of its own; extents are padded to powers of two
    rings: of buffers that a warp of its own fills, by load
    tensor_cores: the products that run on them
    overlaps: loops with a product that runs beside the next round's first one, by loop
    written: parameters (numbers) that the kernel writes
    """

    bits: int
    layouts: dict[Any, Layout]
    rings: list[RingPlan] = field(default_factory=list[RingPlan])
    tensor_cores: set[Any] = field(default_factory=set[Any])
    written: set[int] = field(default_factory=set[int])
    loaded: set[int] = field(default_factory=set[int])
    overlaps: dict[Any, OverlapPlan] = field(default_factory=dict[Any, OverlapPlan])

    @property
    def specialised(self) -> bool:
        """Whether a warp of its own does the loading."""
        return bool(self.rings)

    def ring_of(self, op: Any) -> RingPlan | None:
        """The ring that load `op` goes through."""
        return next((ring for ring in self.rings if op in ring.loads), None)


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
    if any(not _fits_wgmma(op, chip) for op in dots):
        return None
    bits = _team(operations, dots, program)
    if _largest(operations) > _MOST_VALUES << (bits + 5):
        return None
    plan = Plan(bits, infer(block, operations, bits, padded))
    plan.tensor_cores = set(dots)
    for op in operations:
        if op.name in ("tessera.store", "tessera.write"):
            plan.written |= _parameters(block, op.operands[0])
        if op.name in ("tessera.load", "tessera.read"):
            plan.loaded |= _parameters(block, op.operands[0])
    if dots:
        plan.rings = find_rings(block, dots, lambda load: _copied_ahead(block, program, plan, load))
        if program.options.get("overlap", True):
            plan.overlaps = find_overlaps(dots, plan.rings)
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
        if op.name == "scf.for" and any(is_tile(v.type) for v in list(op.operands)[:3]):
            return False
    return True


def _plain_reshape(op: Any) -> bool:
    """Whether padding to powers of two does not come between the elements."""
    before, after = (tuple(v.type.shape) for v in (op.operands[0], op.results[0]))
    if [e for e in before if e != 1] == [e for e in after if e != 1]:
        return True
    return all(e & (e - 1) == 0 for e in (*before, *after))


def _fits_wgmma(op: Any, chip: Architecture) -> bool:
    """Whether a product is one for warp groups: 16-bit elements, f32 sums, whole blocks of 64 rows."""
    if not chip.name.startswith("sm_90a") or op.attributes["exact"].value:
        return False
    a, b = op.operands[0].type, op.operands[1].type
    (m, k), n = a.shape, b.shape[1]
    element = str(a.element_type)
    if element not in ("bf16", "f16") or str(b.element_type) != element or str(op.results[0].type.element_type) != "f32":
        return False
    return all(e & (e - 1) == 0 for e in (m, n, k)) and m % _GROUP_ROWS == 0 and n >= 16 and k >= 16  # noqa: PLR2004


def _team(operations: list[Any], dots: list[Any], program: Program) -> int:
    """Bits of the team's warp numbers: two warp groups where the products have rows for them."""
    wanted = program.options.get("warps")
    if isinstance(wanted, int):
        return max(0, wanted.bit_length() - 1)
    if dots:
        rows = min(op.operands[0].type.shape[0] for op in dots)
        return 2 if rows == _GROUP_ROWS else 3
    warps = max(1, _largest(operations) // (_VALUES * 32))
    return min(_MOST_WARP_BITS, (warps - 1).bit_length())


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


def uses(value: Any) -> Iterator[tuple[Any, int]]:
    """Each use of a value: (operation, operand number)."""
    for use in value.uses:
        yield use.owner.operation, use.operand_number
