"""Buffers in shared memory that the team itself fills, by copies that run beside its products (`cp.async`).

Round i of a loop begins with one barrier: by then all lanes have seen their own copies for round i arrive, and nobody
reads the buffers of round i - 1 any more.  It ends with starting the copies for round i + ahead, into those.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from tessera.core.layouts import Layout, blocked, coordinates
from tessera.core.resources import Buffers
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
    """What copies ask of the code around them."""

    frame: GpuFunction


class CpAsyncPipeline:
    """The buffers of one `CopyPlan`.

    generic: whether only ordinary loads read the buffers; tensor cores of sm_90a ask for a fence
    """

    def __init__(
        self, build: IndexBuilder, plan: CopyPlan, room: SharedScratch, depth: int, shared_bytes: int, *, generic: bool
    ) -> None:
        self.plan = plan
        self._build = build
        self._generic = generic
        layout = stage_layout(plan)
        self._offsets, self._stage_bytes = layout.offsets, layout.size
        self.stages = plan.stages(self._stage_bytes, depth, shared_bytes)
        self._ahead = plan.ahead(self.stages)
        self._base = room.address(room.take(self._stage_bytes * self.stages))
        self._now: Any = None  # the offset of this round's buffers
        self._next: Any = None

    @property
    def is_ahead(self) -> bool:
        """Whether copies are started in earlier rounds of a loop."""
        return self.stages > 1

    @property
    def buffers(self) -> Buffers:
        """How many there are, and of how many bytes."""
        return Buffers("copied by the team", self.stages, self._stage_bytes)

    # -- loops that copy ahead ---------------------------------------------------------------------------------

    def begin_loop(self, host: CpAsyncContext, loop: Any) -> list[Any]:
        """In front of the loop: start its first copies; gives what the loop carries: two offsets of buffers (i32)."""
        build = self._build
        lower, upper, step = (build.index(host.env[v]) for v in list(loop.operands)[:3])
        host.team.wait()

        def start(_: Any, values: list[Any]) -> Sequence[Any]:
            index, offset = values
            self._start(host, index, upper, offset)
            return [build.add(index, step), build.value("arith.addi", [offset, build.word(self._stage_bytes)], "i32")]

        build.loop(0, self._ahead, 1, [lower, build.word(0)], start, ROLLED)
        return [build.word(0), build.word(self._ahead * self._stage_bytes)]

    def begin_round(self, host: CpAsyncContext, values: Sequence[Any]) -> None:
        """Where a round begins: wait for its bytes."""
        self._now, self._next = values
        with phase(self._build, host.frame, "load"):
            copy_wait(self._build, self._ahead - 1)
            self._arrived(host)

    def end_round(self, host: CpAsyncContext, loop: Any) -> list[Any]:
        """Where a round ends, and the tensor cores are still busy: start the copies of a later one.

        Gives the offsets of the next round.
        """
        build = self._build
        _, upper, step = (build.index(host.env[v]) for v in list(loop.operands)[:3])
        index = host.env[self.plan.block.arguments[0]]
        self._start(host, build.add(index, build.mul(step, self._ahead)), upper, self._next)
        return [self._following(self._now), self._following(self._next)]

    def _following(self, offset: Any) -> Any:
        build = self._build
        moved = build.value("arith.addi", [offset, build.word(self._stage_bytes)], "i32")
        wrapped = build.compare("eq", moved, build.word(self.stages * self._stage_bytes))
        return build.select(wrapped, build.word(0), moved)

    def _start(self, host: CpAsyncContext, index: Any, upper: Any, offset: Any) -> None:
        """Copy what round `index` reads, if there is one; every round is a group of copies, be it empty."""
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

    # -- copies in their place ---------------------------------------------------------------------------------

    def fill(self, host: CpAsyncContext, load: Any) -> None:
        """Copy and wait: for loads whose place or time is not known before."""
        self._now = self._build.word(0)
        host.team.wait()
        self._copy(host, load, self._now)
        copy_commit(self._build)
        copy_wait(self._build, 0)
        self._arrived(host)

    def _arrived(self, host: CpAsyncContext) -> None:
        if not self._generic:
            fence_async_shared(self._build)
        host.team.wait()

    # -- both --------------------------------------------------------------------------------------------------

    def tile(self, load: Any) -> SharedTile:
        """Where a load's bytes are in this round."""
        return SharedTile(self._address(load, self._now), panels_of(load), str(load.results[0].type.element_type))

    def _address(self, load: Any, offset: Any) -> Any:
        build = self._build
        place = build.value("arith.addi", [self._base, offset], "i32")
        return build.value("arith.addi", [place, build.word(self._offsets[load])], "i32")

    def _copy(self, host: CpAsyncContext, load: Any, offset: Any) -> None:
        kind = load.results[0].type
        memory, *starts = load.operands
        window = host.window(load, memory, starts, kind.shape)
        target = SharedTile(self._address(load, offset), panels_of(load), str(kind.element_type))
        with self._build.located(load.location):
            copy_window(self._build, host.team, window, target)


