"""Vectors in memory: addresses, loads and stores of any number of lanes, whole or masked, contiguous or strided.

An element is named as in registers (`f32`, `bf16`, `i8`, `i1`); a bool (`i1`) is a byte in memory.
Lanes of 0 mean one element, a scalar.  Masks are vectors of `i1`; masked-off lanes read as 0 and touch no memory.
"""

from dataclasses import dataclass
from typing import Final

from tessera.core.mlir import Index, ir
from tessera.lowering.base.emit import Emitter
from tessera.lowering.math.algebra import shaped

_DYNAMIC: Final = -(1 << 31)
POINTER: Final = "!llvm.ptr"


_STORED: Final = {"i1": "i8", "f16": "i16", "bf16": "i16"}


def stored(element: str) -> str:
    """Return the type an element is moved as: 16-bit floats as integers, which all processors have vectors of."""
    return _STORED.get(element, element)


def bytes_of(element: str) -> int:
    """Bytes an element takes in memory."""
    return 2 if element == "bf16" else max(1, int(element[1:]) // 8)


@dataclass(frozen=True, slots=True)
class Memory:
    """Emits accesses through `emitter`."""

    emitter: Emitter

    def address(self, pointer: ir.Value, offset: Index, element: str) -> ir.Value:
        """Return the address `offset` elements past `pointer`."""
        if isinstance(offset, int) and -_DYNAMIC > offset > _DYNAMIC:
            if offset == 0:
                return pointer
            operands, constant = [pointer], offset
        else:
            value = self.emitter.constant(offset, "i64") if isinstance(offset, int) else offset
            operands, constant = [pointer, value], _DYNAMIC
        attributes = {"rawConstantIndices": f"array<i32: {constant}>", "elem_type": stored(element)}
        return self.emitter.value("llvm.getelementptr", operands, POINTER, attributes)

    def load(self, pointer: ir.Value, lanes: int, element: str) -> ir.Value:
        """`lanes` consecutive elements from `pointer`, aligned to an element."""
        value = self.emitter.value("llvm.load", [pointer], shaped(lanes, stored(element)), _aligned(element))
        return self.from_stored(value, lanes, element)

    def store(self, value: ir.Value, pointer: ir.Value, lanes: int, element: str) -> None:
        """Write `lanes` consecutive elements to `pointer`, aligned to an element."""
        self.emitter.create("llvm.store", [self.to_stored(value, lanes, element), pointer], (), _aligned(element))

    def prefetch(self, pointer: ir.Value, *, near: bool = True) -> None:
        """Ask for the cache line of `pointer`, which need not be valid; not `near`: as far as the second level."""
        attributes = {"rw": "0 : i32", "hint": f"{3 if near else 2} : i32", "cache": "1 : i32"}
        self.emitter.create("llvm.intr.prefetch", [pointer], (), attributes)

    def load_masked(self, pointer: ir.Value, mask: ir.Value, lanes: int, element: str) -> ir.Value:
        """Return the elements where `mask` holds, 0 elsewhere."""
        kind = shaped(lanes, stored(element))
        zero = self.emitter.constant(0, kind)
        value = self.emitter.value("llvm.intr.masked.load", [pointer, mask, zero], kind, _mask_aligned(element))
        return self.from_stored(value, lanes, element)

    def store_masked(self, value: ir.Value, pointer: ir.Value, mask: ir.Value, lanes: int, element: str) -> None:
        """Write the elements where `mask` holds."""
        operands = [self.to_stored(value, lanes, element), pointer, mask]
        self.emitter.create("llvm.intr.masked.store", operands, (), _mask_aligned(element))

    def gather(self, pointer: ir.Value, stride: Index, mask: ir.Value | None, lanes: int, element: str) -> ir.Value:
        """`lanes` elements `stride` apart, where `mask` (None: everywhere) holds."""
        kind = shaped(lanes, stored(element))
        zero = self.emitter.constant(0, kind)
        operands = [self._addresses(pointer, stride, lanes, element), self._mask(mask, lanes), zero]
        value = self.emitter.value("llvm.intr.masked.gather", operands, kind, _mask_aligned(element))
        return self.from_stored(value, lanes, element)

    def scatter(
        self, value: ir.Value, pointer: ir.Value, stride: Index, mask: ir.Value | None, lanes: int, element: str
    ) -> None:
        """Write `lanes` elements `stride` apart, where `mask` (None: everywhere) holds."""
        operands = [self.to_stored(value, lanes, element), self._addresses(pointer, stride, lanes, element)]
        operands.append(self._mask(mask, lanes))
        self.emitter.create("llvm.intr.masked.scatter", operands, (), _mask_aligned(element))

    def first_lanes(self, valid: int, lanes: int) -> ir.Value:
        """Return the mask that holds in the first `valid` lanes."""
        numbers = ", ".join("true" if lane < valid else "false" for lane in range(lanes))
        kind = shaped(lanes, "i1")
        return self.emitter.value("arith.constant", (), kind, {"value": f"dense<[{numbers}]> : {kind}"})

    def iota(self, lanes: int, element: str = "i64", step: int = 1) -> ir.Value:
        """0, step, 2 * step, ...: one number a lane."""
        numbers = ", ".join(str(lane * step) for lane in range(lanes))
        kind = shaped(lanes, element)
        return self.emitter.value("arith.constant", (), kind, {"value": f"dense<[{numbers}]> : {kind}"})

    def splat(self, scalar: ir.Value, lanes: int) -> ir.Value:
        """`scalar` in every lane; itself for 0 lanes."""
        if not lanes:
            return scalar
        element = str(scalar.type)
        bits = self.to_stored(scalar, 0, element)
        return self.from_stored(
            self.emitter.value("vector.broadcast", [bits], shaped(lanes, stored(element))), lanes, element
        )

    def _addresses(self, pointer: ir.Value, stride: Index, lanes: int, element: str) -> ir.Value:
        kind = shaped(lanes, "i64")
        if isinstance(stride, int):
            offsets = self.iota(lanes, step=stride)
        else:
            offsets = self.emitter.value("arith.muli", [self.iota(lanes), self.splat(stride, lanes)], kind)
        attributes = {"rawConstantIndices": f"array<i32: {_DYNAMIC}>", "elem_type": stored(element)}
        return self.emitter.value("llvm.getelementptr", [pointer, offsets], shaped(lanes, POINTER), attributes)

    def _mask(self, mask: ir.Value | None, lanes: int) -> ir.Value:
        return self.emitter.constant(1, shaped(lanes, "i1")) if mask is None else mask

    def from_stored(self, value: ir.Value, lanes: int, element: str) -> ir.Value:
        """Return a value of type `stored(element)` as `element`."""
        if element == "i1":
            # Any byte but 0 is true, as for NumPy: views of masks in files hold 255, for example.
            zero = self.emitter.constant(0, shaped(lanes, "i8"))
            return self.emitter.value("arith.cmpi", [value, zero], shaped(lanes, "i1"), {"predicate": "1 : i64"})
        return value if element not in _STORED else self.emitter.value("arith.bitcast", [value], shaped(lanes, element))

    def to_stored(self, value: ir.Value, lanes: int, element: str) -> ir.Value:
        """Return a value of `element` as type `stored(element)`."""
        if element == "i1":
            return self.emitter.value("arith.extui", [value], shaped(lanes, "i8"))
        if element not in _STORED:
            return value
        return self.emitter.value("arith.bitcast", [value], shaped(lanes, _STORED[element]))


def _aligned(element: str) -> dict[str, str]:
    return {"alignment": f"{bytes_of(element)} : i64"}


def _mask_aligned(element: str) -> dict[str, str]:
    return {"alignment": f"{bytes_of(element)} : i32"}
