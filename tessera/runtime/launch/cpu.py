"""Launch a CPU artifact on arguments: bind them, pack the slots, run the groups."""

import ctypes
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.artifact import Artifact
from tessera.core.errors.catalog import ScalarRange
from tessera.core.program.types import Array
from tessera.runtime.arrays.host import AnyArray
from tessera.runtime.arrays.pointers import address
from tessera.runtime.binding.argument_packing import ArgumentPacking
from tessera.runtime.binding.grid import Grid, GridRule
from tessera.runtime.binding.signature import Arguments, Binder
from tessera.runtime.launch import thread_pool
from tessera.runtime.launch.object_code import Loaded, load
from tessera.runtime.launch.thread_pool import Job, chunk_size, scratch

# A launch below both limits takes less time than waking a thread.
_INLINE_LANES: Final = 1 << 16
_INLINE_BYTES: Final = 1 << 18
_NEVER: Final = ctypes.c_int32(0)
_NEVER_ADDRESS: Final = ctypes.addressof(_NEVER)


@dataclass(slots=True, eq=False)
class BoundLaunch:
    """One launch with its arguments bound, which can be run again and again.

    slots: the arguments; pointers: the numbers of the slots that are addresses, each with that of its argument
    quick: it takes less time than waking a thread; keep: what the kernel's addresses point to
    workspaces: memory that begins as zeros
    """

    loaded: Loaded
    slots: "ctypes.Array[ctypes.c_char]"
    pointers: Sequence[tuple[int, int]]
    units: int
    scratch_bytes: int
    quick: bool
    keep: object
    workspaces: Sequence[AnyArray] = ()
    job: Job | None = None

    def words(self, argument: int) -> "list[ctypes.c_uint64]":
        """Return the places that hold the address of an argument: what is written there counts from the next run on."""
        word, size = ctypes.c_uint64, ctypes.sizeof(ctypes.c_uint64)
        return [word.from_buffer(self.slots, size * slot) for slot, number in self.pointers if number == argument]

    def run(self) -> None:
        """Run the groups, to the end of the last one."""
        for memory in self.workspaces:
            memory.fill(0)
        if self.quick:
            self.loaded.quick(self.slots, 0, self.units, scratch.address(self.scratch_bytes), _NEVER_ADDRESS)
            return
        chunk = chunk_size(self.units)
        self.job = Job(
            self.loaded.address, ctypes.addressof(self.slots), self.units, chunk, self.scratch_bytes, self
        )  # fmt: skip
        try:
            thread_pool.run(self.job)
        finally:
            self.job = None

    def cancel(self) -> None:
        """Ask a run in another thread to end early; what it has written stays written."""
        job = self.job
        if job is not None:
            job.cancel()


class CpuLauncher:
    """One artifact, loaded and ready.  May be used from several threads.

    `scalars`: see `Binder`; `last_groups`: of the last call.  Raises CompilerCrash when the artifact's code cannot be
    loaded.
    """

    def __init__(self, artifact: Artifact, scalars: Sequence[type] | None = None) -> None:
        self.artifact = artifact
        self._binder = Binder(artifact, scalars)
        self._grid = GridRule(artifact, self._binder.symbol)
        self._slots = ArgumentPacking(artifact, self._binder)
        self._loaded = load(artifact)
        self._quick = self._loaded.quick
        self._count = len(artifact.bindings)
        self._arrays = tuple(i for i, b in enumerate(artifact.bindings) if isinstance(b.type, Array))
        self._pointers = tuple((n, slot.parameter) for n, slot in enumerate(artifact.slots) if slot.kind == "pointer")
        self._scratch_bytes = artifact.resources.scratch_bytes
        self._bounded = artifact.bounded
        self.last_groups: tuple[int | None, ...] = (None,)

    @property
    def quick(self) -> Callable[..., bool]:
        """The fast path: it launches when the arguments are exactly what the kernel takes."""
        return self.run

    @property
    def on_streams(self) -> None:
        """The host has no streams of its own: queues launch there."""
        return

    def __call__(self, *arguments: object, grid: Grid | None = None, profile: AnyArray | None = None) -> None:
        """Run the kernel on `arguments`, in the order of its parameters; arrays may be anything `as_array` can view.

        `profile` is memory for the launch's profile records, where it writes any.
        Raises the TesseraError of whatever is wrong with the arguments, before anything is written.
        """
        if not self.run(arguments, grid, profile) and not self.run(self._binder.check(arguments), grid, profile):
            raise AssertionError(f"{self.artifact.name}: checked arguments were not accepted")

    def run(self, arguments: Sequence[object], grid: Grid | None = None, profile: AnyArray | None = None) -> bool:
        """Run the kernel when `arguments` are exactly what it takes; False, having done nothing, when they are not.

        KeyboardInterrupt ends a long launch within two seconds; what it has written so far stays written.
        """
        if len(arguments) != self._count:
            return False
        facts = self._binder.facts(arguments)
        if facts is None:
            return False
        shape = self._grid.shape(facts, grid)
        self.last_groups = (shape.units,)
        if shape.units == 0:
            return True
        try:
            slots, buffers = self._slots.pack(facts, shape, self._binder.address_of(profile))
        except (OverflowError, struct.error):
            self._binder.check(arguments)  # names the number that is too large
            raise ScalarRange("a number is too large for its parameter", self.artifact.span) from None
        if self._bounded and shape.lanes <= _INLINE_LANES and self._bytes(arguments) <= _INLINE_BYTES:
            self._quick(slots, 0, shape.units, scratch.address(self._scratch_bytes), _NEVER_ADDRESS)
        else:
            keep = (self._loaded, arguments, buffers, profile)
            thread_pool.run(
                Job(self._loaded.address, slots, shape.units, chunk_size(shape.units), self._scratch_bytes, keep)
            )
        return True

    def prepare(self, arguments: Sequence[object], grid: Grid | None = None) -> BoundLaunch | None:
        """Bind `arguments`, to run later; None for a launch without groups.  Raises the TesseraError they make."""
        values = self._binder.check(arguments)
        facts = self._binder.facts(values)
        if facts is None:
            raise AssertionError(f"{self.artifact.name}: checked arguments were not accepted")
        shape = self._grid.shape(facts, grid)
        if shape.units == 0:
            return None
        slots, buffers = self._slots.pack(facts, shape)
        quick = self._bounded and shape.lanes <= _INLINE_LANES and self._distinct_bytes(values) <= _INLINE_BYTES
        memory = ctypes.create_string_buffer(slots, len(slots))
        return BoundLaunch(
            self._loaded, memory, self._pointers, shape.units, self._scratch_bytes, quick, (arguments, values), buffers
        )  # fmt: skip

    def _distinct_bytes(self, arguments: Arguments) -> int:
        """Return the bytes of all arrays, an array that is given several times counted once.

        A kernel that reads parts of one array has a parameter for each part.
        """
        arrays = [arguments[index] for index in self._arrays]
        return sum({(address(array), array.nbytes): array.nbytes for array in arrays}.values())

    def _bytes(self, arguments: Arguments) -> int:
        total = 0
        for index in self._arrays:
            total += arguments[index].nbytes
        return total
