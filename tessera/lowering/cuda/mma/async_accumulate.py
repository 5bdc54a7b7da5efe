"""Loops with several products, as attention's gradients have: each runs until its sums are needed.

before: `for i: s = dot(k, q[i]); dp = dot(v, do[i]); acc = dot(f(s), do[i], acc); dk = dot(g(s, dp), q[i], dk)`
after:  each product is waited for where its sums are first used, and sums that only the next round's product takes are
        not waited for at all; the first product, whose factors are all copied ahead, is issued a round early, behind
        the last one, so that the tensor cores have work while a round begins.  The last round issues one of a round
        that never comes, of whatever bytes are there: nobody reads its sums.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from tessera.core.mlir import ir
from tessera.lowering.cuda.isa import sm90
from tessera.lowering.cuda.mma import overlapped_mma
from tessera.lowering.cuda.mma.wgmma_operands import Operand, Product, issue
from tessera.lowering.cuda.schedule.multibuffer import AsyncMmaPlan, accumulates, is_transposed, source_load
from tessera.lowering.cuda.storage.emit_context import TileContext
from tessera.lowering.cuda.storage.register_tiles import Pending, RegisterTile
from tessera.lowering.cuda.storage.shared_tile import SharedTile


class AccumulateContext(overlapped_mma.OverlapContext, TileContext, Protocol):
    """What such a loop asks of the code around it."""


class AsyncAccumulation:
    """One such loop while its code is emitted."""

    def __init__(self, host: AccumulateContext, plan: AsyncMmaPlan) -> None:
        self._host = host
        self._plan = plan
        self._issued: list[Any] = []
        self._early = [load for load in map(source_load, list(plan.ahead.operands)) if plan.holds(load)]
        self._more: Any = None
        self._early_sums: list[Any] = []

    # -- the loop ----------------------------------------------------------------------------------------------

    def begin_loop(self, some: Any, start: Sequence[Any]) -> list[Any]:
        """In front of the loop, which has rounds if the i1 `some` holds: `start`, and the first round's first product.

        Sums that start as constants get their registers before that product is issued.  LLVM would put them there
        behind it, and ptxas has all products wait for each other where one runs meanwhile.
        """
        fixed = [number for number, value in enumerate(start) if _is_constant(value)]
        ready = list(start)
        for number, value in zip(fixed, self._settled([start[number] for number in fixed]), strict=True):
            ready[number] = value
        return ready + self._issue_early(some)

    def begin_round(self, values: Sequence[Any], later: Any, more: Any) -> None:
        """The sums of the product issued early; `later`, `more`: whether there are rounds before and after this one.

        That one is waited for as well: ptxas does not follow the order of products from one round into the next, and
        would have them all wait for each other.
        """
        host, ahead = self._host, self._plan.ahead
        self._more = more
        self._issued = []
        sums = sm90.wgmma_wait(host.build, 0, values)
        with host.build.when(later):
            host.stages.release_rings(host, self._plan.loop)
        host.env[ahead.results[0]] = RegisterTile(host.layout(ahead.results[0]), "f32", tuple(sums))

    def end_round(self) -> list[Any]:
        """The sums of the next round's first product."""
        return self._early_sums

    def end_loop(self, some: Any) -> None:
        """Behind the loop: wait for everything."""
        host = self._host
        sums = [value for value in self._plan.loop.results if _is_sum(host.env[value])]
        for value in sums:
            tile = host.env[value]
            done = sm90.wgmma_wait(host.build, 0, tile.values)
            host.env[value] = RegisterTile(tile.layout, tile.element, tuple(done))
        if not sums:  # the product of the round that never comes still writes its registers
            sm90.wgmma_wait(host.build, 0)
        with host.build.when(some):
            host.stages.release_rings(host, self._plan.loop)

    # -- products ----------------------------------------------------------------------------------------------

    def holds(self, op: Any) -> bool:
        """Whether an operation stands in the loop's body."""
        return self._plan.holds(op)

    def is_early(self, op: Any) -> bool:
        """Whether `op` was issued in the round before."""
        return op == self._plan.ahead

    def issued(self, op: Any, sums: Sequence[Any]) -> None:
        """`op` was issued: its sums may be used from now on, though not read."""
        host = self._host
        self._issued.append(op)
        value = op.results[0]
        if accumulates(op):
            host.env[value] = RegisterTile(host.layout(value), "f32", tuple(sums))
        else:
            host.env[value] = self._pending(op, sums)
        if op == self._plan.last:
            self._early_sums = self._issue_early(self._more)
            self._issued.append(self._plan.ahead)

    def _settled(self, values: Sequence[Any]) -> Sequence[Any]:
        """The same numbers, in registers."""
        return sm90.wgmma_wait(self._host.build, 0, values) if values else ()

    def _pending(self, op: Any, sums: Sequence[Any]) -> Pending:
        layout = self._host.layout(op.results[0])

        def settle(after: Sequence[Any]) -> RegisterTile:
            del after
            behind = len(self._issued) - 1 - self._issued.index(op)
            done = sm90.wgmma_wait(self._host.build, behind, sums)
            return RegisterTile(layout, "f32", tuple(done))

        return Pending(settle)

    def _issue_early(self, some: Any) -> list[Any]:
        """The first product of the round that comes next, if `some` holds."""
        host, op = self._host, self._plan.ahead
        with host.build.when(some):
            for load in self._early:
                host.stages.wait(load, host.stages.coming(host, load))
        a, b = list(op.operands)
        (m, k), n = a.type.shape, b.type.shape[1]
        left, right = self._factor(a), self._factor(b)
        factors = Operand(left, left.transposed), Operand(right, not right.transposed)
        product = Product((m, n, k), str(a.type.element_type), factors[1], left=factors[0])
        return issue(host.build, host.team, product, None)

    def _factor(self, value: Any) -> SharedTile:
        host, turned = self._host, is_transposed(value)
        load: Any = source_load(value)
        if load in self._early:
            return host.stages.at(host, load, host.stages.coming(host, load), transposed=turned)
        found = host.env[load.results[0]]
        return SharedTile(found.address, found.panels, found.element, turned)


def _is_sum(meaning: Any) -> bool:
    """Whether what a loop gives may be the sums of a product that still runs."""
    return isinstance(meaning, RegisterTile) and meaning.element == "f32"


def _is_constant(value: Any) -> bool:
    """Whether a value is a constant of f32, as sums are before anything is added."""
    known = not isinstance(value.owner, ir.Block) and value.owner.operation.name.endswith(".constant")
    return known and str(value.type) == "f32"
