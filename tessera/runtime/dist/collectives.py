"""Collectives over what ranks hold: reductions in the order of a tree, and pure movement.

    all_reduce: local folds, all-to-all of partial nodes, a fold of each rank's slice to the root, all-gather

Values are buffers of one axis, one or several leaves a rank.  Where ranks share memory nothing is moved: each rank
folds its slice of all leaves in one pass, and all of them see one result.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tessera.core.base.dtypes import DType
from tessera.core.errors.catalog import RankMismatch
from tessera.core.placement.fold_plans import FoldPlan, fold_plan, renumbered, shares_of, slice_of
from tessera.core.placement.fold_reference import at_root, exact_sum, fold_partial
from tessera.core.placement.reduction_rules import RankReduction
from tessera.core.placement.reduction_trees import Fold, ReductionTree, contributions
from tessera.core.placement.topology import Collective
from tessera.runtime.dist.engine import Buffer, Exchange, Move, Pending, RankEngine, ReducesByLibrary

_GRANULE: Final = 64
"""Elements to a multiple of which slices are cut: every element type then begins at a multiple of 64 bytes."""

Folder = Callable[[Sequence[Buffer], Fold, RankReduction, int | None, Sequence[Buffer], object], None]
"""folder(contributions, fold, reduction, leaves of the root or None for a partial node, outs, stream).

Each of `outs` gets the whole result.
"""


def fold_with_numpy(
    parts: Sequence[Buffer], fold: Fold, what: RankReduction, root_of: int | None, outs: Sequence[Buffer], _: object
) -> None:  # fmt: skip
    """Fold by the oracle: what simulated ranks do, and every rank for exact sums."""
    if is_exact_sum(what):
        value = exact_sum(parts, what)
    else:
        value = fold_partial(parts, fold, what)
        value = value if root_of is None else at_root(value, what, root_of)
    for out in outs:
        out[...] = value


def is_exact_sum(what: RankReduction) -> bool:
    """Return whether a reduction is computed without a tree: partial nodes would be rounded."""
    return what.det == "exact" and what.adds and what.dtype.is_float


@dataclass(frozen=True, slots=True)
class Group:
    """Ranks of an engine that take part in a collective, in the order of their leaves."""

    engine: RankEngine
    ranks: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return len(self.ranks)

    def launch(
        self, task: Callable[[int], object], *, seconds: float = 0.0, after: Sequence[Pending] = ()
    ) -> Pending:  # fmt: skip
        """Let each rank do a task that is given its position in the group."""
        places = {rank: place for place, rank in enumerate(self.ranks)}
        return self.engine.launch(lambda rank: task(places[rank]), self.ranks, seconds=seconds, after=after)

    def transfer(
        self, collective: Collective, size: float, moves: Sequence[Move], after: Sequence[Pending] = ()
    ) -> Pending:  # fmt: skip
        """Move values between positions."""
        named = tuple(Move(self.ranks[m.source], self.ranks[m.target], m.value, m.into) for m in moves)
        return self.engine.transfer(Exchange(collective, self.ranks, size, named), after)

    def empty(self, place: int, elements: int, dtype: DType) -> Buffer:
        """Allocate a buffer in the memory of the rank at a position."""
        return self.engine.empty(self.ranks[place], elements, dtype)

    def stream(self, place: int) -> object:
        """Return where kernels of the rank at a position are launched."""
        return self.engine.stream(self.ranks[place])


@dataclass(frozen=True, slots=True)
class _Order:
    """The order of folding: of each rank's leaves, each of their partial nodes, and of all partial nodes the root."""

    local: tuple[tuple[Fold, ...], ...]
    final: Fold
    counts: tuple[int, ...]

    @property
    def leaves(self) -> int:
        """How many leaves all ranks have."""
        return sum(self.counts)

    def whole(self) -> Fold:
        """Return the order over all leaves, numbered rank by rank."""
        folds: list[Fold] = []
        first = 0
        for count, mine in zip(self.counts, self.local, strict=True):
            folds += [renumbered(fold, first) for fold in mine]
            first += count
        return _filled(self.final, folds)


def _filled(fold: Fold, parts: Sequence[Fold]) -> Fold:
    if isinstance(fold, int):
        return parts[fold]
    return (_filled(fold[0], parts), _filled(fold[1], parts))


