"""Rows that begin anywhere, stored while the first products of the next group run: tensor cores need not wait.

before: `for k: acc = dot(a[k], b[k], acc)`, then `store acc`, group after group
after:  the result stays in registers, two elements of 16 bits in each.  In every fourth round of the next group a warp
        gathers eight rows in its part of the memory for stores, and behind each round's product it stores two of them.
        The last group, and loops of fewer rounds than that takes, store at once.
"""

from collections.abc import Sequence
from typing import Any, Final

from tessera.lowering.target.cuda.cache import cache_of
from tessera.lowering.target.cuda.tiles import assembly
from tessera.lowering.target.cuda.tiles.access import Window, access_bytes
from tessera.lowering.target.cuda.tiles.later_stores import Host
from tessera.lowering.target.cuda.tiles.pipeline import LaterPlan
from tessera.lowering.target.cuda.tiles.row_stores import ROWS, Rows
from tessera.lowering.target.cuda.tiles.values import RegisterTile, from_words, to_words
from tessera.lowering.tile.attributes import dropped_axes, proven_axes

_ROUNDS: Final = ROWS // 2
"""In which the rows that are gathered at a time are stored."""


class LaterRows:
    """The one store of a kernel, while the team's code is emitted."""

    def __init__(self, host: Host, plan: LaterPlan) -> None:
        self.plan = plan
        self._host = host
        self._build = host.build
        _, self._value, *self._starts = plan.store.operands
        self._layout = host.layout(self._value)
        self._element = str(self._value.type.element_type)
        self._rounds = self._layout.shape[0] // host.team.warps // 2
        self._last: Any = None
        self._is_owed: Any = None
        self._places: Sequence[Any] = ()
        self._words: Sequence[Any] = ()
        self._next: list[Any] = []

    def begin(self) -> list[Any]:
        """What the first group begins with: nothing is owed."""
        build = self._build
        words = [build.word(0) for _ in range(self._layout.count // 2)]
        return [self._flag(known=False), *(build.index(0) for _ in self._starts), *words]

    def begin_group(self, values: Sequence[Any], last: Any) -> None:
        """A group begins with these values; `last` (an i1): none follows."""
        self._is_owed, *rest = values
        self._places, self._words = rest[: len(self._starts)], rest[len(self._starts) :]
        self._last = last

    def meanwhile(self) -> None:
        """Behind a round's product, which runs: gather eight rows in every fourth round, and store two."""
        build, host = self._build, self._host
        lower, _, step = (host.env[v] for v in list(self.plan.loop.operands)[:3])
        index = host.env[self.plan.loop.regions[0].blocks[0].arguments[0]]
        number = build.divide(build.sub(index, lower), build.known(step))
        due = build.compare("slt", number, self._rounds)
        with build.when(build.all_of([self._is_owed, due])):
            for eight in range(self._rounds // _ROUNDS):
                with build.when(build.compare("eq", number, eight * _ROUNDS)):
                    self._rows(self._places).gather(self._tile(self._words), eight)
            self._rows(self._places).write_two(build.divide(number, _ROUNDS), build.bits(number, _ROUNDS - 1))

    def keep(self) -> None:
        """In place of the store: keep what is stored, or store it where there is no time later."""
        host, build = self._host, self._build
        # The registers of the sums are the tensor cores' again from the next group's first product on.
        words = assembly.pinned(build, to_words(build, host.tile(self._value).values))
        places = [build.index(host.env[v]) for v in self._starts]
        lower, end, step = (host.env[v] for v in list(self.plan.loop.operands)[:3])
        short = build.compare("sle", end, build.add(lower, build.mul(step, self._rounds - 1)))
        at_once = build.value("arith.ori", [short, self._last], "i1")
        with build.when(at_once):
            self._rows(places).store(self._tile(words))
        later = build.value("arith.xori", [at_once, self._flag(known=True)], "i1")
        self._next = [later, *places, *words]

    def end_group(self) -> list[Any]:
        """What the next group begins with."""
        return self._next

    def _tile(self, words: Sequence[Any]) -> RegisterTile:
        return RegisterTile(self._layout, self._element, tuple(from_words(self._build, words, self._element)))

    def _rows(self, places: Sequence[Any]) -> Rows:
        """The rows of a result that goes to what begins at `places`."""
        op, host = self.plan.store, self._host
        memory = op.operands[0]
        kind = host.stages.array(host.stages.parameter(memory))
        window = Window(
            host.env[memory], tuple(places), dropped_axes(op), tuple(proven_axes(op)), self._layout.shape,
            access_bytes(kind, op), cache_of(op),
        )  # fmt: skip
        return Rows(host, self._layout, window)

    def _flag(self, *, known: bool) -> Any:
        zero = self._build.word(0)
        return self._build.compare("eq" if known else "ne", zero, zero)
