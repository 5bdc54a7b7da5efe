"""How long tiles live: when their memory can be used again, and whether what they read may change before.

A tile that is computed where it is used keeps alive everything it reads, so a value's life reaches to the last use of
every tile that may be derived from it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tessera.core.mlir import ir
from tessera.lowering.analysis.uniformity import WRITES, Uniformity, is_tile, walk
from tessera.lowering.cuda.simt.tile_values import Buffer

_IN_MEMORY: Final = frozenset(("tessera.reduce", "tessera.dot", "tessera.load"))


@dataclass
class Liveness:
    """Answers for one function; call `done` after each operation to learn which buffers it was the last to need.

    homes: the buffers of carried tiles, by block argument, in which an accumulation may be computed in place
    """

    facts: Uniformity
    homes: dict[Any, Buffer] = field(default_factory=dict[Any, Buffer])
    in_place: set[Any] = field(default_factory=set[Any])
    _places: dict[Any, tuple[Any, int]] = field(default_factory=dict[Any, tuple[Any, int]])
    _ending: dict[Any, list[Buffer]] = field(default_factory=dict[Any, list[Buffer]])

    def read(self, block: Any) -> None:
        """Number the operations of `block` and all inside it."""
        for index, view in enumerate(block.operations):
            op = view.operation
            self._places[op] = (block, index)
            for region in op.regions:
                for inner in region.blocks:
                    self.read(inner)

    # -- memory ------------------------------------------------------------------------------------------------

    def uses(self, value: Any) -> int:
        """How many operands `value` is."""
        return len(list(value.uses))

    def free_after(self, value: Any, buffer: Buffer) -> None:
        """Free `buffer` when nothing needs `value` any more."""
        self._ending.setdefault(self._last(value), []).append(buffer)

    def done(self, op: Any) -> list[Buffer]:
        """The buffers that nothing needs after `op`."""
        return self._ending.pop(op.operation, [])

    def home(self, op: Any) -> Buffer | None:
        """Where an accumulation that only replaces its own carried tile can be computed in place, or None."""
        acc = op.operands[2] if len(op.operands) > 2 else None
        buffer = self.homes.get(acc)
        uses = list(op.results[0].uses)
        if buffer is None or acc is None or len(uses) != 1 or self.uses(acc) != 1:
            return None
        last, number = uses[0].owner.operation, uses[0].operand_number
        carried = list(acc.owner.arguments)[1:]
        together = last.name == "scf.yield" and self._places[last][0] == self._places[op.operation][0] == acc.owner
        if not together or number >= len(carried) or carried[number] != acc:
            return None
        self.in_place.add(op.results[0])
        return buffer

    # -- changes -----------------------------------------------------------------------------------------------

    def overwritten(self, load: Any) -> bool:
        """Whether the memory that `load` reads may be written before the last use of what is derived from it."""
        number = self.facts.memory_class(load.operands[0])
        if number not in self.facts.written or not self.uses(load.results[0]):
            return False
        block, first = self._places[load.operation]
        _, last = self._places[self._last(load.results[0])]
        for view in list(block.operations)[first + 1 : last + 1]:
            op = view.operation
            if self._writes(op, number) and not (op.name == "tessera.store" and self._in_step(load, op)):
                return True
        return False

    def _writes(self, op: Any, number: int) -> bool:
        inner = (o for region in op.regions for block in region.blocks for o in walk(block))
        return any(
            o.name in WRITES and self.facts.memory_class(o.operands[WRITES[o.name]]) == number for o in (op, *inner)
        )

    def _in_step(self, load: Any, store: Any) -> bool:
        """Whether `store` replaces, element by element, what `load` read: every lane reads before it writes."""
        same_window = (
            store.operands[0] == load.operands[0]
            and list(store.operands)[2:] == list(load.operands)[1:]
            and store.attributes["extents"] == load.attributes["extents"]
            and store.attributes["dropped"] == load.attributes["dropped"]
        )
        moved = any(op.name in ("tessera.broadcast", "tessera.transpose") for op in self._derived(load.results[0]))
        return same_window and not moved

    # -- uses --------------------------------------------------------------------------------------------------

    def _derived(self, value: Any) -> Iterator[Any]:
        """The operations that use `value` or a tile derived from it without being kept in memory."""
        seen: set[Any] = set()
        waiting = [value]
        while waiting:
            for use in waiting.pop().uses:
                op = use.owner.operation
                if op in seen:
                    continue
                seen.add(op)
                yield op
                if op.name not in _IN_MEMORY and not len(op.regions):
                    waiting += [result for result in op.results if is_tile(result.type)]

    def _last(self, value: Any) -> Any:
        """The last operation, in the block where `value` is made, during which it is needed."""
        owner = value.owner
        block = owner if isinstance(owner, ir.Block) else self._places[owner.operation][0]
        index = -1 if isinstance(owner, ir.Block) else self._places[owner.operation][1]
        for op in self._derived(value):
            index = max(index, self._within(op, block))
        return list(block.operations)[max(index, 0)].operation

    def _within(self, op: Any, block: Any) -> int:
        """The place in `block` of `op`, or of the operation there that contains it."""
        while self._places[op][0] != block:
            op = op.parent.operation
        return self._places[op][1]