@lru_cache(maxsize=256)
def _order(what: RankReduction, tree: ReductionTree, counts: tuple[int, ...]) -> _Order:
    if is_exact_sum(what):  # leaves are sent as they are, and added in any order
        local = tuple(tuple(range(count)) for count in counts)
        return _Order(local, ReductionTree.of(sum(counts), "chain").leaf_fold(), counts)
    if what.det == "run":
        local = tuple((ReductionTree.binary(count).leaf_fold(),) if count else () for count in counts)
        return _Order(local, ReductionTree.binary(len([count for count in counts if count])).leaf_fold(), counts)
    plan: FoldPlan = fold_plan(tree, shares_of(counts))
    return _Order(plan.local, plan.final, counts)


def all_reduce(
    group: Group, leaves: Sequence[Sequence[Buffer]], what: RankReduction, tree: ReductionTree,
    folder: Folder = fold_with_numpy, out: Sequence[Buffer] | None = None,
) -> list[Buffer]:  # fmt: skip
    """Return what every rank gets: the fold of all leaves, each rank's own ones at its position.

    Ranks that share memory share one result.  out: where it goes, a buffer a rank; None: new ones
    Raises RankMismatch for leaves of different lengths, and BadReductionTree for a tree of another number of leaves.
    """
    elements = _elements(leaves)
    found = _by_library(group, leaves, what) if out is None else None
    if found is not None:
        return found
    engine = group.engine
    wholes = _results(group, elements, what.dtype) if out is None else list(out)
    alone = engine.one_shot(elements * what.dtype.bytes)
    bounds = [
        slice(0, elements) if alone else slice_of(elements, group.size, place, _GRANULE) for place in range(group.size)
    ]
    targets = [engine.part(whole, mine.start, mine.stop) for whole, mine in zip(wholes, bounds, strict=True)]
    direct = engine.reads_peers and not alone
    everywhere = [[engine.part(whole, mine.start, mine.stop) for whole in wholes] for mine in bounds]
    steps = _Steps(group, leaves, what, _order(what, tree, tuple(len(mine) for mine in leaves)), folder)
    gather = _Gather(group, bounds, targets, wholes)
    last: list[Pending] = []
    before: tuple[tuple[int, int], Pending] | None = None
    for piece in _ranges(bounds, engine.pieces(elements * what.dtype.bytes)):
        done = steps.fold(bounds, everywhere if direct else [[target] for target in targets], *piece)
        if before is not None:  # the next piece is on its way while this one is folded
            last.append(gather.send(*before))
        before = (piece, done)
    if before is not None:
        folded = engine.shared_memory or alone or direct or group.size == 1
        last.append(before[1] if folded else gather.send(*before))
    for pending in last:
        pending.result()
    return wholes


def _results(group: Group, elements: int, dtype: DType) -> list[Buffer]:
    """Allocate a result a rank; one for all of them where they share memory."""
    if group.engine.shared_memory:
        return [group.empty(0, elements, dtype)] * group.size
    return [group.empty(place, elements, dtype) for place in range(group.size)]


@dataclass(frozen=True, slots=True)
class _Gather:
    """The second half of an all-reduce: each rank's slice goes to all others, piece by piece."""

    group: Group
    bounds: Sequence[slice]
    slices: Sequence[Buffer]
    wholes: Sequence[Buffer]

    def send(self, piece: tuple[int, int], folded: Pending) -> Pending:
        """Send the elements of a piece once they are folded."""
        group, part = self.group, self.group.engine.part
        moves: list[Move] = []
        for source, mine in enumerate(self.bounds):
            begin, end = _inside(mine, *piece)
            value = part(self.slices[source], begin, end)
            moves += [
                Move(source, target, value, part(self.wholes[target], mine.start + begin, mine.start + end))
                for target in range(group.size)
                if target != source
            ]
        size = sum(move.value.nbytes for move in moves) / max(1, group.size - 1)
        return group.transfer("all_gather", size, moves, (folded,))


def reduce_scatter(
    group: Group, leaves: Sequence[Sequence[Buffer]], what: RankReduction, tree: ReductionTree,
    bounds: Sequence[slice] | None = None, folder: Folder = fold_with_numpy,
) -> list[Buffer]:  # fmt: skip
    """Return to each rank its own part of the fold of all leaves.

    bounds: of the parts; None: as even as possible
    """
    elements = _elements(leaves)
    parts = bounds or [slice_of(elements, group.size, place) for place in range(group.size)]
    targets = [group.empty(place, _length(mine), what.dtype) for place, mine in enumerate(parts)]
    steps = _Steps(group, leaves, what, _order(what, tree, tuple(len(mine) for mine in leaves)), folder)
    pieces = group.engine.pieces(elements * what.dtype.bytes)
    outs = [[target] for target in targets]
    done = [steps.fold(parts, outs, first, stop) for first, stop in _ranges(parts, pieces)]
    for pending in done:
        pending.result()
    return targets


