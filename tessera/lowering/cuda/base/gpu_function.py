"""Build the GPU function around a kernel's code: its parameters, ids, shared memory and launch rule.

A group is a block of lanes along x.  Groups are numbered along x too, the last axis fastest, so that a launch of any
shape is one row of blocks; a kernel that needs private global memory (`spill`) runs as many blocks as fit the machine,
each of which takes one group after the other.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tessera.core.artifact import LaunchRule, Slot
from tessera.core.errors.catalog import NotOnCuda
from tessera.core.mlir import AnyOp, Index, ir
from tessera.core.profile import wants_profile
from tessera.core.program.expressions import Expression, translate
from tessera.core.program.program import Program
from tessera.core.program.types import Array, Scalar, Type
from tessera.core.targets import Architecture
from tessera.lowering.base.emit import required
from tessera.lowering.base.ir_walk import defining
from tessera.lowering.cuda.base.buffer_allocation import BufferAllocator
from tessera.lowering.cuda.base.index_builder import GLOBAL, INDEX, SHARED, IndexBuilder

DEFAULT_LANES: Final = 256
WARP: Final = 32
SHARED_SYMBOL: Final = "shared_memory"
_TENSOR_MAP: Final = "{llvm.byval = !llvm.array<128 x i8>, llvm.align = 64 : i64, nvvm.grid_constant}"
STATIC_LIMIT: Final = 48 * 1024
"""Bytes of shared memory a kernel may declare; more has to be asked for at launch (CUDA C++ Programming Guide)."""


@dataclass
class GpuFunction:
    """One kernel function under construction.

    block_lanes: lanes of a hardware block, as the kernel says (not necessarily a multiple of a warp)
    symbols: extents by name, as i64 values
    arguments: for each parameter of the kernel, a pointer or a scalar value
    records: address of the records of a profiled launch, None in an ordinary kernel (see `profile_records`)
    every: how many groups there are to a record, 0 in an ordinary kernel
    """

    program: Program
    chip: Architecture
    rule: LaunchRule
    build: IndexBuilder
    entry: ir.Block
    block_lanes: int
    spill: bool
    slots: list[Slot] = field(default_factory=list[Slot])
    symbols: dict[str, ir.Value] = field(default_factory=dict[str, ir.Value])
    arguments: list[ir.Value] = field(default_factory=list[ir.Value])
    strides: list[tuple[ir.Value, ...]] = field(default_factory=list[tuple[ir.Value, ...]])
    shared: BufferAllocator = field(default_factory=BufferAllocator)
    scratch: BufferAllocator = field(default_factory=BufferAllocator)
    tid: ir.Value = field(init=False)
    lane: Index = field(init=False)
    block: ir.Value = field(init=False)
    group: Index = field(init=False)
    lanes_in_launch: ir.Value = field(init=False)
    scratch_base: ir.Value = field(init=False)
    shared_base: ir.Value = field(init=False)
    records: ir.Value | None = None
    every: int = 0
    _grid: tuple[ir.Value, ...] = ()
    _scratch_size: ir.Value | None = None

    @property
    def whole_launch(self) -> bool:
        """Return whether the kernel's one group is the whole launch, which no barrier can hold together."""
        return self.rule.kind == "lanes"

    @property
    def warps_are_full(self) -> bool:
        """Return whether every warp of a block has all of its lanes."""
        return self.block_lanes % WARP == 0

    # -- the beginning -----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Declare parameters and emit the prologue of every kernel."""
        build = self.build
        build.fast = bool(self.program.options.get("fast"))
        if self.block_lanes > self.chip.lanes:
            message = f"a group of {self.block_lanes} lanes; a GPU block holds {self.chip.lanes}"
            raise NotOnCuda(message, self.program.span, hint="give fewer lanes in `tile[...]`")
        self.shared.limit = self.chip.shared_bytes
        self.shared_base = build.value("llvm.mlir.addressof", [], SHARED, {"global_name": f"@{SHARED_SYMBOL}"})
        for number, parameter in enumerate(self.program.parameters):
            self._declare(number, parameter.value.type)
        for symbol in self.program.symbols:
            if symbol.name not in self.symbols:
                self.symbols[symbol.name] = self.slot(Slot("symbol", symbol=symbol.name), INDEX)
        lanes = f"#llvm.constant_range<i32, 0, {self.block_lanes}>"
        self.tid = build.to_index(build.value("nvvm.read.ptx.sreg.tid.x", [], "i32", {"range": lanes}))
        self.block = build.to_index(build.value("nvvm.read.ptx.sreg.ctaid.x", [], "i32"))
        if self.whole_launch:
            self.lanes_in_launch = self.slot(Slot("lanes"), INDEX)
            self.lane = build.add(build.mul(self.block, self.block_lanes), self.tid)
            self.group = 0
        else:
            self.lane, self.group = self.tid, self.block
        self.every = wants_profile(self.program)
        if self.every:
            self.records = self.slot(Slot("profile"), GLOBAL)
        if self.spill:
            base = self.slot(Slot("scratch"), GLOBAL)
            self._scratch_size = build.constant(0, INDEX)
            offset = build.mul(self.block, self._scratch_size)
            self.scratch_base = build.offset(base, offset, "i8")

    def _declare(self, number: int, kind: Type) -> None:
        match kind:
            case Array(shape=shape, contiguous=contiguous):
                self.arguments.append(self.slot(Slot("pointer", number), GLOBAL))
                axes = () if contiguous else range(len(shape))
                self.strides.append(tuple(self.slot(Slot("stride", number, axis), INDEX) for axis in axes))
            case Scalar(dtype):
                boolean = dtype.kind == "bool"
                element = "i8" if boolean else (f"i{dtype.bits}" if dtype.is_integer else dtype.name)
                value = self.slot(Slot("scalar", number), element)
                if boolean:
                    zero = self.build.constant(0, "i8")
                    value = self.build.compare("ne", value, zero)
                self.arguments.append(value)
                self.strides.append(())
            case _:
                message = f"a parameter cannot be {kind}"
                raise NotOnCuda(message, self.program.span)

    def slot(self, slot: Slot, kind: str) -> ir.Value:
        """Add a kernel parameter of the MLIR type `kind` and return its value."""
        self.slots.append(slot)
        return self.entry.add_argument(self.build.type(kind), self.build.location)

    # -- ids ---------------------------------------------------------------------------------------------------

    def grid(self, axis: int | None) -> Index:
        """Return the number of groups of the launch along an axis, or in total."""
        if self.rule.kind != "groups":
            return 1
        if not self._grid:
            self._grid = tuple(self.slot(Slot("grid", axis=a), INDEX) for a in range(3))
        if axis is not None:
            return self._grid[axis]
        return self.build.mul(self.build.mul(self._grid[0], self._grid[1]), self._grid[2])

    def groups(self) -> Index:
        """Return the total number of groups of the launch: grid, times the trips of the loops spread over groups."""
        build, total = self.build, self.grid(None)
        for length, step in self.rule.ranges:
            total = build.mul(total, self.trips(length, step))
        return total

    def trips(self, length: Expression, step: int) -> Index:
        """Return the trip count of a loop that is spread over groups; at least one wherever a group exists."""
        return self.build.divide(self.build.add(translate(length, self), step - 1), step)

    def leaf(self, leaf: int | str) -> Index:
        """Return a number, or the value of a symbol (see `core.program.expressions.Emits`)."""
        return self.symbols[leaf] if isinstance(leaf, str) else leaf

    def apply(self, name: str, a: Index, b: Index) -> Index:
        """Emit one operation of an expression."""
        build = self.build
        make = {"add": build.add, "sub": build.sub, "mul": build.mul, "divide": build.divide, "min": build.minimum,
                "max": build.maximum}  # fmt: skip
        return make[name](a, b)

    def group_at(self, axis: int | None) -> Index:
        """Return the group's index along an axis of the grid, or its linear index."""
        if axis is None or self.rule.kind != "groups":
            return self.group if axis in (None, 0) else 0
        along = self.group
        for inner in range(2, axis, -1):  # one axis after the other: LLVM joins a quotient and its remainder
            along = self.build.divide(along, self.grid(inner))
        return along if axis == 0 else self.build.remainder(along, self.grid(axis))

    def lane_at(self, axis: int | None) -> Index:
        """Return the lane's index within its group along an axis, or its linear index; the last axis is the fastest."""
        if axis is None:
            return self.lane
        if self.whole_launch:
            return self.lane if axis == 0 else 0
        shape = self.shape
        below = math.prod(shape[axis + 1 :])
        if shape[axis] == 1:
            return 0
        along = self.build.divide(self.lane, below)
        return along if below * shape[axis] == self.block_lanes else self.build.remainder(along, shape[axis])

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return the number of lanes of a group along each axis."""
        first, second, third = (*(self.program.group or (self.block_lanes,)), 1, 1)[:3]
        return first, second, third

    def identify(self, of: str, axis: int | None) -> Index:
        """Return the value of `id`: an index."""
        build = self.build
        lanes = self.lanes_in_launch if self.whole_launch and axis in (None, 0) else None
        choices: dict[str, Callable[[], Index]] = {
            "lane": lambda: self.lane_at(axis),
            "group": lambda: self.group_at(axis),
            "grid_groups": lambda: self.grid(axis),
            "lane_in_warp": lambda: build.bits(self.tid, WARP - 1),
            "warp": lambda: build.divide(self.lane, WARP),
            "thread": lambda: self._thread(axis),
            "group_lanes": lambda: lanes if lanes is not None else self._extent(axis),
        }
        return choices[of]()

    def _thread(self, axis: int | None) -> Index:
        if self.whole_launch:
            return self.lane_at(axis)
        base = self.build.mul(self.group_at(axis), self._extent(axis))
        return self.build.add(base, self.lane_at(axis))

    def _extent(self, axis: int | None) -> int:
        if self.whole_launch:
            return 1
        return self.block_lanes if axis is None else self.shape[axis]

    def leader(self) -> ir.Value:
        """Return an i1: this is the group's lane 0."""
        return self.build.compare("eq", self.lane, 0)

    def blocks(self) -> ir.Value:
        """Return the number of hardware blocks of the launch, as an index."""
        return self.build.to_index(self.build.value("nvvm.read.ptx.sreg.nctaid.x", [], "i32"))

    @property
    def scratch_bytes(self) -> int:
        """Return the bytes of private global memory of a block, in whole lines."""
        return -(-self.scratch.peak // 256) * 256

    # -- the end -----------------------------------------------------------------------------------------------

    def finish(self, module_block: ir.Block, function: AnyOp) -> None:
        """Give the function its type and the module its shared memory; call once, after all code."""
        build = self.build
        kinds = ", ".join(str(argument.type) for argument in self.entry.arguments)
        function.attributes["function_type"] = ir.Attribute.parse(f"!llvm.func<void ({kinds})>")
        if any(slot.kind == "tensor_map" for slot in self.slots):
            each = [_TENSOR_MAP if slot.kind == "tensor_map" else "{}" for slot in self.slots]
            function.attributes["arg_attrs"] = ir.Attribute.parse(f"[{', '.join(each)}]")
        if self._scratch_size is not None:
            total = ir.IntegerAttr.get(self._scratch_size.type, self.scratch_bytes)
            required(defining(self._scratch_size)).attributes["value"] = total
        size = self.shared.peak
        if not size:
            required(defining(self.shared_base)).erase()
            return
        dynamic = size > STATIC_LIMIT
        attributes = {
            "sym_name": ir.StringAttr.get(SHARED_SYMBOL),
            "global_type": f"!llvm.array<{0 if dynamic else max(1, size)} x i8>",
            "linkage": f"#llvm.linkage<{'external' if dynamic else 'internal'}>",
            "addr_space": "3 : i32",
            "alignment": "1024 : i64",
        }
        with build.at_start(module_block):
            build.create("llvm.mlir.global", attributes=attributes, regions=1)