class CpAsyncCopies:
    """All copy rings of a kernel; `depth` is how many stages those in loops have at most."""

    def __init__(
        self,
        build: IndexBuilder,
        plans: Sequence[CopyPlan],
        room: SharedScratch,
        depth: int,
        shared_bytes: int,
        *,
        generic: bool,
    ) -> None:
        self._rings = [CpAsyncPipeline(build, plan, room, depth, shared_bytes, generic=generic) for plan in plans]

    @property
    def buffers(self) -> tuple[Buffers, ...]:
        """Those of each ring."""
        return tuple(ring.buffers for ring in self._rings)

    def staged(self, host: CpAsyncContext, load: Any) -> SharedTile | None:
        """The buffer that a load's bytes are in; None for a load that goes another way."""
        ring = next((ring for ring in self._rings if load in ring.plan.loads), None)
        if ring is None:
            return None
        if not ring.is_ahead:
            ring.fill(host, load)
        return ring.tile(load)

    def begin_loop(self, host: CpAsyncContext, loop: Any) -> list[Any]:
        """In front of a loop: what it carries for the copies in it."""
        return [value for ring in self._inside(loop) for value in ring.begin_loop(host, loop)]

    def begin_round(self, host: CpAsyncContext, loop: Any, values: Sequence[Any]) -> None:
        """Where a round of a loop begins; `values` are what it carries."""
        for number, ring in enumerate(self._inside(loop)):
            ring.begin_round(host, values[2 * number : 2 * number + 2])

    def end_round(self, host: CpAsyncContext, loop: Any) -> list[Any]:
        """Where a round ends: what the next one is given."""
        return [value for ring in self._inside(loop) for value in ring.end_round(host, loop)]

    def is_ahead(self, op: Any) -> bool:
        """Whether an operation stands in a loop for whose later rounds copies are started."""
        return any(ring.is_ahead and ring.plan.block == op.block for ring in self._rings)

    def _inside(self, loop: Any) -> list[CpAsyncPipeline]:
        return [ring for ring in self._rings if ring.is_ahead and ring.plan.loop == loop]


def copy_window(build: IndexBuilder, team: WarpSet, window: Window, target: SharedTile) -> None:
    """Start copying a window of two axes: 16 bytes at a time where its rows are aligned to that, else 4, else none.

    What is neither is copied at once: through registers, shifted into place, or element by element where rows have gaps
    between elements.
    """
    if window.bytes == _UNIT:
        _pieces(build, team, window, target, _UNIT)
        return
    window = _recomputed(build, window)
    bits = _alignment(build, window, target.panels.size)

    def choose(size: int, otherwise: Callable[[], None]) -> None:
        even = build.compare("eq", build.bits(bits, size - 1), 0)
        either(even, lambda: _pieces(build, team, window, target, size), otherwise)

    def either(condition: Any, *branches: Callable[[], None]) -> None:
        made = build.create("scf.if", [condition], (), regions=2)
        for region, emit in zip(made.regions, branches, strict=True):
            with build.at(region.blocks.append()):
                emit()
                build.create("scf.yield")

    def shifted() -> None:
        stride = window.memory.strides[-1]
        if stride == 1:
            copy_shifted(build, team, window, target)
        else:
            either(
                build.compare("eq", stride, 1),
                lambda: copy_shifted(build, team, window, target),
                lambda: _elements(build, team, window, target),
            )

    def narrow() -> None:
        if target.panels.size >= _WORD:
            _pieces(build, team, window, target, target.panels.size)
        else:
            choose(_WORD, shifted)

    choose(_UNIT, narrow)