class _Steps:
    """The first half of a reduction: partial nodes, their exchange, and the fold of each rank's part."""

    def __init__(
        self, group: Group, leaves: Sequence[Sequence[Buffer]], what: RankReduction, order: _Order, folder: Folder
    ) -> None:
        self._group, self._what, self._folder = group, what, folder
        self._leaves = order.leaves
        self._ready: tuple[Pending, ...] = ()
        if group.engine.shared_memory:
            self._parts = [leaf for mine in leaves for leaf in mine]
            self._owners = [place for place, mine in enumerate(leaves) for _ in mine]
            self._fold = order.whole()
        else:
            mine = self._local(leaves, order.local)
            self._parts = [part for parts in mine for part in parts]
            self._owners = [place for place, parts in enumerate(mine) for _ in parts]
            self._fold = order.final

    def _local(self, leaves: Sequence[Sequence[Buffer]], local: Sequence[Sequence[Fold]]) -> list[list[Buffer]]:
        """Fold what each rank has; leaves that are partial nodes themselves stay as they are."""
        group, what = self._group, self._what

        def task(place: int) -> list[Buffer]:
            parts: list[Buffer] = []
            for fold in local[place]:
                if isinstance(fold, int):
                    parts.append(leaves[place][fold])
                    continue
                numbers = contributions(fold)
                out = group.empty(place, leaves[place][0].shape[0], what.accumulator)
                given = [leaves[place][number] for number in numbers]
                self._folder(given, renumbered(fold, -numbers[0]), what, None, (out,), group.stream(place))
                parts.append(out)
            return parts

        if all(isinstance(fold, int) for folds in local for fold in folds):
            return [
                [leaves[place][fold] for fold in folds if isinstance(fold, int)] for place, folds in enumerate(local)
            ]
        read = max(sum(leaf.nbytes for leaf in mine) for mine in leaves)
        pending = group.launch(task, seconds=group.engine.fold_seconds(read))
        self._ready = (pending,)
        return pending.result()

    def fold(self, bounds: Sequence[slice], targets: Sequence[Sequence[Buffer]], first: int, stop: int) -> Pending:
        """Fold the elements from `first` up to `stop` of each rank's part into its targets."""
        group, engine = self._group, self._group.engine
        places = range(group.size)
        ranges = [_inside(mine, first, stop) for mine in bounds]
        starts = [mine.start for mine in bounds]
        sliced = [
            [
                engine.part(part, starts[place] + ranges[place][0], starts[place] + ranges[place][1])
                for part in self._parts
            ]
            for place in places
        ]
        after: tuple[Pending, ...] = self._ready
        if engine.reads_peers:
            engine.meet(group.ranks)
        elif not engine.shared_memory:
            moves = [
                (place, number, Move(owner, place, sliced[place][number]))
                for place in places for number, owner in enumerate(self._owners) if owner != place
            ]  # fmt: skip
            size = sum(part.nbytes for part in self._parts) / group.size * (stop - first) / max(1, _longest(bounds))
            pending = group.transfer("all_to_all", size, [move for *_, move in moves], after)
            for (place, number, _), value in zip(moves, pending.result(), strict=True):
                sliced[place][number] = value
            after = (pending,)

        def task(place: int) -> None:
            begin, end = ranges[place]
            if begin < end:
                rank = group.ranks[place]
                outs = [engine.seen(rank, engine.part(target, begin, end)) for target in targets[place]]
                parts = [engine.seen(rank, part) for part in sliced[place]]
                self._folder(parts, self._fold, self._what, self._leaves, outs, group.stream(place))

        read = max((sum(part.nbytes for part in parts) for parts in sliced), default=0)
        done = group.launch(task, seconds=engine.fold_seconds(read), after=after)
        if engine.reads_peers:  # what is read here may be written again by those who hold it, and the other way round
            engine.meet(group.ranks)
        return done


def _by_library(group: Group, leaves: Sequence[Sequence[Buffer]], what: RankReduction) -> list[Buffer] | None:
    """Let the engine's library reduce, where nothing but agreement is promised."""
    engine = group.engine
    if what.det != "fast" or any(len(mine) != 1 for mine in leaves) or not isinstance(engine, ReducesByLibrary):
        return None
    found = engine.library_all_reduce(group.ranks, [mine[0] for mine in leaves], what.op)
    return None if found is None else list(found)


