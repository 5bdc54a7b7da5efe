"""Defer the epilogue: store results while the first MMAs of the next group run, so that tensor cores need not wait.

before: `for k: acc = dot(a[k], b[k], acc)`, then `store acc`, group after group
after:  the result stays in registers, two elements of 16 bits in each; behind the MMA of iteration n of the next
        group its column block n is stored.  The last group, and loops with fewer iterations than column blocks,
        store at once.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from tessera.core.mlir import Index, ir
from tessera.lowering.base.emit import required
from tessera.lowering.cuda.epilogue import tma
from tessera.lowering.cuda.epilogue.tma import EpilogueTile
from tessera.lowering.cuda.isa import sm90
from tessera.lowering.cuda.schedule.multibuffer import DeferredPlan
from tessera.lowering.cuda.storage.emit_context import TileContext
from tessera.lowering.cuda.storage.register_tiles import RegisterTile, from_words, to_words

_BYTES: Final = 2
_WORD: Final = 4


class DeferredEpilogueContext(tma.TmaStoreContext, TileContext, Protocol):
    """The context that a deferred epilogue needs."""


class DeferredEpilogue(ABC):
    """The only store of a kernel: its result stays in registers until the next group."""

    def __init__(self, host: DeferredEpilogueContext, plan: DeferredPlan) -> None:
        self.plan = plan
        self._host = host
        self._build = host.build
        _, self._value, *self._starts = plan.store.operands
        self._layout = host.layout(self._value)
        self._element = str(ir.ShapedType(self._value.type).element_type)
        self._last: ir.Value | None = None
        self._is_owed: ir.Value | None = None
        self._places: Sequence[ir.Value] = ()
        self._words: Sequence[ir.Value] = ()
        self._next: list[ir.Value] = []

    def begin(self) -> list[ir.Value]:
        """Return what the first group begins with: no result is kept."""
        build = self._build
        words = [build.word(0) for _ in range(self._layout.count * _BYTES // _WORD)]
        return [self._flag(known=False), *(build.index(0) for _ in self._starts), *words]

    def begin_group(self, values: Sequence[ir.Value], last: ir.Value) -> None:
        """Begin a group with these values; `last` (an i1): none follows."""
        self._is_owed, *rest = values
        self._places, self._words = rest[: len(self._starts)], rest[len(self._starts) :]
        self._last = last

    @abstractmethod
    def meanwhile(self) -> None:
        """Store the part for this iteration, behind its MMA in flight."""

    @abstractmethod
    def _at_once(self, words: Sequence[ir.Value], places: Sequence[Index]) -> tuple[int, Callable[[], None]]:
        """Return how many iterations a deferred store takes, and a function that stores the result now."""

    def keep(self) -> None:
        """Replace the store: keep its result, or store it now where the next group has too few iterations."""
        host, build = self._host, self._build
        # The accumulators' registers belong to the tensor cores again from the next group's first MMA on.
        words = sm90.pinned(build, to_words(build, host.tile(self._value).values))
        places = [build.index(v) for v in host.env.scalars(self._starts)]
        rounds, store = self._at_once(words, places)
        lower, end, step = self._bounds()
        short = build.compare("sle", end, build.add(lower, build.mul(step, rounds - 1)))
        at_once = build.value("arith.ori", [short, required(self._last)], "i1")
        with build.when(at_once):
            store()
        deferred = build.value("arith.xori", [at_once, self._flag(known=True)], "i1")
        self._next = [deferred, *places, *words]

    def end_group(self) -> list[ir.Value]:
        """Return what the next group begins with."""
        return self._next

    def _bounds(self) -> list[Index]:
        """Return the first, the end and the step of the loop's index."""
        return self._host.env.scalars(list(self.plan.loop.operands)[:3])

    def _index(self) -> Index:
        """Return the loop's index in this iteration."""
        return self._host.env.scalar(self.plan.loop.regions[0].blocks[0].arguments[0])

    def _tile(self, words: Sequence[ir.Value]) -> RegisterTile:
        return RegisterTile(self._layout, self._element, tuple(from_words(self._build, words, self._element)))

    def _flag(self, *, known: bool) -> ir.Value:
        zero = self._build.word(0)
        return self._build.compare("eq" if known else "ne", zero, zero)


class DeferredTmaStore(DeferredEpilogue):
    """A result that is stored by TMA: a column block behind the MMA of each iteration."""

    def __init__(self, host: DeferredEpilogueContext, plan: DeferredPlan) -> None:
        super().__init__(host, plan)
        self._owed: EpilogueTile | None = None

    def begin_group(self, values: Sequence[ir.Value], last: ir.Value) -> None:
        """Begin a group with these values; `last` (an i1): none follows."""
        super().begin_group(values, last)
        self._owed = EpilogueTile.of(self._host, self.plan.store, self._tile(self._words), self._places)

    def meanwhile(self) -> None:
        """Store the column block for this iteration, behind its MMA in flight."""
        build, owed = self._build, self._owed
        if owed is None:
            message = "an iteration outside of a group"
            raise AssertionError(message)
        index = self._index()
        due = build.compare("slt", index, self._round(owed.blocks))
        with build.when(build.both(required(self._is_owed), due)):
            for block in range(owed.blocks):
                with build.when(build.compare("eq", index, self._round(block))):
                    owed.store(block)

    def _at_once(self, words: Sequence[ir.Value], places: Sequence[Index]) -> tuple[int, Callable[[], None]]:
        gathering = EpilogueTile.of(self._host, self.plan.store, self._tile(words), places)
        return gathering.blocks, gathering.store_all

    def _round(self, number: int) -> Index:
        """Return the loop's index in an iteration."""
        lower, _, step = self._bounds()
        return self._build.add(lower, self._build.mul(step, number))
