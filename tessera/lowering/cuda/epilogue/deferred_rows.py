"""Rows that begin anywhere, stored while the first products of the next group run: tensor cores need not wait.

before: `for k: acc = dot(a[k], b[k], acc)`, then `store acc`, group after group
after:  the result stays in registers, two elements of 16 bits in each.  In every fourth round of the next group a warp
        gathers eight rows in its part of the memory for stores, and behind each round's product it stores two of them.
        The last group, and loops of fewer rounds than that takes, store at once.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from tessera.lowering.base.attributes import dropped_axes, proven_axes
from tessera.lowering.cuda.base.cache_hints import cache_of
from tessera.lowering.cuda.epilogue.deferred import DeferredEpilogue, DeferredEpilogueContext
from tessera.lowering.cuda.epilogue.unaligned_rows import ROWS, Rows
from tessera.lowering.cuda.schedule.multibuffer import DeferredPlan
from tessera.lowering.cuda.storage.global_access import Window, access_bytes

_ROUNDS: Final = ROWS // 2
"""In which the rows that are gathered at a time are stored."""


class DeferredRows(DeferredEpilogue):
    """A result whose rows begin anywhere: two rows of each warp behind the product of each round."""

    def __init__(self, host: DeferredEpilogueContext, plan: DeferredPlan) -> None:
        super().__init__(host, plan)
        self._rounds = self._layout.shape[0] // host.team.warps // 2

    def meanwhile(self) -> None:
        """Behind a round's product, which runs: gather eight rows in every fourth round, and store two."""
        build = self._build
        lower, _, step = self._bounds()
        number = build.divide(build.sub(self._index(), lower), build.known(step))
        due = build.compare("slt", number, self._rounds)
        with build.when(build.all_of([self._is_owed, due])):
            for eight in range(self._rounds // _ROUNDS):
                with build.when(build.compare("eq", number, eight * _ROUNDS)):
                    self._rows(self._places).gather(self._tile(self._words), eight)
            self._rows(self._places).write_two(build.divide(number, _ROUNDS), build.bits(number, _ROUNDS - 1))

    def _at_once(self, words: Sequence[Any], places: Sequence[Any]) -> tuple[int, Callable[[], None]]:
        return self._rounds, lambda: self._rows(places).store(self._tile(words))

    def _rows(self, places: Sequence[Any]) -> Rows:
        """The rows of a result that goes to what begins at `places`."""
        op, host = self.plan.store, self._host
        memory = op.operands[0]
        kind = host.stages.array(host.stages.parameter(memory))
        window = Window(
            host.env[memory], tuple(places), dropped_axes(op), tuple(proven_axes(op)), self._layout.shape,
            access_bytes(kind, op), cache_of(op),
        )  # fmt: skip
        return Rows(host, op, self._layout, window)
