"""Form parallel regions: loops over the warps of a group, and the values that live from one region to the next.

Operations on lanes are collected until something has to be done by the group as a whole (a barrier, a tile, a write
that no lane differs in, control flow around one of them); then they are emitted as one loop over the group's warps.
A value that is still needed later is kept in a context array, or computed again where that is cheap.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tessera.core.mlir import ir
from tessera.lowering.analysis.divergence import LANES, Divergence
from tessera.lowering.analysis.ir_tree import Node, is_tile
from tessera.lowering.base.emit import required
from tessera.lowering.cpu.simt.context_arrays import ContextSlot, load, load_mask, make_slot, store, store_mask
from tessera.lowering.cpu.simt.lane_context import LaneContext, Position
from tessera.lowering.cpu.simt.loop_versioning import in_versions
from tessera.lowering.cpu.simt.masked_control import MaskedControl
from tessera.lowering.cpu.simt.operand_facts import OperandFacts, defined, touched
from tessera.lowering.cpu.simt.vector_lanes import below
from tessera.lowering.cpu.simt.vectors import ALL, Mask

LANES_PER_GROUP: Final = 8192
"""Lanes of one piece of a launch without `tile[...]`: a few microseconds of work, some tens of KiB of memory."""

Tail = Callable[[Mask], None]

_WORD: Final = Divergence("varying")


@dataclass(frozen=True, slots=True, eq=False)
class ParallelRegion:
    """The lanes that a part of the kernel runs for: `slot` holds a word a warp, `any` (i32) is 0 when it is empty."""

    slot: ContextSlot
    any: ir.Value | None = None


class ParallelRegions:
    """Collects and emits stretches of lane code.  `region` is None while all lanes of the group are active."""

    def __init__(self, code: LaneContext, control: MaskedControl, facts: OperandFacts) -> None:
        self._code = code
        self._control = control
        self._facts = facts
        self._slots: dict[ir.Value, ContextSlot] = {}
        self.pending: list[Node] = []
        self.region: ParallelRegion | None = None
        lanes = LANES_PER_GROUP if code.group is None else math.prod(code.group)
        self._warps = -(-lanes // LANES)
        self._last = lanes % LANES

    # -- slots -------------------------------------------------------------------------------------------------

    def slot(self, value: ir.Value, shape: Divergence | None = None) -> ContextSlot:
        """Return the context slot of a Tile IR value, made when it has none."""
        found = self._slots.get(value)
        if found is None:
            kind = self._code.shape(value) if shape is None else shape
            found = self._slots[value] = make_slot(self._code, self._code.element(value), kind, self._warps)
        return found

    def adopt(self, value: ir.Value, slot: ContextSlot) -> None:
        """Let a value share the context slot of another one."""
        self._slots[value] = slot

    def new_region(self) -> ParallelRegion:
        """Return a set of lanes, to be filled by a parallel region (see `select`)."""
        return ParallelRegion(make_slot(self._code, "i1", _WORD, self._warps), self._code.kernel.scratch(4, 4))

    # -- stretches ---------------------------------------------------------------------------------------------

    def flush(
        self,
        tail: Tail | None = None,
        needs: Iterable[ir.Value] = (),
        end: Node | None = None,
        regions: Sequence[ParallelRegion] = (),
    ) -> None:
        """Emit what is pending, then `tail(mask)`, for each warp of the group.

        `needs` are the values that `tail` uses; `end` is the terminator that `tail` stands for; `regions` are filled
        by it, and are empty in warps that are skipped.
        """
        nodes, self.pending = self.pending, []
        if not nodes and tail is None:
            return
        inside = set(nodes)
        spilled = [v for node in nodes for v in node.results if not is_tile(v) and self._must_keep(v, inside, end)]
        wanted = [*touched(nodes), *needs]
        for region in regions:
            self._code.kernel.store(self._code.vectors.constant(0, "i32"), required(region.any), 4)

        def warp() -> None:
            for region in regions:
                if self.region not in (None, region):  # this warp may be skipped
                    store_mask(self._code, region.slot, self._code.vectors.constant(0, "i32"))
            self._masked(lambda mask: self._emit(nodes, wanted, spilled, tail, mask))

        self._each_warp(warp)
        for value in spilled:
            if self._code.shape(value).kind == "uniform":  # every warp left the same
                self._code.define(value, load(self._code, self.slot(value)))

    def _must_keep(self, value: ir.Value, inside: set[Node], end: Node | None) -> bool:
        uniform = self._code.shape(value).kind == "uniform"
        liveness, known = self._facts.liveness, None if uniform else end
        return (uniform or not self._again(value)) and liveness.is_read_outside(value, inside, known)

    def _emit(
        self, nodes: list[Node], wanted: list[ir.Value], spilled: list[ir.Value], tail: Tail | None, mask: Mask
    ) -> None:
        made = set(defined(nodes))
        for value in wanted:
            if value not in made:
                self._bring(value)

        def after(now: Mask) -> None:
            for value in spilled:
                store(self._code, self.slot(value), self._code.lane(value), ALL)
            if tail is not None:
                tail(now)

        in_versions(self._code, self._control, nodes, mask, after)

    def _bring(self, value: ir.Value) -> None:
        """Define a value that an earlier region computed: from its context slot, or by computing it again."""
        code = self._code
        if is_tile(value) or value in code.arrays or code.vectors.scope.find(value) is not None:
            return
        slot = self._slots.get(value)
        if slot is not None:
            code.define(value, load(code, slot))
        elif self._again(value):
            node = self._facts.definitions[value]
            for operand in node.operands:
                self._bring(operand)
            self._control.node(node, ALL)

    def _again(self, value: ir.Value) -> bool:
        """Return whether a value is computed again rather than kept: ids and the scalar arithmetic on them."""
        if self._code.shape(value).kind == "uniform":
            return True
        node = self._facts.definitions.get(value)
        if node is None or value in self._slots:
            return False
        if node.name == "tessera.id":
            return True
        linear = self._code.shape(value).kind == "linear" and node.name.startswith("arith.")
        return linear and all(self._again(v) for v in node.operands)

    # -- warps -------------------------------------------------------------------------------------------------

    def _each_warp(self, body: Callable[[], None]) -> None:
        code, flow, constant = self._code, self._code.kernel.flow, self._code.vectors.constant
        if self._warps == 1 and code.group is not None:
            with code.scope():
                self._at(constant(0, "i64"), body)
            return

        def inside(number: ir.Value) -> list[ir.Value]:
            with code.scope():
                self._at(number, body)
            return []

        count = constant(self._warps, "i64") if code.group is not None else self._warps_of_piece()
        flow.count(constant(0, "i64"), count, constant(1, "i64"), [], inside, unroll=False)

    def _warps_of_piece(self) -> ir.Value:
        """Warps that have lanes, of the piece of the launch that is being run."""
        vectors, position = self._code.vectors, self._code.position
        left = vectors.integer("subi", required(position.lanes), self._first_of_piece())
        left = vectors.integer("minsi", left, vectors.constant(LANES_PER_GROUP, "i64"))
        left = vectors.integer("maxsi", left, vectors.constant(0, "i64"))
        rounded = vectors.integer("addi", left, vectors.constant(LANES - 1, "i64"))
        return vectors.integer("divui", rounded, vectors.constant(LANES, "i64"))

    def _first_of_piece(self) -> ir.Value:
        vectors = self._code.vectors
        return vectors.integer("muli", required(self._code.position.group), vectors.constant(LANES_PER_GROUP, "i64"))

    def _at(self, number: ir.Value, body: Callable[[], None]) -> None:
        code = self._code
        before = code.position
        base = code.vectors.integer("muli", number, code.vectors.constant(LANES, "i64"))
        if code.group is None:
            base = code.vectors.integer("addi", self._first_of_piece(), base)
        code.position = replace(before, base=base, warp=number)
        body()
        code.position = before

    def _masked(self, body: Tail) -> None:
        """Run `body(mask)` for the warp's lanes that exist and are in the region, if there are any."""
        code, vectors = self._code, self._code.vectors
        if self.region is None:
            body(self._existing(code.position))
            return
        word = load_mask(code, self.region.slot)
        bits = vectors.op("llvm.bitcast", [word], vectors.wide("i1"))

        def inside() -> list[ir.Value]:
            with code.scope():
                body(Mask(vector=bits))
            return []

        code.kernel.flow.branch(vectors.compare("ne", word, vectors.constant(0, "i32")), inside)

    def _existing(self, position: Position) -> Mask:
        """Return the lanes of the warp that exist: the last warp of a group, or of a launch, may have fewer than 32."""
        code = self._code
        if code.group is not None and self._last == 0:
            return ALL
        lanes = required(position.lanes) if code.group is None else code.vectors.constant(math.prod(code.group), "i64")
        prefix = below(code, required(position.base), lanes, safe=True)
        return Mask(prefix.count, None, prefix.facts)

    # -- regions -----------------------------------------------------------------------------------------------

    def fill(self, region: ParallelRegion, mask: Mask) -> None:
        """Say inside a region: the lanes of `mask` are the warp's part of `region`."""
        code = self._code
        word = code.vectors.word(mask)
        store_mask(code, region.slot, word)
        seen = code.kernel.load(required(region.any), "i32", 4)
        code.kernel.store(code.emit.value("arith.ori", [seen, word], "i32"), required(region.any), 4)

    def occupied(self, region: ParallelRegion) -> ir.Value:
        """At group level: whether any lane is in `region` (i1)."""
        code = self._code
        seen = code.kernel.load(required(region.any), "i32", 4)
        return code.vectors.compare("ne", seen, code.vectors.constant(0, "i32"))
