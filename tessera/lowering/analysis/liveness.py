"""Analyse liveness: which operations read a value's memory, the last of them, and whether memory changes before.

A tile that is recomputed where it is used keeps alive everything it is computed from, so a value is read by the users
of every such tile too.  Operations are numbered in program order, outer before inner; the branches of an `scf.if` are
taken to follow each other, and a loop to repeat.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

from tessera.core.mlir import AnyOp, ir
from tessera.lowering.analysis.ir_tree import IrTree, Node, is_tile
from tessera.lowering.base.ir_walk import LOOPS


def _never(_node: Node) -> bool:
    return False


class Liveness:
    """The live ranges of a function's values.

    recomputed: tells of an operation that makes a tile whether its users compute the tile again, so that they read what
        it reads; what it says of an operation must not change once a value that the operation uses is asked about
    """

    def __init__(self, tree: IrTree, recomputed: Callable[[Node], bool] = _never) -> None:
        self._recomputed = recomputed
        self._spans: dict[Node, range] = {}
        self._parents: dict[Node, Node | None] = {}
        self._origins: dict[ir.Value, Node] = {}
        self._users: dict[ir.Value, list[Node]] = {}
        self._readers: dict[ir.Value, tuple[Node, ...]] = {}
        self._index(tree, None)

    def _index(self, tree: IrTree, parent: Node | None) -> None:
        nodes = (*tree.nodes, tree.end)
        self._origins |= dict.fromkeys(tree.arguments, nodes[0])
        for node in nodes:
            number = len(self._spans)
            self._spans[node] = range(number, number + 1)
            self._parents[node] = parent
            self._origins |= dict.fromkeys(node.results, node)
            for operand in node.operands:
                self._users.setdefault(operand, []).append(node)
            for inner in node.blocks:
                self._index(inner, node)
            self._spans[node] = range(number, len(self._spans))

    @cached_property
    def _nodes(self) -> dict[AnyOp, Node]:
        return {node.op: node for node in self._spans}

    def node(self, op: AnyOp) -> Node:
        """Return the node of an MLIR operation."""
        return self._nodes[op.operation]

    def positions(self, nodes: Iterable[Node]) -> list[int]:
        """Return the numbers of operations in program order, sorted."""
        return sorted(self._spans[node].start for node in nodes)

    # -- values ------------------------------------------------------------------------------------------------

    def readers(self, value: ir.Value) -> tuple[Node, ...]:
        """Return the operations at which `value` is read: users, and users of what is recomputed from it."""
        found = self._readers.get(value)
        if found is None:
            found = self._readers[value] = tuple(user for user in self.users(value) if not self._recomputed(user))
        return found

    def users(self, value: ir.Value) -> Iterable[Node]:
        """Return the operations that use `value`, or a tile that is recomputed from it."""
        found: dict[Node, None] = {}
        waiting = [value]
        while waiting:
            for user in self._users.get(waiting.pop(), ()):
                if user not in found:
                    found[user] = None
                    if self._recomputed(user):
                        waiting += filter(is_tile, user.results)
        return found

    def last_use(self, value: ir.Value) -> Node:
        """Return the last operation, of the block that defines `value`, in which it is read.

        A value that is never read is last used where it is defined: by its operation, or at the start of its block.
        """
        origin = self._origins[value]
        block = self._parents[origin]
        readers = (self._within(reader, block) for reader in self.readers(value))
        return max((origin, *readers), key=lambda node: self._spans[node].start)

    def is_read_after(self, value: ir.Value, node: Node) -> bool:
        """Return whether `value` may be read once `node` is done, be it in the next iteration of a loop around both."""
        end = self._spans[node].stop
        bodies = [self._spans[loop][1:] for loop in self._loops_around(node, self._origins[value])]
        starts = [self._spans[reader].start for reader in self.readers(value)]
        return any(start >= end or any(start in body for body in bodies) for start in starts)

    def is_read_outside(self, value: ir.Value, nodes: set[Node], known: Node | None = None) -> bool:
        """Return whether anything but `nodes` (with the operations inside them) and `known` reads `value`."""
        readers = (reader for reader in self.readers(value) if reader is not known)
        return any(nodes.isdisjoint(self._outward(reader)) for reader in readers)

    # -- memory ------------------------------------------------------------------------------------------------

    def is_overwritten(self, load: Node, writes: Sequence[int], in_place: Callable[[Node], bool]) -> bool:
        """Return whether the memory that `load` reads may be written before the last reader of its result is done.

        Args:
            load: the operation whose first result is recomputed where it is used
            writes: the positions of the operations that write this memory
            in_place: tells of a reader that also writes the memory whether it reads each element before it writes it
        """
        return bool(writes) and any(
            self._is_written_before(load, reader, writes, in_place) for reader in self.readers(load.results[0])
        )

    def _is_written_before(
        self, load: Node, reader: Node, writes: Sequence[int], in_place: Callable[[Node], bool]
    ) -> bool:
        begin, end = self._spans[load].stop, self._spans[reader].start
        if _any_between(writes, begin, end):
            return True
        if _any_between(writes, end, end + 1) and not in_place(reader):
            return True
        # A loop around the reader that the load is not in: a write in it precedes the reader's next iteration.
        loops = (self._spans[loop] for loop in self._loops_around(reader, load))
        return any(_any_between(writes, loop.start, loop.stop) for loop in loops)

    # -- structure ---------------------------------------------------------------------------------------------

    def _outward(self, node: Node) -> Iterator[Node]:
        """Yield `node` and the operations around it, inner before outer."""
        at: Node | None = node
        while at is not None:
            yield at
            at = self._parents[at]

    def _within(self, node: Node, block: Node | None) -> Node:
        """Return `node`, or the operation around it, that stands directly in the operation `block`."""
        return next(around for around in self._outward(node) if self._parents[around] is block)

    def _loops_around(self, node: Node, other: Node) -> Iterator[Node]:
        """Yield the loops around `node` that are not around `other`, inner before outer."""
        inside = self._spans[other].start
        around = (outer for outer in self._outward(node) if outer is not node and outer.name in LOOPS)
        return (loop for loop in around if loop is other or inside not in self._spans[loop])


def _any_between(numbers: Sequence[int], first: int, last: int) -> bool:
    """Return whether one of `numbers`, sorted, is `first` or more and less than `last`."""
    place = bisect_left(numbers, first)
    return place < len(numbers) and numbers[place] < last
