"""Defer the store of unaligned rows into the first MMAs of the next group, so that tensor cores need not wait.

before: `for k: acc = dot(a[k], b[k], acc)`, then `store acc`, group after group
after:  the result stays in registers, two elements of 16 bits in each.  In every fourth iteration of the next group a
        warp gathers eight rows in its part of the memory for stores, and behind each iteration's MMA it stores two of
        them.  The last group, and loops with fewer iterations than that takes, store at once.
"""

from collections.abc import Callable, Sequence
from typing import Final

from tessera.core.mlir import Index, ir
from tessera.lowering.base.attributes import dropped_axes, proven_axes
from tessera.lowering.base.emit import required
from tessera.lowering.cuda.base.cache_hints import cache_of
from tessera.lowering.cuda.epilogue.deferred import DeferredEpilogue, DeferredEpilogueContext
from tessera.lowering.cuda.epilogue.unaligned_rows import ROWS, UnalignedRows
from tessera.lowering.cuda.schedule.multibuffer import DeferredPlan
from tessera.lowering.cuda.storage.global_access import Window, access_bytes

_ROUNDS: Final = ROWS // 2
"""Iterations in which the rows that are gathered at a time are stored."""


class DeferredRows(DeferredEpilogue):
    """A result with unaligned rows: two rows of each warp are stored behind the MMA of each iteration."""

    def __init__(self, host: DeferredEpilogueContext, plan: DeferredPlan) -> None:
        super().__init__(host, plan)
        self._rounds = self._layout.shape[0] // host.warp_set.warps // 2

    def meanwhile(self) -> None:
        """Gather eight rows in every fourth iteration, and store two, behind the iteration's MMA in flight."""
        build = self._build
        lower, _, step = self._bounds()
        number = build.divide(build.sub(self._index(), lower), required(build.known(step)))
        due = build.compare("slt", number, self._rounds)
        with build.when(build.both(required(self._is_owed), due)):
            for eight in range(self._rounds // _ROUNDS):
                with build.when(build.compare("eq", number, eight * _ROUNDS)):
                    self._rows(self._places).gather(self._tile(self._words), eight)
            self._rows(self._places).write_two(build.divide(number, _ROUNDS), build.bits(number, _ROUNDS - 1))

    def _at_once(self, words: Sequence[ir.Value], places: Sequence[Index]) -> tuple[int, Callable[[], None]]:
        return self._rounds, lambda: self._rows(places).store(self._tile(words))

    def _rows(self, places: Sequence[Index]) -> UnalignedRows:
        """Return the stores of a result to the window that begins at `places`."""
        op, host = self.plan.store, self._host
        memory = op.operands[0]
        kind = host.stages.array(host.stages.parameter(memory))
        window = Window(
            host.env.memory(memory), tuple(places), dropped_axes(op), tuple(proven_axes(op)), self._layout.shape,
            access_bytes(kind, op), cache_of(op),
        )  # fmt: skip
        return UnalignedRows(host, op, self._layout, window)
