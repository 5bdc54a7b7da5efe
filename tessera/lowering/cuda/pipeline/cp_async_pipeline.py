"""Fill buffers in shared memory by `cp.async`, issued by the warps that compute and running beside their MMAs.

Iteration i of a loop begins with one barrier: all lanes have then seen their own copies for iteration i arrive, and
none reads the buffers of iteration i - 1 any more.  It ends by starting the copies of a later iteration into those.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, Protocol

from tessera.core.layouts import Layout, blocked, coordinates
from tessera.core.mlir import AnyOp, Index, ir
from tessera.core.resources import Buffers
from tessera.lowering.base.emit import required
from tessera.lowering.cuda.base.gpu_function import GpuFunction
from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.cuda.base.memory import address, inside
from tessera.lowering.cuda.base.profile_records import phase
from tessera.lowering.cuda.isa.sm80 import copy_async, copy_commit, copy_wait, opaque
from tessera.lowering.cuda.isa.sm90 import fence_async_shared
from tessera.lowering.cuda.pipeline.shared_plan import stage_layout
from tessera.lowering.cuda.pipeline.unaligned_copy import copy_shifted
from tessera.lowering.cuda.schedule.cp_async_loads import CopyPlan
from tessera.lowering.cuda.storage.emit_context import WindowContext
from tessera.lowering.cuda.storage.global_access import Window, load_tile
from tessera.lowering.cuda.storage.register_tiles import pack, shared_pointer
from tessera.lowering.cuda.storage.shared_access import Cursor
from tessera.lowering.cuda.storage.shared_scratch import SharedScratch
from tessera.lowering.cuda.storage.shared_tile import SharedTile, panels_of
from tessera.lowering.cuda.storage.warps import ROLLED, WarpSet

_UNIT: Final = 16
_WORD: Final = 4
_HELD: Final = 4
"""Bits of the number of elements that a lane has in registers on their way to shared memory."""


class CpAsyncContext(WindowContext, Protocol):
    """The context that copies need."""

    frame: GpuFunction


class CpAsyncPipeline:
    """The buffers of one `CopyPlan`.

    generic: whether only ordinary loads read the buffers; tensor cores of sm_90a need a fence
    """

    def __init__(
        self,
        build: IndexBuilder,
        plan: CopyPlan,
        scratch: SharedScratch,
        depth: int,
        shared_bytes: int,
        *,
        generic: bool,
    ) -> None:
        self.plan = plan
        self._build = build
        self._generic = generic
        layout = stage_layout(plan)
        self._offsets, self._stage_bytes = layout.offsets, layout.size
        self.stages = plan.stages(self._stage_bytes, depth, shared_bytes)
        self._distance = plan.prefetch_distance(self.stages)
        self._base = scratch.address(scratch.take(self._stage_bytes * self.stages))
        self._now: ir.Value | None = None  # the offset of this iteration's buffers
        self._next: ir.Value | None = None

    @property
    def is_prefetched(self) -> bool:
        """Return whether copies are started in earlier iterations of a loop."""
        return self.stages > 1

    @property
    def buffers(self) -> Buffers:
        """Return how many buffers there are, and their size."""
        return Buffers("copied by the consumer warps", self.stages, self._stage_bytes)

    # -- loops with prefetch -----------------------------------------------------------------------------------

    def begin_loop(self, host: CpAsyncContext, loop: AnyOp) -> list[ir.Value]:
        """Emit the prologue of a loop, its first copies; return what the loop carries: two offsets of buffers (i32)."""
        build = self._build
        lower, upper, step = map(build.index, host.env.scalars(list(loop.operands)[:3]))
        host.warp_set.wait()

        def start(_: ir.Value, values: list[ir.Value]) -> Sequence[ir.Value]:
            index, offset = values
            self._start(host, index, upper, offset)
            return [
                build.index(build.add(index, step)),
                build.value("arith.addi", [offset, build.word(self._stage_bytes)], "i32"),
            ]

        build.loop(0, self._distance, 1, [lower, build.word(0)], start, ROLLED)
        return [build.word(0), build.word(self._distance * self._stage_bytes)]

    def begin_round(self, host: CpAsyncContext, values: Sequence[ir.Value]) -> None:
        """Begin an iteration: wait for its bytes."""
        self._now, self._next = values
        with phase(self._build, host.frame, "load"):
            copy_wait(self._build, self._distance - 1)
            self._arrived(host)

    def end_round(self, host: CpAsyncContext, loop: AnyOp) -> list[ir.Value]:
        """End an iteration: start the copies of a later one while the tensor cores are still busy.

        Return the offsets of the next iteration.
        """
        build = self._build
        _, upper, step = map(build.index, host.env.scalars(list(loop.operands)[:3]))
        index = host.env.scalar(self.plan.block.arguments[0])
        current, following = required(self._now), required(self._next)
        self._start(host, build.add(index, build.mul(step, self._distance)), upper, following)
        return [self._following(current), self._following(following)]

    def _following(self, offset: ir.Value) -> ir.Value:
        build = self._build
        moved = build.value("arith.addi", [offset, build.word(self._stage_bytes)], "i32")
        wrapped = build.compare("eq", moved, build.word(self.stages * self._stage_bytes))
        return build.select(wrapped, build.word(0), moved)

    def _start(self, host: CpAsyncContext, index: Index, upper: Index, offset: ir.Value) -> None:
        """Start the copies of iteration `index`, if there is one; each iteration is a group of copies, be it empty."""
        build, argument = self._build, self.plan.block.arguments[0]
        before = dict(host.env)
        with build.when(build.compare("slt", index, upper)):
            host.env[argument] = index
            for op in self.plan.scalars:
                host.repeat(op)
            for load in self.plan.loads:
                self._copy(host, load, offset)
        host.env.clear()
        host.env.update(before)
        copy_commit(build)

    # -- copies without prefetch-------------------------------------------------------------------------------

    def fill(self, host: CpAsyncContext, load: AnyOp) -> None:
        """Copy and wait, for loads whose address or time is not known before."""
        offset = self._now = self._build.word(0)
        host.warp_set.wait()
        self._copy(host, load, offset)
        copy_commit(self._build)
        copy_wait(self._build, 0)
        self._arrived(host)

    def _arrived(self, host: CpAsyncContext) -> None:
        if not self._generic:
            fence_async_shared(self._build)
        host.warp_set.wait()

    # -- both --------------------------------------------------------------------------------------------------

    def tile(self, load: AnyOp) -> SharedTile:
        """Return the buffer of a load in this iteration."""
        return SharedTile(
            self._address(load, required(self._now)),
            panels_of(load),
            str(ir.ShapedType(load.results[0].type).element_type),
        )

    def _address(self, load: AnyOp, offset: ir.Value) -> ir.Value:
        build = self._build
        place = build.value("arith.addi", [self._base, offset], "i32")
        return build.value("arith.addi", [place, build.word(self._offsets[load])], "i32")

    def _copy(self, host: CpAsyncContext, load: AnyOp, offset: ir.Value) -> None:
        kind = ir.ShapedType(load.results[0].type)
        memory, *starts = load.operands
        window = host.window(load, memory, starts, kind.shape)
        target = SharedTile(self._address(load, offset), panels_of(load), str(kind.element_type))
        with self._build.located(load.location):
            copy_window(self._build, host.warp_set, window, target)


class CpAsyncCopies:
    """All `cp.async` pipelines of a kernel; `depth` is how many stages those in loops have at most."""

    def __init__(
        self,
        build: IndexBuilder,
        plans: Sequence[CopyPlan],
        scratch: SharedScratch,
        depth: int,
        shared_bytes: int,
        *,
        generic: bool,
    ) -> None:
        self._rings = [CpAsyncPipeline(build, plan, scratch, depth, shared_bytes, generic=generic) for plan in plans]

    @property
    def buffers(self) -> tuple[Buffers, ...]:
        """Return the buffers of each pipeline."""
        return tuple(ring.buffers for ring in self._rings)

    def staged(self, host: CpAsyncContext, load: AnyOp) -> SharedTile | None:
        """Return the buffer of a load; None for a load that is not copied by `cp.async`."""
        ring = next((ring for ring in self._rings if load in ring.plan.loads), None)
        if ring is None:
            return None
        if not ring.is_prefetched:
            ring.fill(host, load)
        return ring.tile(load)

    def begin_loop(self, host: CpAsyncContext, loop: AnyOp) -> list[ir.Value]:
        """Emit the prologues of the pipelines in a loop; return what it carries for them."""
        return [value for ring in self._inside(loop) for value in ring.begin_loop(host, loop)]

    def begin_round(self, host: CpAsyncContext, loop: AnyOp, values: Sequence[ir.Value]) -> None:
        """Begin an iteration of a loop; `values` are what it carries."""
        for number, ring in enumerate(self._inside(loop)):
            ring.begin_round(host, values[2 * number : 2 * number + 2])

    def end_round(self, host: CpAsyncContext, loop: AnyOp) -> list[ir.Value]:
        """End an iteration; return what the next one is given."""
        return [value for ring in self._inside(loop) for value in ring.end_round(host, loop)]

    def is_prefetched(self, op: AnyOp) -> bool:
        """Return whether an operation is in a loop that starts copies for later iterations."""
        return any(ring.is_prefetched and ring.plan.block == op.operation.block for ring in self._rings)

    def _inside(self, loop: AnyOp) -> list[CpAsyncPipeline]:
        return [ring for ring in self._rings if ring.is_prefetched and ring.plan.loop == loop]


def copy_window(build: IndexBuilder, warp_set: WarpSet, window: Window, target: SharedTile) -> None:
    """Start copying a window: 16 bytes at a time where its rows are aligned to that, else 4, else none.

    Rows that are aligned to neither are copied at once, through registers: shifted into place, or element by element
    where rows have gaps between elements.
    """
    if window.bytes == _UNIT:
        _pieces(build, warp_set, window, target, _UNIT)
        return
    window = _recomputed(build, window)
    bits = _alignment(build, window, target.panels.size)

    def choose(size: int, otherwise: Callable[[], None]) -> None:
        even = build.compare("eq", build.bits(bits, size - 1), 0)
        either(even, lambda: _pieces(build, warp_set, window, target, size), otherwise)

    def either(condition: ir.Value, *branches: Callable[[], None]) -> None:
        made = build.create("scf.if", [condition], (), regions=2)
        for region, emit in zip(made.regions, branches, strict=True):
            with build.at(region.blocks.append()):
                emit()
                build.create("scf.yield")

    def shifted() -> None:
        stride = window.memory.strides[-1]
        if stride == 1:
            copy_shifted(build, warp_set, window, target)
        else:
            either(
                build.compare("eq", stride, 1),
                lambda: copy_shifted(build, warp_set, window, target),
                lambda: _elements(build, warp_set, window, target),
            )

    def narrow() -> None:
        if target.panels.size >= _WORD:
            _pieces(build, warp_set, window, target, target.panels.size)
        else:
            choose(_WORD, shifted)

    choose(_UNIT, narrow)


def _recomputed(build: IndexBuilder, window: Window) -> Window:
    """Hide a window's numbers from the optimizer, which would otherwise hoist what is computed from them."""
    strides = tuple(stride if isinstance(stride, int) else opaque(build, stride) for stride in window.memory.strides)
    starts = tuple(start if isinstance(start, int) else opaque(build, start) for start in window.starts)
    return replace(window, memory=replace(window.memory, strides=strides), starts=starts)


