"""Results that are stored while the first products of the next group run, so that the tensor cores need not wait.

before: `for k: acc = dot(a[k], b[k], acc)`, then `store acc`, group after group
after:  the result stays in registers, two elements of 16 bits in each; behind the product of round n of the next group
        its column block n is stored.  The last group, and loops of fewer rounds than column blocks, store at once.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from tessera.lowering.cuda.epilogue import tma
from tessera.lowering.cuda.epilogue.tma import EpilogueTile
from tessera.lowering.cuda.isa import sm90
from tessera.lowering.cuda.schedule.multibuffer import DeferredPlan
from tessera.lowering.cuda.storage.emit_context import TileContext
from tessera.lowering.cuda.storage.register_tiles import RegisterTile, from_words, to_words

_BYTES: Final = 2
_WORD: Final = 4


class DeferredEpilogueContext(tma.TmaStoreContext, TileContext, Protocol):
    """What such a store asks of the code around it."""


class DeferredEpilogue(ABC):
    """The one store of a kernel, while the team's code is emitted: its result waits in registers for the next group."""

    def __init__(self, host: DeferredEpilogueContext, plan: DeferredPlan) -> None:
        self.plan = plan
        self._host = host
        self._build = host.build
        _, self._value, *self._starts = plan.store.operands
        self._layout = host.layout(self._value)
        self._element = str(self._value.type.element_type)
        self._last: Any = None
        self._is_owed: Any = None
        self._places: Sequence[Any] = ()
        self._words: Sequence[Any] = ()
        self._next: list[Any] = []

    def begin(self) -> list[Any]:
        """What the first group begins with: nothing is owed."""
        build = self._build
        words = [build.word(0) for _ in range(self._layout.count * _BYTES // _WORD)]
        return [self._flag(known=False), *(build.index(0) for _ in self._starts), *words]

    def begin_group(self, values: Sequence[Any], last: Any) -> None:
        """A group begins with these values; `last` (an i1): none follows."""
        self._is_owed, *rest = values
        self._places, self._words = rest[: len(self._starts)], rest[len(self._starts) :]
        self._last = last

    @abstractmethod
    def meanwhile(self) -> None:
        """Behind a round's product, which runs: store what this round is for."""

    @abstractmethod
    def _at_once(self, words: Sequence[Any], places: Sequence[Any]) -> tuple[int, Callable[[], None]]:
        """The rounds that storing later takes, and what stores a result now."""

    def keep(self) -> None:
        """In place of the store: keep what is stored, or store it where there is no time later."""
        host, build = self._host, self._build
        # The registers of the sums are the tensor cores' again from the next group's first product on.
        words = sm90.pinned(build, to_words(build, host.tile(self._value).values))
        places = [build.index(host.env[v]) for v in self._starts]
        rounds, store = self._at_once(words, places)
        lower, end, step = self._bounds()
        short = build.compare("sle", end, build.add(lower, build.mul(step, rounds - 1)))
        at_once = build.value("arith.ori", [short, self._last], "i1")
        with build.when(at_once):
            store()
        later = build.value("arith.xori", [at_once, self._flag(known=True)], "i1")
        self._next = [later, *places, *words]

    def end_group(self) -> list[Any]:
        """What the next group begins with."""
        return self._next

    def _bounds(self) -> list[Any]:
        """The first, the end and the step of the loop's index."""
        return [self._host.env[v] for v in list(self.plan.loop.operands)[:3]]

    def _index(self) -> Any:
        """The loop's index in this round."""
        return self._host.env[self.plan.loop.regions[0].blocks[0].arguments[0]]

    def _tile(self, words: Sequence[Any]) -> RegisterTile:
        return RegisterTile(self._layout, self._element, tuple(from_words(self._build, words, self._element)))

    def _flag(self, *, known: bool) -> Any:
        zero = self._build.word(0)
        return self._build.compare("eq" if known else "ne", zero, zero)


class DeferredStore(DeferredEpilogue):
    """A result that the copy engine stores: a column block behind the product of each round."""

    def __init__(self, host: DeferredEpilogueContext, plan: DeferredPlan) -> None:
        super().__init__(host, plan)
        self._owed: EpilogueTile | None = None

    def begin_group(self, values: Sequence[Any], last: Any) -> None:
        """A group begins with these values; `last` (an i1): none follows."""
        super().begin_group(values, last)
        self._owed = EpilogueTile.of(self._host, self.plan.store, self._tile(self._words), self._places)

    def meanwhile(self) -> None:
        """Behind a round's product, which runs: store the column block of this round."""
        build, owed = self._build, self._owed
        if owed is None:
            message = "a round outside of a group"
            raise AssertionError(message)
        index = self._index()
        due = build.compare("slt", index, self._round(owed.blocks))
        with build.when(build.all_of([self._is_owed, due])):
            for block in range(owed.blocks):
                with build.when(build.compare("eq", index, self._round(block))):
                    owed.store(block)

    def _at_once(self, words: Sequence[Any], places: Sequence[Any]) -> tuple[int, Callable[[], None]]:
        gathering = EpilogueTile.of(self._host, self.plan.store, self._tile(words), places)
        return gathering.blocks, gathering.store_all

    def _round(self, number: int) -> Any:
        """The loop's index in a round."""
        lower, _, step = self._bounds()
        return self._build.add(lower, self._build.mul(step, number))
