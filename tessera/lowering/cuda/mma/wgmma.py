"""Lower `tessera.dot` to `wgmma` on sm_90a: find or stage the operands, issue, and wait for the accumulators.

Operand A may come from registers; other operands in registers are first staged in shared memory, in the layout that the
tensor cores read.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from tessera.core.layouts import accumulator
from tessera.core.mlir import AnyOp, ir
from tessera.lowering.cuda.isa import sm90
from tessera.lowering.cuda.mma import overlapped_mma as overlap
from tessera.lowering.cuda.mma.async_accumulate import AsyncAccumulation
from tessera.lowering.cuda.mma.operand_fragments import Words
from tessera.lowering.cuda.mma.overlapped_mma import OverlappedMma
from tessera.lowering.cuda.mma.wgmma_operands import Operand, Product, issue
from tessera.lowering.cuda.pipeline.cp_async_pipeline import CpAsyncCopies
from tessera.lowering.cuda.schedule.mma_selection import STEP_BYTES, is_swapped, lies_across_k, operand_type
from tessera.lowering.cuda.schedule.multibuffer import accumulates
from tessera.lowering.cuda.schedule.view import ScheduleView
from tessera.lowering.cuda.storage.emit_context import DeferredStore, TileContext
from tessera.lowering.cuda.storage.register_tiles import Pending, RegisterTile, pack
from tessera.lowering.cuda.storage.register_to_shared import stage_operand
from tessera.lowering.cuda.storage.shared_tile import SharedTile
from tessera.lowering.tile.pack_floats import OPERAND_FORMAT

_PROMOTED_COLUMNS = 128
"""Accumulators of one block that are not promoted yet take 64 registers per lane."""


class WgmmaContext(overlap.OverlapContext, TileContext, Protocol):
    """Declare what `wgmma` needs of the emitter."""

    plan: ScheduleView
    overlap: OverlappedMma | None
    running: AsyncAccumulation | None

    @property
    def deferred(self) -> DeferredStore | None:
        """Return the store that is deferred to the next group, if there is one."""
        ...

    copied: CpAsyncCopies


def dot(host: WgmmaContext, op: AnyOp) -> None:
    """Emit `tessera.dot`: `a b`, or `acc + a b`."""
    build, warp_set, overlapped, loop = host.build, host.warp_set, host.overlap, host.running
    if loop is not None and loop.is_early(op):
        return
    layout = host.layout(op.results[0])
    accumulators = list(op.operands)[2:]
    product = _product(host, op)
    initial = host.tile(accumulators[0], layout).values if accumulators else None
    if overlapped is not None and initial is not None and overlapped.keeps(op, product, initial):
        return
    if OPERAND_FORMAT in op.attributes and host.plan.schedule.promotion_interval:
        results = _promoted(host, product, initial)
        host.define(op.results[0], RegisterTile(layout, "f32", tuple(results)))
        return
    if overlapped is not None:
        overlapped.enter(op)
    results = issue(build, warp_set, product, initial)
    if loop is not None and loop.holds(op):
        loop.issued(op, results)
        return
    if overlapped is not None and overlapped.runs(op, results):
        return
    if accumulates(op) and not product.words and host.copied.is_prefetched(op):
        host.env[op.results[0]] = Pending(lambda after: _settled(host, op, results, after))
        return
    if host.stages.is_running(op):
        if host.deferred is not None:
            host.deferred.meanwhile()
        sm90.wgmma_wait(build, 1)
        host.stages.release_before(host, op)
    else:
        # The hardware reads the registers of words until then; ptxas would reuse them for other values.
        held = product.words if lies_across_k(op) else ()
        results = sm90.wgmma_wait(build, 0, results, held)
    host.define(op.results[0], RegisterTile(layout, "f32", tuple(results)))


def _settled(
    host: WgmmaContext, op: AnyOp, accumulators: Sequence[ir.Value], after: Sequence[ir.Value]
) -> RegisterTile:
    """Wait for an MMA that ran while lanes started the copies of a later iteration."""
    done = sm90.wgmma_wait(host.build, 0, accumulators, after)
    host.stages.release_behind(host, op)
    return RegisterTile(host.layout(op.results[0]), "f32", tuple(done))


def _promoted(host: WgmmaContext, product: Product, accumulators: Sequence[ir.Value] | None) -> list[ir.Value]:
    """Promote partial results (two-level accumulation): issue a part of K and a block at a time, and add in f32.

    While one warp group adds, the other one's tensor cores work.  All blocks share the registers of the first one, so
    that ptxas cannot start a block before the previous one is added, which would take twice as many registers.
    """
    build, (m, n, k), step = host.build, product.shape, host.plan.schedule.promotion_interval
    results: list[ir.Value] = list(accumulators or ())
    zero = sm90.hidden_zero(build)
    found = [build.value("llvm.mlir.undef", [], "f32")] * replace(product, widest=_PROMOTED_COLUMNS).block
    for first in range(0, k, step):
        part = replace(product, shape=(m, n, min(step, k - first)), first=first, widest=_PROMOTED_COLUMNS)
        for number in range(part.blocks(host.warp_set)):
            found = sm90.wgmma_wait(build, 0, issue(build, host.warp_set, part, found, only=number, unless=zero))
            before = results[number * part.block : (number + 1) * part.block]
            added = (
                [build.value("arith.addf", pair, "f32") for pair in zip(before, found, strict=True)]
                if before
                else found
            )
            results[number * part.block : (number + 1) * part.block] = sm90.pinned(build, added)
    return results


def _product(host: WgmmaContext, op: AnyOp) -> Product:
    a, b = list(op.operands)[:2]
    (m, k), n = ir.ShapedType(a.type).shape, ir.ShapedType(b.type).shape[1]
    element = operand_type(op)
    across = _across(host, op)
    if across is not None:
        return across
    found = host.env[a]
    if not isinstance(found, SharedTile):  # first: converting its layout uses the memory into which b is staged then
        values = host.tile(a, accumulator((m, k), host.warp_set.bits)).values
        words = tuple(pack(host.build, values[place : place + 2]) for place in range(0, len(values), 2))
        return Product((m, n, k), element, _operand(host, b, left=False), words=words)
    right = _operand(host, b, left=False)
    return Product((m, n, k), element, right, left=_operand(host, a, left=True))


def _across(host: WgmmaContext, op: AnyOp) -> Product | None:
    """Prepare an MMA of f32 that reads one operand, whose K is not contiguous, into registers; else return None.

    Where that operand is B, the transposed product is computed.
    """
    if not lies_across_k(op):
        return None
    swapped = is_swapped(op)
    a, b = (host.env.shared(value) for value in list(op.operands)[:2])
    tile, other = (b, a) if swapped else (a, b)
    (m, n), k = ir.ShapedType(op.results[0].type).shape, ir.ShapedType(op.operands[0].type).shape[1]
    rows, columns = (n, m) if swapped else (m, n)
    layout = host.layout(op.results[0])
    reader = Words(host.build, host.warp_set, tile, layout.transposed((1, 0)) if swapped else layout, 0, (3, 4))
    together, step = 16 * host.warp_set.warps, STEP_BYTES // tile.panels.size
    words = [
        word for row in range(0, rows, together) for place in range(0, k, step) for word in reader.load(row, place, 4)
    ]
    return Product((rows, columns, k), operand_type(op), Operand(other, outer_major=False), words=tuple(words))


def _operand(host: WgmmaContext, value: ir.Value, *, left: bool) -> Operand:
    """Return an operand in shared memory, staged there if it is still in registers."""
    found = host.env[value]
    tile = found if isinstance(found, SharedTile) else stage_operand(host, host.tile(value))
    # The last axis in memory is contiguous: K of operand A, the columns of B.
    return Operand(tile, tile.transposed if left else not tile.transposed)