def _alignment(build: IndexBuilder, window: Window, size: int) -> ir.Value:
    """Return an index whose low bits are 0 as far as all rows of the window are aligned.

    It is all ones where the window begins outside of the array, or where a row's elements are not contiguous.
    """
    memory, last = window.memory, len(window.starts) - 1
    bits = build.value("llvm.ptrtoint", [memory.pointer], "i64")
    for axis, (start, stride) in enumerate(zip(window.starts, memory.strides, strict=True)):
        step = build.mul(start if axis == last else stride, size)
        bits = build.value("arith.ori", [bits, build.index(step)], "i64")
    irregular = build.compare("slt", window.starts[last], 0)
    if memory.strides[last] != 1:
        gaps = build.compare("ne", memory.strides[last], 1)
        irregular = build.value("arith.ori", [irregular, gaps], "i1")
    return build.select(irregular, -1, bits)


def _pieces(build: IndexBuilder, warp_set: WarpSet, window: Window, target: SharedTile, size: int) -> None:
    """Copy `size` bytes at a time; what lies outside the array arrives as zeros.  A box's pixels are rows in turn."""
    panels, memory = target.panels, window.memory
    count = size // panels.size
    matrix = (panels.rows, panels.columns)
    layout = blocked(matrix, count, warp_set.bits).reshaped(tuple(window.extents))
    places = warp_set.places(layout)
    lane = places.parts(0)[0]
    *outer, column = lane
    row = outer[0]
    for extent, part in zip(window.extents[1:-1], outer[1:], strict=True):
        row = build.add(build.mul(row, extent), part)
    cursor = Cursor(build, target, row, column)
    kept = [axis for axis in range(len(window.starts)) if axis not in window.dropped]
    first = address(build, memory, window.place(build, lane))
    with build.when(warp_set.owns(layout)):
        for register in range(0, layout.count, count):
            constant = coordinates(layout.element(register), layout.shape)
            indices = window.place(build, places.indices(register))
            far: Index = 0
            for axis, along in zip(kept, constant, strict=True):
                far = build.add(far, build.mul(memory.strides[axis], along))
            place, offset = cursor.at(*coordinates(layout.element(register), matrix))
            source = build.offset(first, far, memory.element)
            copy_async(build, place, offset, source, size, _amount(build, window, indices, size, panels.size))


