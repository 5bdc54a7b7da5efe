"""The frame of one kernel: its entry point, its arguments as target values, and its scratch memory.

The entry point's signature is in `core/artifact.py`: slots, first group, past the last one, scratch, cancel flag.
"""

import re
from typing import Final

from tessera.core.artifact import Slot
from tessera.core.mlir import Index, ir
from tessera.core.program.program import Program
from tessera.core.program.types import Array, Scalar
from tessera.core.tile.types import packed
from tessera.lowering.base.emit import Emitter
from tessera.lowering.cpu.base.emit_context import ArrayRef
from tessera.lowering.cpu.base.features import CpuFeatures
from tessera.lowering.cpu.simt.structured_control import StructuredControl
from tessera.lowering.cpu.simt.vectors import Vectors

_SIGNATURE: Final = "!llvm.func<i32 (ptr, i64, i64, ptr, ptr)>"
_WORD: Final = 8
_HALF: Final = 16
"""Bits of the floats that are kept as integers."""


class EntryPoint:
    """The entry point of one kernel, opened: arguments are loaded, code goes to `emit`'s point.

    `slots` lists what the entry point expects; `scratch_bytes` grows as scratch memory is asked for.
    """

    def __init__(self, program: Program, module: ir.Module, location: ir.Location, processor: CpuFeatures) -> None:
        self.program = program
        self.processor = processor
        self.emit = Emitter(module.body, location)
        self.entry = entry_name(program.name)
        self.slots: list[Slot] = []
        self.scratch_bytes = 0
        self.shared_bytes = 0
        block = self._open()
        slots, self.first, self.past, self._scratch, cancel = block.arguments
        self._slots = slots
        self.vectors = Vectors(self.emit, block)
        self.flow = StructuredControl(self.emit, cancel)
        self._symbols: dict[str, ir.Value] = {}
        self.arguments: list[ArrayRef | ir.Value] = []
        self._load_symbols()
        self._load_parameters()

    # -- the entry point ---------------------------------------------------------------------------------------

    def _open(self) -> ir.Block:
        attributes = {
            "sym_name": ir.StringAttr.get(self.entry),
            "function_type": f"{_SIGNATURE}",
            "linkage": "#llvm.linkage<external>",
            "CConv": "#llvm.cconv<ccc>",
            "passthrough": '[["prefer-vector-width", "512"]]',
            "arg_attrs": "[{llvm.noalias, llvm.readonly}, {}, {}, {llvm.noalias, llvm.align = 64 : i64}, {}]",
        }
        function = self.emit.create("llvm.func", attributes=attributes, regions=1)
        kinds = [self.emit.type(kind) for kind in ("!llvm.ptr", "i64", "i64", "!llvm.ptr", "!llvm.ptr")]
        block = function.regions[0].blocks.append(*kinds, arg_locs=[self.emit.location] * len(kinds))
        self.emit.point = ir.InsertionPoint(block)
        return block

    def close(self) -> None:
        """End the entry point: 1 when the launch was cancelled, else 0."""
        going = self.flow.going()
        one, zero = self.flow.constant(1, "i32"), self.flow.constant(0, "i32")
        code = self.emit.value("arith.select", [going, zero, one], "i32")
        self.emit.create("llvm.return", [code])

    # -- arguments ---------------------------------------------------------------------------------------------

    def slot(self, slot: Slot, kind: str = "i64") -> ir.Value:
        """Add `slot` to the calling convention and load it as `kind`."""
        self.slots.append(slot)
        address = self.offset(self._slots, (len(self.slots) - 1) * _WORD)
        return self.load(address, kind, _WORD)

    def _load_symbols(self) -> None:
        for symbol in self.program.symbols:
            self._symbols[symbol.name] = self.slot(Slot("symbol", symbol=symbol.name))

    def _load_parameters(self) -> None:
        for number, parameter in enumerate(self.program.parameters):
            kind = parameter.value.type
            if isinstance(kind, Array):
                self.arguments.append(self._array(number, kind))
            elif isinstance(kind, Scalar):
                memory = f"i{kind.dtype.bits}" if kind.dtype.bits == _HALF else packed(kind.dtype)
                value = self.slot(Slot("scalar", parameter=number), memory)
                self.arguments.append(self.to_bool(value) if kind.dtype.kind == "bool" else value)

    def _array(self, number: int, kind: Array) -> ArrayRef:
        pointer = self.slot(Slot("pointer", parameter=number), "!llvm.ptr")
        extents = tuple(
            self.symbol(extent) if isinstance(extent, str) else self.vectors.constant(extent, "i64")
            for extent in kind.shape
        )
        if kind.contiguous:
            strides = self._contiguous(kind.shape, extents)
        else:
            strides = tuple(self.slot(Slot("stride", parameter=number, axis=a)) for a in range(len(kind.shape)))
        return ArrayRef(pointer, extents, strides, self.emit.type(packed(kind.dtype)))

    def _contiguous(self, shape: tuple[int | str, ...], extents: tuple[ir.Value, ...]) -> tuple[Index, ...]:
        """Row-major strides: numbers as long as the extents further in are numbers."""
        strides: list[Index] = []
        stride: Index = 1
        for extent, value in zip(reversed(shape), reversed(extents), strict=True):
            strides.append(stride)
            if isinstance(stride, int) and isinstance(extent, int):
                stride *= extent
            elif isinstance(stride, int) and stride == 1:
                stride = value
            else:
                multiplier = self.vectors.constant(stride, "i64") if isinstance(stride, int) else stride
                stride = self.vectors.integer("muli", multiplier, value)
        return tuple(reversed(strides))

    def symbol(self, name: str) -> ir.Value:
        """Return the value of a shape symbol (i64)."""
        return self._symbols[name]

    # -- memory ------------------------------------------------------------------------------------------------

    def scratch(self, size: int, align: int = 64) -> ir.Value:
        """Address of `size` bytes at a fixed place of the thread's scratch memory."""
        return self.at(self.reserve(size, align))

    def reserve(self, size: int, align: int = 64) -> int:
        """Return the offset of `size` bytes in the thread's scratch memory."""
        offset = -(-self.scratch_bytes // align) * align
        self.scratch_bytes = offset + size
        return offset

    def at(self, offset: int) -> ir.Value:
        """Return the address of a reserved place."""
        return self.offset(self._scratch, offset)

    def offset(self, pointer: ir.Value, offset: int) -> ir.Value:
        """`pointer` plus a constant number of bytes."""
        if offset == 0:
            return pointer
        return self.emit.value(
            "llvm.getelementptr",
            [pointer],
            "!llvm.ptr",
            {"elem_type": "i8", "rawConstantIndices": f"array<i32: {offset}>", "noWrapFlags": "3 : i32"},
        )

    def element(self, pointer: ir.Value, index: ir.Value, kind: str) -> ir.Value:
        """Return the address of element `index` (an i64 value or vector) of type `kind`."""
        vector = isinstance(index.type, ir.VectorType)
        return self.emit.value(
            "llvm.getelementptr",
            [pointer, index],
            self.vectors.wide("!llvm.ptr") if vector else "!llvm.ptr",
            {"elem_type": kind, "rawConstantIndices": "array<i32: -2147483648>", "noWrapFlags": "0 : i32"},
        )

    def load(self, address: ir.Value, kind: str, align: int) -> ir.Value:
        """Load a value of type `kind`."""
        return self.emit.value("llvm.load", [address], kind, {"alignment": f"{align} : i64", "ordering": "0 : i64"})

    def store(self, value: ir.Value, address: ir.Value, align: int) -> None:
        """Store a value."""
        attributes = {"alignment": f"{align} : i64", "ordering": "0 : i64"}
        self.emit.create("llvm.store", [value, address], (), attributes)

    def to_bool(self, byte: ir.Value) -> ir.Value:
        """Return a bool's byte (or vector of bytes) as i1."""
        wide = isinstance(byte.type, ir.VectorType)
        kind = self.vectors.wide("i1") if wide else "i1"
        zero = self.vectors.constant(0, self.vectors.text(byte.type))
        return self.vectors.compare("ne", byte, zero, kind)

    def to_byte(self, value: ir.Value) -> ir.Value:
        """Return an i1 (or vector of them) as bytes 0 and 1."""
        kind = self.vectors.wide("i8") if isinstance(value.type, ir.VectorType) else "i8"
        return self.emit.value("arith.extui", [value], kind)


def entry_name(name: str) -> str:
    """Return the entry point's symbol: letters, digits and underscores only."""
    return "tessera_" + re.sub(r"\W", "_", name, flags=re.ASCII)
