"""Loads and stores of 32 lanes: one vector instruction where the processor has it, otherwise a compact loop.

Without AVX-512 there is no scatter, and no masked access to 8 and 16 bits: LLVM would make 32 branches of each.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tessera.core.mlir import ir
from tessera.lowering.analysis.divergence import LANES
from tessera.lowering.cpu.base.features import CpuFeatures
from tessera.lowering.cpu.simt.lane_context import LaneContext
from tessera.lowering.cpu.simt.vectors import Mask


@dataclass(frozen=True, slots=True)
class MaskedAccess:
    """Loads and stores elements of type `stored` (`size` bytes each) for the warp's lanes."""

    code: LaneContext
    processor: CpuFeatures
    stored: str
    size: int

    @property
    def kind(self) -> str:
        """Return the type of 32 elements."""
        return self.code.vectors.wide(self.stored)

    def load(self, address: ir.Value, mask: Mask) -> ir.Value:
        """Consecutive elements from `address` on; 0 in inactive lanes."""
        if mask.all:
            return self.code.kernel.load(address, self.kind, self.size)
        zero = self.code.vectors.constant(0, self.kind)
        if self.processor.masks(self.size):
            operands = [address, self.code.vectors.bits(mask), zero]
            return self.code.vectors.op("llvm.intr.masked.load", operands, self.kind, self._aligned)
        place = self._scratch(self.size)
        self.code.kernel.store(zero, place, self.size)

        def one(lane: ir.Value) -> None:
            value = self._get(address, lane)
            self._put(value, place, lane)

        self._each(mask, one)
        return self.code.kernel.load(place, self.kind, self.size)

    def store(self, value: ir.Value, address: ir.Value, mask: Mask) -> None:
        """Store consecutive elements from `address` on, those of active lanes."""
        code = self.code
        if mask.all:
            code.kernel.store(value, address, self.size)
        elif self.processor.masks(self.size):
            operands = [value, address, code.vectors.bits(mask)]
            code.emit.create("llvm.intr.masked.store", operands, (), self._aligned)
        else:
            place = self._scratch(self.size)
            code.kernel.store(value, place, self.size)
            self._each(mask, lambda lane: self._put(self._get(place, lane), address, lane))

    def gather(self, addresses: ir.Value, mask: Mask) -> ir.Value:
        """Return the elements at `addresses`, one a lane; 0 in inactive lanes."""
        vectors = self.code.vectors
        bits, zero = vectors.bits(mask), vectors.constant(0, self.kind)
        if not self.processor.scatters(self.size):  # plain loads then: inactive lanes read a zero
            if not mask.all:
                addresses = vectors.select(bits, addresses, vectors.splat(self._zero()))
            bits = vectors.constant(1, vectors.wide("i1"))
        return vectors.op("llvm.intr.masked.gather", [addresses, bits, zero], self.kind, self._aligned)

    def scatter(self, value: ir.Value, addresses: ir.Value, mask: Mask) -> None:
        """Store each active lane's element at its own address; the last lane wins."""
        code = self.code
        if self.processor.scatters(self.size):
            operands = [value, addresses, code.vectors.bits(mask)]
            code.emit.create("llvm.intr.masked.scatter", operands, (), self._aligned)
            return
        values, places = self._scratch(self.size), self._scratch(8)
        code.kernel.store(value, values, self.size)
        code.kernel.store(addresses, places, 8)

        def one(lane: ir.Value) -> None:
            address = code.kernel.load(code.kernel.element(places, lane, "!llvm.ptr"), "!llvm.ptr", 8)
            code.kernel.store(self._get(values, lane), address, self.size)

        self._each(mask, one)

    # -- small parts -------------------------------------------------------------------------------------------

    @property
    def _aligned(self) -> dict[str, str]:
        return {"alignment": f"{self.size} : i32"}

    def _scratch(self, size: int) -> ir.Value:
        return self.code.kernel.scratch(LANES * size)

    def _zero(self) -> ir.Value:
        """Address of a zero."""
        address = self.code.kernel.scratch(8, 8)
        self.code.kernel.store(self.code.vectors.constant(0, "i64"), address, 8)
        return address

    def _get(self, address: ir.Value, lane: ir.Value) -> ir.Value:
        return self.code.kernel.load(self.code.kernel.element(address, lane, self.stored), self.stored, self.size)

    def _put(self, value: ir.Value, address: ir.Value, lane: ir.Value) -> None:
        self.code.kernel.store(value, self.code.kernel.element(address, lane, self.stored), self.size)

    def _each(self, mask: Mask, body: Callable[[ir.Value], None]) -> None:
        """Run `body(lane)` for each active lane, from the first to the last."""
        code, vectors = self.code, self.code.vectors

        def more(word: ir.Value) -> tuple[ir.Value, Sequence[ir.Value]]:
            return vectors.compare("ne", word, vectors.constant(0, "i32")), [word]

        def one(word: ir.Value) -> Sequence[ir.Value]:
            lane = vectors.op("llvm.intr.cttz", [word], "i32", {"is_zero_poison": "true"})
            with code.scope():
                body(vectors.op("arith.extui", [lane], "i64"))
            lower = vectors.op("arith.subi", [word, vectors.constant(1, "i32")], "i32")
            return [vectors.op("arith.andi", [word, lower], "i32")]

        code.kernel.flow.repeat([vectors.word(mask)], more, one)