def _amount(build: IndexBuilder, window: Window, indices: list[Index], size: int, element: int) -> ir.Value | None:
    """Return how many of `size` bytes lie inside the array (an i32); None where all do."""
    if window.bytes == _UNIT or size == element:
        condition = inside(build, window.memory, indices, window.proven)
        return None if condition is None else build.select(condition, build.word(size), build.word(0))
    last = len(indices) - 1
    condition = inside(build, window.memory, [*indices[:-1], 0], (*window.proven[:-1], True))
    left: Index = size
    if not window.proven[last]:
        remaining = build.sub(window.memory.extents[last], indices[last])
        left = build.mul(build.minimum(build.maximum(remaining, 0), size // element), element)
    if condition is None:
        return None if isinstance(left, int) else build.to_word(left)
    return build.to_word(build.select(condition, left, 0))


def _elements(build: IndexBuilder, warp_set: WarpSet, window: Window, target: SharedTile) -> None:
    """Copy through registers, a few at a time, two neighbours to a word."""
    panels = target.panels
    pair = _WORD // panels.size
    layout = blocked((panels.rows, panels.columns), pair, warp_set.bits)
    cursor = Cursor(build, target, *warp_set.places(layout).parts(0)[0])
    part = Layout(layout.shape, layout.registers[:_HELD], layout.lanes, layout.warps)
    for first in range(0, layout.count, part.count):
        begin = coordinates(layout.element(first), layout.shape)
        moved = replace(window, starts=tuple(window.place(build, begin)))
        values = load_tile(build, warp_set, moved, part, target.element).values
        with build.when(warp_set.owns(layout)):
            for number in range(0, part.count, pair):
                address, offset = cursor.at(*coordinates(layout.element(first + number), layout.shape))
                place = build.value("arith.addi", [address, build.word(offset)], "i32")
                build.store(pack(build, values[number : number + pair]), shared_pointer(build, place), "i32")
