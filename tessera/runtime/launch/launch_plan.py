"""A launch made ready: all parameters in memory, so that a call like the last one only has to compare and to patch.

`LaunchPlan.launch` is the way of nearly every call on a GPU.  It answers False, having started nothing, for
anything that the launcher has to look at in full: other types or shapes, arrays on another device, arrays that might
overlap, a number that may not fit.
"""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from threading import get_ident
from typing import Final

from tessera.core.artifact import PADDED_ROW_BYTES, Artifact
from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import ContextLost, CudaFailure, OutOfDeviceMemory
from tessera.core.program.types import Scalar
from tessera.runtime.arrays.interop import Stream, default_stream
from tessera.runtime.binding.current_stream import ArgumentStreams
from tessera.runtime.binding.grid import Grid
from tessera.runtime.binding.signature import Arguments
from tessera.runtime.driver.calls import WRONG_CONTEXT, Launch
from tessera.runtime.driver.descriptors import LaunchConfig, Launched, in_turn
from tessera.runtime.driver.driver import Driver
from tessera.runtime.driver.modules import DeviceCode
from tessera.runtime.launch.argument_guards import (
    NOWHERE,
    WINDOW_ALIGNMENT,
    ArrayGuard,
    Guard,
    NumberGuard,
    ParameterPlace,
    array_guard,
)
from tessera.runtime.launch.graph_launch import SingleNodeGraph
from tessera.runtime.launch.parameter_buffer import ParameterBuffer
from tessera.runtime.memory.alignment_copies import AlignedCopies, MapOf

_NULL: Final = ctypes.c_void_p(0)
_NO_STREAM: Final = -1
_SINGLE_AFTER: Final = 3
"""Launches after which a graph of one node is made: that takes as long as ten launches."""
_LASTING_BYTES: Final = 16 << 20
"""Of arrays: a GPU is busy with them for longer than the host takes to launch a kernel (5 us at 4 TB/s)."""
_SINGLES: Final = 8  # streams of one kind of launch that have such a graph