def _recomputed(build: IndexBuilder, window: Window) -> Window:
    """The same window, of which nothing is kept in registers from one round of a loop to the next."""
    strides = tuple(stride if isinstance(stride, int) else opaque(build, stride) for stride in window.memory.strides)
    starts = tuple(start if isinstance(start, int) else opaque(build, start) for start in window.starts)
    return replace(window, memory=replace(window.memory, strides=strides), starts=starts)


def _alignment(build: IndexBuilder, window: Window, size: int) -> Any:
    """An index whose low bits are 0 as far as all rows of the window are aligned.

    All ones where it begins outside of the array, or where a row's elements do not follow each other.
    """
    memory, last = window.memory, len(window.starts) - 1
    bits = build.value("llvm.ptrtoint", [memory.pointer], "i64")
    for axis, (start, stride) in enumerate(zip(window.starts, memory.strides, strict=True)):
        step = build.mul(start if axis == last else stride, size)
        bits = build.value("arith.ori", [bits, build.index(step)], "i64")
    apart = build.compare("slt", window.starts[last], 0)
    if memory.strides[last] != 1:
        gaps = build.compare("ne", memory.strides[last], 1)
        apart = build.value("arith.ori", [apart, gaps], "i1")
    return build.select(apart, -1, bits)


def _pieces(build: IndexBuilder, team: WarpSet, window: Window, target: SharedTile, size: int) -> None:
    """Copy `size` bytes at a time; what lies outside the array arrives as zeros."""
    panels, memory = target.panels, window.memory
    count = size // panels.size
    layout = blocked((panels.rows, panels.columns), count, team.bits)
    places = team.places(layout)
    lane = places.parts(0)[0]
    cursor = Cursor(build, target, *lane)
    kept = [axis for axis in range(len(window.starts)) if axis not in window.dropped]
    first = address(build, memory, window.place(build, lane))
    with build.when(team.owns(layout)):
        for register in range(0, layout.count, count):
            constant = coordinates(layout.element(register), layout.shape)
            indices = window.place(build, places.indices(register))
            far: Any = 0
            for axis, along in zip(kept, constant, strict=True):
                far = build.add(far, build.mul(memory.strides[axis], along))
            place, offset = cursor.at(*constant)
            source = build.offset(first, far, memory.element)
            copy_async(build, place, offset, source, size, _amount(build, window, indices, size, panels.size))


def _amount(build: IndexBuilder, window: Window, indices: list[Any], size: int, element: int) -> Any | None:
    """How many of `size` bytes lie inside the array (an i32); None where all do."""
    if window.bytes == _UNIT or size == element:
        condition = inside(build, window.memory, indices, window.proven)
        return None if condition is None else build.select(condition, build.word(size), build.word(0))
    last = len(indices) - 1
    condition = inside(build, window.memory, [*indices[:-1], 0], (*window.proven[:-1], True))
    left: Any = size
    if not window.proven[last]:
        room = build.sub(window.memory.extents[last], indices[last])
        left = build.mul(build.minimum(build.maximum(room, 0), size // element), element)
    if condition is None:
        return None if isinstance(left, int) else build.to_word(left)
    return build.to_word(build.select(condition, left, 0))


def _elements(build: IndexBuilder, team: WarpSet, window: Window, target: SharedTile) -> None:
    """Copy through registers, a few at a time, two neighbours to a word."""
    panels = target.panels
    pair = _WORD // panels.size
    layout = blocked((panels.rows, panels.columns), pair, team.bits)
    cursor = Cursor(build, target, *team.places(layout).parts(0)[0])
    part = Layout(layout.shape, layout.registers[:_HELD], layout.lanes, layout.warps)
    for first in range(0, layout.count, part.count):
        begin = coordinates(layout.element(first), layout.shape)
        moved = replace(window, starts=tuple(window.place(build, begin)))
        values = load_tile(build, team, moved, part, target.element).values
        with build.when(team.owns(layout)):
            for number in range(0, part.count, pair):
                address, offset = cursor.at(*coordinates(layout.element(first + number), layout.shape))
                place = build.value("arith.addi", [address, build.word(offset)], "i32")
                build.store(pack(build, values[number : number + pair]), shared_pointer(build, place), "i32")
