"""`tessera.dot` on the tensor cores of sm_90a: where the factors come from, and who waits for the sums.

The left factor may come from registers; what else is there is first written to shared memory in the layout that the
tensor cores read.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from tessera.core.layouts import accumulator
from tessera.lowering.cuda.isa import sm90
from tessera.lowering.cuda.mma import overlapped_mma as overlap
from tessera.lowering.cuda.mma.async_accumulate import AsyncAccumulation
from tessera.lowering.cuda.mma.operand_fragments import Words
from tessera.lowering.cuda.mma.overlapped_mma import OverlappedMma
from tessera.lowering.cuda.mma.wgmma_operands import Operand, Product, issue
from tessera.lowering.cuda.pipeline.cp_async_pipeline import CpAsyncCopies
from tessera.lowering.cuda.schedule.mma_selection import STEP_BYTES, factor_type, is_swapped, lies_across_k
from tessera.lowering.cuda.schedule.multibuffer import accumulates
from tessera.lowering.cuda.schedule.view import ScheduleView
from tessera.lowering.cuda.storage.emit_context import DeferredStore, TileContext
from tessera.lowering.cuda.storage.register_tiles import Pending, RegisterTile, pack
from tessera.lowering.cuda.storage.register_to_shared import stage_operand
from tessera.lowering.cuda.storage.shared_tile import SharedTile
from tessera.lowering.tile.pack_floats import FACTORS

_PROMOTED_COLUMNS = 128
"""Sums of one block that are not added yet take 64 registers a lane."""


class WgmmaContext(overlap.OverlapContext, TileContext, Protocol):
    """What products ask of the code around them."""

    plan: ScheduleView
    overlap: OverlappedMma | None
    running: AsyncAccumulation | None

    @property
    def later(self) -> DeferredStore | None:
        """The store that waits for the next group, if there is one."""
        ...

    copied: CpAsyncCopies


def dot(host: WgmmaContext, op: Any) -> None:
    """`tessera.dot`: `a b`, or `acc + a b`."""
    build, team, overlapped, loop = host.build, host.team, host.overlap, host.running
    if loop is not None and loop.is_early(op):
        return
    layout = host.layout(op.results[0])
    sums = list(op.operands)[2:]
    product = _product(host, op)
    accumulators = host.tile(sums[0], layout).values if sums else None
    if overlapped is not None and accumulators is not None and overlapped.keeps(op, product, accumulators):
        return
    if FACTORS in op.attributes and host.plan.schedule.promotion_interval:
        results = _promoted(host, product, accumulators)
        host.define(op.results[0], RegisterTile(layout, "f32", tuple(results)))
        return
    if overlapped is not None:
        overlapped.enter(op)
    results = issue(build, team, product, accumulators)
    if loop is not None and loop.holds(op):
        loop.issued(op, results)
        return
    if overlapped is not None and overlapped.runs(op, results):
        return
    if accumulates(op) and not product.words and host.copied.is_ahead(op):
        host.env[op.results[0]] = Pending(lambda after: _settled(host, op, results, after))
        return
    if host.stages.is_running(op):
        if host.later is not None:
            host.later.meanwhile()
        sm90.wgmma_wait(build, 1)
        host.stages.release_before(host, op)
    else:
        # The hardware reads the registers of words until then; ptxas would give them to somebody else.
        held = product.words if lies_across_k(op) else ()
        results = sm90.wgmma_wait(build, 0, results, held)
    host.define(op.results[0], RegisterTile(layout, "f32", tuple(results)))


def _settled(host: WgmmaContext, op: Any, sums: Sequence[Any], after: Sequence[Any]) -> RegisterTile:
    """The sums of a product that ran while lanes started the copies of a later round."""
    done = sm90.wgmma_wait(host.build, 0, sums, after)
    host.stages.release_behind(host, op)
    return RegisterTile(host.layout(op.results[0]), "f32", tuple(done))


def _promoted(host: WgmmaContext, product: Product, sums: Sequence[Any] | None) -> list[Any]:
    """A product a part of K, and a block of sums, at a time; the parts are added in f32.

    While one warp group adds, the other one's tensor cores work.  All blocks share the registers of the first one:
    ptxas cannot start a block before those of the last one are added, which would take twice as many.
    """
    build, (m, n, k), step = host.build, product.shape, host.plan.schedule.promotion_interval
    results: list[Any] = list(sums or ())
    zero = sm90.hidden_zero(build)
    found = [build.value("llvm.mlir.undef", [], "f32")] * replace(product, widest=_PROMOTED_COLUMNS).block
    for first in range(0, k, step):
        part = replace(product, shape=(m, n, min(step, k - first)), first=first, widest=_PROMOTED_COLUMNS)
        for number in range(part.blocks(host.team)):
            found = sm90.wgmma_wait(build, 0, issue(build, host.team, part, found, only=number, unless=zero))
            before = results[number * part.block : (number + 1) * part.block]
            added = (
                [build.value("arith.addf", pair, "f32") for pair in zip(before, found, strict=True)]
                if before
                else found
            )
            results[number * part.block : (number + 1) * part.block] = sm90.pinned(build, added)
    return results


def _product(host: WgmmaContext, op: Any) -> Product:
    a, b = list(op.operands)[:2]
    (m, k), n = a.type.shape, b.type.shape[1]
    element = factor_type(op)
    across = _across(host, op)
    if across is not None:
        return across
    found = host.env[a]
    if not isinstance(found, SharedTile):  # first: moving it between layouts needs the memory where b is written then
        values = host.tile(a, accumulator((m, k), host.team.bits)).values
        words = tuple(pack(host.build, values[place : place + 2]) for place in range(0, len(values), 2))
        return Product((m, n, k), element, _factor(host, b, left=False), words=words)
    right = _factor(host, b, left=False)
    return Product((m, n, k), element, right, left=_factor(host, a, left=True))


def _across(host: WgmmaContext, op: Any) -> Product | None:
    """A product of f32 with one factor that lies across K, which is read into registers; None where both lie along it.

    Where that is the right one, the transpose of the product is computed.
    """
    if not lies_across_k(op):
        return None
    swapped = is_swapped(op)
    a, b = (host.env[value] for value in list(op.operands)[:2])
    tile, other = (b, a) if swapped else (a, b)
    (m, n), k = op.results[0].type.shape, op.operands[0].type.shape[1]
    rows, columns = (n, m) if swapped else (m, n)
    layout = host.layout(op.results[0])
    reader = Words(host.build, host.team, tile, layout.transposed((1, 0)) if swapped else layout, 0, (3, 4))
    together, step = 16 * host.team.warps, STEP_BYTES // tile.panels.size
    words = [
        word for row in range(0, rows, together) for place in range(0, k, step) for word in reader.load(row, place, 4)
    ]
    return Product((rows, columns, k), factor_type(op), Operand(other, outer_major=False), words=tuple(words))


def _factor(host: WgmmaContext, value: Any, *, left: bool) -> Operand:
    """A factor in shared memory, where it is written if it is not there yet."""
    found = host.env[value]
    tile = found if isinstance(found, SharedTile) else stage_operand(host, host.tile(value))
    # The last axis of what lies there is contiguous: K of a left factor, the columns of a right one.
    return Operand(tile, tile.transposed if left else not tile.transposed)