@dataclass(slots=True, eq=False)
class LaunchPlan:
    """One launch with everything it needs; `CudaLauncher` makes it.

    code: what it launches, and where
    config, block: the launch's size and its parameters, as the driver takes them
    windows: tensor maps on arrays as they lie, each with its argument's number
    scratch: memory that lives for one launch, as (parameter, bytes, whether it begins as zeros)
    groups: of the launch; a block does several where the kernel is persistent
    copies: of arrays whose rows are not aligned, which are made before each launch, in memory that lives as long
    company: which streams a launch that names none has to do with
    pointers: the slots that hold an array's address, each with its argument's number
    """

    driver: Driver
    code: DeviceCode
    kernel: Launched
    config: LaunchConfig
    block: ParameterBuffer
    grid: Grid | None
    windows: tuple[MapOf, ...] = ()
    scratch: tuple[tuple[int, int, bool], ...] = ()
    copies: AlignedCopies | None = None
    stream: int = 0
    company: ArgumentStreams = field(default_factory=ArgumentStreams)
    groups: int = 0
    pointers: tuple[tuple[int, int], ...] = ()
    _single: SingleNodeGraph | None = None
    _singles: dict[int, SingleNodeGraph] = field(default_factory=dict[int, SingleNodeGraph])
    _launches: int = 0
    _thread: int = 0
    _several: bool = False
    _lasting: bool = False
    _takes: tuple[Callable[[object], bool], ...] = ()
    _mapped: tuple[tuple[ArrayGuard, tuple[tuple[int, Callable[[int], bytes]], ...]], ...] = ()
    _pairs: tuple[tuple[ArrayGuard, ArrayGuard, bool], ...] = ()
    _current: Stream | None = None
    _alone: bool = True
    _count: int = -1
    _call: tuple[ctypes.c_void_p, ...] = ()
    context: int = field(init=False)
    device: int = field(init=False)
    function: ctypes.c_void_p = field(init=False)
    _start: Callable[..., int] = field(init=False)
    _note: Callable[[Launch], None] = field(init=False)
    _record: Launch = field(init=False)

    def __post_init__(self) -> None:
        self.context, self.device = self.code.context, self.code.device
        self.function = ctypes.c_void_p(self.code.function)
        self._call = (ctypes.c_void_p(ctypes.addressof(self.config)), self.function, self.block.addresses, _NULL)
        self._start = self.driver.start
        self._note = self.driver.launched.append
        self._several = self.driver.count() > 1
        self._thread = get_ident()
        self._record = (self.kernel, self.context, self.stream)

    def launch(
        self, values: Sequence[object], grid: Grid | None = None, stream: int | None = None, own: bool = True
    ) -> bool:
        """Launch on `values` when they are like the last ones; False, having started nothing, when they may not be.

        stream: None: the current one of the arrays' library
        own: `stream` is the default one or one of ours, which no other library captures
        """
        if len(values) != self._count or get_ident() != self._thread or (grid is not self.grid and grid != self.grid):
            return False
        for value, take in zip(values, self._takes):  # noqa: B905 - counted above
            if not take(value):
                return False
        if self.block.moved and not self._settle():
            return False
        if stream is None:
            stream = 0 if self._current is None else self._current()
            own = not stream
            if not (self._alone or self.company.agrees(stream)):
                self._begin_among_others(stream)
                return True
        if stream != self.stream:
            self.set_stream(stream)
        self._begin_or_replay(own)
        return True

    def _begin_or_replay(self, own: bool) -> None:
        """Launch as it stands, as a graph where there is one."""
        single = self._single
        if single is None:
            self.begin()
            if own:
                self._look_for_single()
        elif not own or (self._several and self.driver.context() != self.context):
            self.begin()
        elif (single.version != self.block.version and single.update()) or single.start():
            self.begin()  # which says what the matter is, unless it is only that another context is current
        else:
            self._note(self._record)

    def _begin_among_others(self, stream: int) -> None:
        """Launch in order with the streams of other libraries, or wait for the end."""
        self.set_stream(stream)
        with self.driver.within(self.context), self.company.around(self.driver, stream):
            self.begin()

    def _look_for_single(self) -> None:
        """Make the launches on a stream graphs, after some of them: a graph is launched in half the time.

        Not those on large arrays: there the host's time is hidden behind the GPU's, and those that should begin early
        do so as kernels only (a product of 2048: 23.2 us of the GPU's time a launch, 24.2 as a graph).
        """
        if self.scratch or self.copies is not None or self._lasting:
            return
        self._launches += 1
        if self._launches < _SINGLE_AFTER:
            return
        single = self._singles.get(self.stream)
        if single is None:
            if len(self._singles) >= _SINGLES:
                self._singles.clear()
            # Another library's capture, in the mode that most begin it in, forbids other streams what this takes.
            with self.driver.within(self.context), self.driver.relaxed():
                single = SingleNodeGraph(self.driver, self.function, in_turn(self.config), self.block, self.stream)
            self._singles[self.stream] = single
        self._single = single

    @property
    def lone(self) -> bool:
        """Return whether a launch needs no memory of its own, so that it is nothing but a kernel."""
        return not self.scratch and self.copies is None

    @property
    def record(self) -> Launch:
        """Return a note of the launch, for the report of a fault."""
        return self._record

    def words(self, argument: int) -> list[ctypes.c_uint64]:
        """Return the parameters that hold an argument's address; they live no longer than the plan."""
        return [self.block.word(slot) for slot, number in self.pointers if number == argument]

    def maps(self, argument: int) -> list[tuple[int, Callable[[int], bytes]]]:
        """Return the parameters that are tensor maps on an argument, each with what makes it for an address."""
        return [(slot, map_at) for slot, number, map_at in self.windows if number == argument]

    def begin(self) -> None:
        """Launch as it stands.  Raises CudaFailure for what the driver refuses, ContextLost after a fault."""
        if self.scratch or self.copies is not None:
            self._with_memory()
            return
        status = self._start(*self._call)
        if status:
            self._retry(status)
        self._note(self._record)

    def set_stream(self, stream: int) -> None:
        """Launch on `stream` from now on."""
        self.stream = _NO_STREAM  # until the rest agrees with it: Ctrl-C may come between any two of these lines
        self.config.stream = stream or None
        self._single = self._singles.get(stream)
        self._record = (self.kernel, self.context, stream)
        self.stream = stream

    def copy(self) -> "LaunchPlan":
        """Return another launch with the same parameters, which are never patched."""
        config = LaunchConfig.from_buffer_copy(self.config)
        made = replace(
            self,
            config=config,
            block=self.block.copy(),
            copies=None if self.copies is None else self.copies.copy(),
            _takes=(),
            _mapped=(),
            _pairs=(),
            _count=-1,
            _singles={},
            _single=None,
        )
        config.keep = self.config  # pyright: ignore[reportAttributeAccessIssue] - it holds what `attributes` points to
        return made

    def remember(self, values: Sequence[object], views: Arguments, artifact: Artifact) -> bool:
        """Note what `values` are like, so that `launch` knows them again; False where that has no quick way.

        `views`: the same arrays as NumPy arrays that stand for them
        """
        items: list[Guard] = []
        arrays: dict[int, ArrayGuard] = {}
        for place, (value, view, binding) in enumerate(zip(values, views, artifact.bindings, strict=True)):
            if isinstance(binding.type, Scalar):
                items.append(NumberGuard(value, binding.type, self._place(artifact, place, "scalar")))
                continue
            item = array_guard(value, view, binding, self.device, self._place(artifact, place, "pointer"))
            if item is None:
                return False
            arrays[place] = item
            items.append(item)  # pyright: ignore[reportArgumentType] - every kind of array has `matches_and_patch`
        mapped: dict[int, list[tuple[int, Callable[[int], bytes]]]] = {}
        for slot, place, map_at in self.windows:
            arrays[place].alignment = WINDOW_ALIGNMENT
            mapped.setdefault(place, []).append((slot, map_at))
        self._mapped = tuple((arrays[place], tuple(windows)) for place, windows in mapped.items())
        self._pairs = tuple(
            (a, b, (i, j) in artifact.no_alias)
            for i, a in arrays.items() for j, b in arrays.items() if a.mutable and i != j
        )  # fmt: skip
        self._lasting = sum(views[place].nbytes for place in arrays) >= _LASTING_BYTES
        self.company = ArgumentStreams.of(values, self.device)
        self._alone = self.company.alone
        self._current = None if self.company.current is default_stream else self.company.current
        self._count = len(items)
        self._takes = tuple(item.matches_and_patch for item in items)
        return True

    def _place(self, artifact: Artifact, parameter: int, kind: str) -> ParameterPlace:
        slots = enumerate(artifact.slots)
        return ParameterPlace(
            self.block, tuple(i for i, slot in slots if slot.kind == kind and slot.parameter == parameter)
        )

    def _settle(self) -> bool:
        """Check whether arrays overlap after addresses have changed, and bring the tensor maps up to date."""
        for mine, theirs, disjoint in self._pairs:
            if mine.start < theirs.end and theirs.start < mine.end and (disjoint or mine.meets(theirs)):
                return False
        if self._mapped:
            self._move_windows()
        self.block.moved = False
        return True

    def _move_windows(self) -> None:
        for array, windows in self._mapped:
            pointer = array.pointer
            if array.mapped != pointer:
                array.mapped = NOWHERE  # until all its maps are written
                for slot, map_at in windows:
                    self.block.write(slot, map_at(pointer))
                array.mapped = pointer

    def _with_memory(self) -> None:
        """Launch with memory that is there for this launch alone."""
        api, stream = self.driver, self.stream
        held: list[int] = []
        with api.within(self.context):
            try:
                for slot, size, cleared in self.scratch:
                    held.append(api.allocate(size, stream))
                    if cleared:
                        api.clear(held[-1], size, stream)
                    self.block.word(slot).value = held[-1]
                status = 0
                if self.copies is not None:
                    held.append(api.reserve(self.copies.bytes, stream, self.device))
                    status = self._pad_rows(self.copies, held[-1])
                status = status or self._start(*self._call)
                if status:
                    self._refuse(status)
                self._note(self._record)
            except OutOfDeviceMemory as error:
                raise self._without_memory(error, padding=len(held) == len(self.scratch)) from None
            finally:
                if api.lost is None:
                    for memory in held:
                        api.free(memory, stream)

    def _without_memory(self, error: OutOfDeviceMemory, *, padding: bool) -> TesseraError:
        """Say for what there is too little memory.  padding: for copies whose rows are aligned; else for scratch."""
        kernel, purpose, hint = self.kernel, "memory that the launch takes by itself", error.hint
        if padding and self.copies is not None:
            names = ", ".join(self.copies.names)
            purpose = f"a copy of {names} whose rows begin at multiples of {PADDED_ROW_BYTES} bytes"
            hint = f"give {names} rows of a multiple of {WINDOW_ALIGNMENT} bytes, which are read where they are; {hint}"
        message = f"kernel {kernel.name}: {purpose}: {error.message}"
        return OutOfDeviceMemory(message, kernel.span, hint).with_source(kernel.source)

    def _pad_rows(self, copies: AlignedCopies, memory: int) -> int:
        """Copy what has to be aligned, and let the tensor maps say where to: the driver's status."""
        for slot, made in copies.maps(memory):
            self.block.write(slot, made)
        sources = [self.block.word(slot).value for slot in copies.pointers]
        return copies.launch.start(self.context, self.stream, sources, memory)

    def _retry(self, status: int) -> None:
        """Launch again in this launch's own context, where another one is current.  Raises any other failure."""
        if status not in WRONG_CONTEXT:
            self._refuse(status)
        with self.driver.within(self.context):
            again = self._start(*self._call)
            if again:
                self._refuse(again)

    def _refuse(self, status: int) -> None:
        """Raise what the driver's status means for this kernel."""
        try:
            self.driver.failed(status, "cuLaunchKernelEx")
        except ContextLost:
            raise
        except CudaFailure as error:
            kernel = self.kernel
            message = f"kernel {kernel.name}: {error.message}"
            raise CudaFailure(message, kernel.span, error.hint).with_source(kernel.source) from None