def all_gather(group: Group, values: Sequence[Buffer], dtype: DType) -> list[Buffer]:
    """Return to every rank the values of all, one after the other; ranks that share memory share one result."""
    engine = group.engine
    lengths = [value.shape[0] for value in values]
    starts = [sum(lengths[:place]) for place in range(group.size)]
    if engine.shared_memory:
        whole = group.empty(0, sum(lengths), dtype)

        def task(place: int) -> None:
            whole[starts[place] : starts[place] + lengths[place]] = values[place]

        group.launch(task).result()
        return [whole] * group.size
    wholes = [group.empty(place, sum(lengths), dtype) for place in range(group.size)]
    moves = [
        Move(
            source,
            target,
            values[source],
            engine.part(wholes[target], starts[source], starts[source] + lengths[source]),
        )
        for source in range(group.size)
        for target in range(group.size)
    ]
    group.transfer("all_gather", sum(value.nbytes for value in values), moves).result()
    return wholes


def all_to_all(group: Group, values: Sequence[Buffer], dtype: DType) -> list[Buffer]:
    """Exchange equal parts, one a rank: part s of the result at position t is part t of the value at position s.

    Raises RankMismatch for values whose lengths differ, or are no multiple of the number of ranks.
    """
    elements = _elements([[value] for value in values])
    each, rest = divmod(elements, group.size)
    if rest:
        message = f"{elements} elements are not {group.size} equal parts"
        raise RankMismatch(message, hint="give a part a rank")
    part = group.engine.part
    found = [group.empty(place, elements, dtype) for place in range(group.size)]
    moves = [
        Move(source, target, part(values[source], target * each, (target + 1) * each),
             part(found[target], source * each, (source + 1) * each))
        for target in range(group.size) for source in range(group.size)
    ]  # fmt: skip
    if group.engine.shared_memory:
        _copy_here(group, moves)
    else:
        group.transfer("all_to_all", values[0].nbytes, moves).result()
    return found


def _copy_here(group: Group, moves: Sequence[Move]) -> None:
    """Let each rank copy what it gets from where it lies."""

    def task(place: int) -> None:
        for move in moves:
            if move.target == place and move.into is not None:
                move.into[...] = move.value

    group.launch(task).result()


def broadcast(group: Group, value: Buffer, root: int = 0) -> list[Buffer]:
    """Return to every rank what the one at position `root` has."""
    moves = [Move(root, target, value) for target in range(group.size) if target != root]
    values = iter(group.transfer("broadcast", value.nbytes, moves).result())
    return [value if place == root else next(values) for place in range(group.size)]


def permute(group: Group, values: Sequence[Buffer], pairs: Sequence[tuple[int, int]]) -> list[Buffer | None]:
    """Send along pairs (source, target) of positions; a rank that is no target gets None.

    Raises RankMismatch for a position that there is not, and for a target that is named twice.
    """
    targets = [target for _, target in pairs]
    strange = [place for pair in pairs for place in pair if not 0 <= place < group.size]
    if strange:
        raise RankMismatch(f"there is no rank {strange[0]}", hint=f"there are ranks 0 to {group.size - 1}")
    if len(set(targets)) < len(targets):
        twice = next(target for target in targets if targets.count(target) > 1)
        raise RankMismatch(f"rank {twice} is sent to twice", hint="name each target once")
    moves = [Move(source, target, values[source]) for source, target in pairs]
    size = max((values[source].nbytes for source, _ in pairs), default=0)
    sent = group.transfer("permute", size, moves).result()
    found = dict(zip(targets, sent, strict=True))
    return [found.get(place) for place in range(group.size)]


def _elements(leaves: Sequence[Sequence[Buffer]]) -> int:
    """Return the length that all leaves have."""
    lengths = {leaf.shape[0]: place for place, mine in reversed(list(enumerate(leaves))) for leaf in mine}
    if len(lengths) != 1:
        found = ", ".join(f"{length} at rank {place}" for length, place in sorted(lengths.items()))
        message = f"leaves have different numbers of elements: {found}" if found else "there are no leaves"
        raise RankMismatch(message, hint="give every rank values of one shape")
    return next(iter(lengths))


def _length(part: slice) -> int:
    return part.stop - part.start


def _longest(bounds: Sequence[slice]) -> int:
    return max(map(_length, bounds))


def _inside(part: slice, first: int, stop: int) -> tuple[int, int]:
    """Return a range of a part's own elements, cut to those that it has."""
    length = _length(part)
    return min(first, length), min(stop, length)


def _ranges(bounds: Sequence[slice], pieces: int) -> list[tuple[int, int]]:
    """Return ranges of elements that cut every part into pieces."""
    longest = _longest(bounds)
    each = -(-longest // max(1, pieces)) or 1
    return [(first, min(first + each, longest)) for first in range(0, longest, each)] or [(0, 0)]
