"""Launch a CUDA artifact: bind device arrays, pack the slots, launch, wait.

Arrays come in as whatever speaks `__cuda_array_interface__` or DLPack (cupy, torch, jax, numba) and are used where they
lie, which decides the device.  NumPy arrays are accepted too: they are copied to the GPU before the launch, and those
the kernel may write are copied back after it, so such a launch waits for its end.

The first call of a kind binds its arguments in full and leaves a `LaunchPlan`, which serves the calls after it.
"""

import struct
import weakref
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Final, Protocol, cast

from tessera.core.artifact import Artifact
from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import BadCapture, CudaFailure, ScalarRange, WrongDevice
from tessera.core.program.types import Array
from tessera.core.targets import DEFAULT_ON_GPU, TARGETS
from tessera.runtime.arrays.host import AnyArray, DeviceView
from tessera.runtime.binding.argument_packing import ArgumentPacking
from tessera.runtime.binding.current_stream import ArgumentStreams
from tessera.runtime.binding.device_placement import launch_device
from tessera.runtime.binding.grid import Grid, GridRule, Shape
from tessera.runtime.binding.host_copies import HostArguments, host_array
from tessera.runtime.binding.signature import Binder
from tessera.runtime.binding.tensor_maps import MappedWindow, TensorMaps
from tessera.runtime.driver.descriptors import LaunchConfig, Launched, launch_config
from tessera.runtime.driver.driver import driver
from tessera.runtime.driver.modules import DeviceCode
from tessera.runtime.launch.launch_plan import LaunchPlan
from tessera.runtime.launch.parameter_buffer import ParameterBuffer, ParameterLayout
from tessera.runtime.memory.alignment_copies import AlignedCopies, MapOf, PaddedRows, RowPadding
from tessera.runtime.memory.device_arrays import device_view, is_on_device


class HasHandle(Protocol):
    """A stream that has a CUDA stream on each device; `external`: it is another library's, which may be capturing."""

    handles: dict[int, int]
    external: bool

    def handle(self, device: int) -> int:
        """Return the CUDA stream's address, which is one of `handles` from then on."""
        ...


StreamLike = int | HasHandle
_LARGEST_GRID: Final = (1 << 31) - 1
_KEPT: Final = 8
"""Kinds of calls a thread keeps ready: extents, grids."""
_THREADS: Final = 64


def device_architecture(device: int | None = None, target: str = DEFAULT_ON_GPU) -> str:
    """Return the architecture to compile for so that the code runs on a device (None: the current one): "sm_90a".

    Raises:
        CudaFailure: no GPU, or one that none of the target's architectures fits.
    """
    api = driver()
    api.enter()
    capability = api.capability(api.device() if device is None else device)
    found = TARGETS[target].architecture_for(capability)
    if found is None:
        message = f"no code of {target} runs on a GPU of compute capability {capability[0]}.{capability[1]}"
        raise CudaFailure(message, hint=f"use one of {', '.join(TARGETS[target].architectures)}")
    return found.name


def synchronize(stream: int = 0) -> None:
    """Wait for everything launched on `stream` (0: the default stream).  Raises CudaFailure for what failed there."""
    api = driver()
    api.enter()
    api.wait(stream)


class CudaLauncher:
    """One CUDA artifact, loaded in each context it is launched in.  May be used from several threads.

    `scalars`: see `Binder`.  Raises CudaFailure when the driver refuses the code.
    quick: launches on the default stream when the arguments are like those of the last call, in the same thread; else
    it answers False, having started nothing
    """

    def __init__(self, artifact: Artifact, scalars: Sequence[type] | None = None) -> None:
        self.artifact = artifact
        self._driver = driver()
        self._driver.enter()
        self._binder = Binder(artifact, scalars, DeviceView)
        self._grid = GridRule(artifact, self._binder.symbol)
        self._layout = ParameterLayout(artifact)
        self._slots = ArgumentPacking(self._layout.packed, self._binder)
        self._maps = TensorMaps(artifact, self._driver)
        self._padded = {
            slot.parameter for _, slot in self._layout.maps if slot.tensor_map and slot.tensor_map.padded_rows
        }
        if self._padded:
            # Let others have the memory that the copies of its arrays were in.
            weakref.finalize(self, self._driver.give_back, None, self._driver.trim).atexit = False
        self._rule = artifact.launch
        self._threads = self._rule.threads
        self._kernel = Launched(artifact.name, artifact.span, artifact.source)
        self._loaded: dict[int, DeviceCode] = {}
        self._prepared: dict[int, list[LaunchPlan]] = {}
        self._groups: int | None = None
        self.quick: Callable[[Sequence[object]], bool] = _never
        self._load()

    def __call__(
        self, *arguments: object, grid: Grid | None = None, stream: StreamLike | None = None,
        profile: AnyArray | None = None,
    ) -> None:  # fmt: skip
        """Launch on `stream` (a CUstream's address, 0 for the default one, or a `Stream`; None: see `ArgumentStreams`).

        Arrays may be on the device or in NumPy.
        `profile` is memory on the device for the launch's profile records, where it writes any.
        Returns at once when all arrays are on the device; `synchronize` then waits.  Raises the TesseraError of
        whatever is wrong with the arguments before anything runs, and CudaFailure for what the driver refuses.
        """
        if profile is not None or not self.run(arguments, grid, stream):
            self._driver.enter()
            device = self._device(arguments)
            # What prepares a launch is no part of what another library captures meanwhile.
            with self._driver.inside(device), self._driver.relaxed():
                records = self._binder.address_of(profile)
                if stream is None:
                    company = ArgumentStreams.of(arguments, device)
                    handle = company.current()
                    with company.around(self._driver, handle):
                        self._launch_in_full(arguments, grid, handle, records)
                else:
                    handle = stream if isinstance(stream, int) else stream.handle(device)
                    self._launch_in_full(arguments, grid, handle, records)

    def run(self, arguments: Sequence[object], grid: Grid | None = None, stream: StreamLike | None = None) -> bool:
        """Launch when `arguments` are like those of an earlier call; False, having started nothing, otherwise."""
        prepared = self._prepared.get(get_ident())
        if prepared is None:
            return False
        for index, candidate in enumerate(prepared):
            if stream is None or isinstance(stream, int):
                handle, own = stream, not stream
            else:
                handle, own = stream.handles.get(candidate.device), not stream.external
                if handle is None:
                    handle = stream.handle(candidate.device)
            if candidate.launch(arguments, grid, handle, own):
                if index:
                    prepared.insert(0, prepared.pop(index))
                self.quick = candidate.launch
                return True
        return False

    def prepare(self, arguments: Sequence[object], grid: Grid | None = None) -> LaunchPlan | None:
        """Bind a launch that can be begun later, and again and again; None where it has no groups.

        Raises WrongDevice for arrays that are not on the device: their copies could not be repeated.
        """
        self._driver.enter()
        for value, binding in zip(arguments, self.artifact.bindings, strict=False):
            if isinstance(binding.type, Array) and not is_on_device(value):
                message = f"{binding.name} is not in the memory of a GPU, and this launch cannot wait for its copy"
                raise WrongDevice(message, binding.span, f"pass cupy.asarray({binding.name})")
        device = self._device(arguments)
        with self._driver.inside(device):
            made = self._prepare(self._place(arguments, HostArguments(self._driver, 0)), grid, 0, 0)
            if made is not None:
                made.company = ArgumentStreams.of(arguments, device)
            return made

    @property
    def on_streams(self) -> "CudaLauncher":
        """The launcher itself."""
        return self

    @property
    def last_groups(self) -> tuple[int | None]:
        """How many groups the last call of this thread had; None before a call."""
        prepared = self._prepared.get(get_ident())
        return (prepared[0].groups if prepared else self._groups,)

    def handle_of(self, arguments: Sequence[object], device: int, stream: StreamLike | None) -> int:
        """Return the CUDA stream that a launch goes to."""
        if stream is None:
            return ArgumentStreams.of(arguments, device).current()
        return stream if isinstance(stream, int) else stream.handle(device)

    def captures(self, stream: int) -> bool:
        """Return whether a CUDA stream is being captured for a graph."""
        return self._driver.capturing(stream)

    def launch_together(
        self, others: "Sequence[CudaLauncher]", arguments: Sequence[object], grid: Grid | None,
        stream: StreamLike | None,
    ) -> None:  # fmt: skip
        """Launch this artifact and then `others`, which take the same arguments; NumPy arrays are copied once."""
        self._driver.enter()
        device = self._device(arguments)
        with self._driver.inside(device):
            handle = self.handle_of(arguments, device, stream)
            copies = HostArguments(self._driver, handle)
            try:
                views = self._place(arguments, copies)
                for launcher in (self, *others):
                    made = launcher._prepare(views, grid, handle, 0)
                    if made is not None:
                        made.begin()
                copies.copy_back()
            finally:
                copies.close()

    def on_device(self, arguments: Sequence[object]) -> bool:
        """Return whether every array lies in the memory of a GPU."""
        pairs = zip(arguments, self.artifact.bindings, strict=False)
        return all(is_on_device(value) for value, binding in pairs if isinstance(binding.type, Array))

    def device(self, arguments: Sequence[object]) -> int:
        """Return the GPU that a launch on `arguments` runs on.  Raises WrongDevice where they are on several."""
        self._driver.enter()
        return self._device(arguments)

    def _launch_in_full(self, arguments: Sequence[object], grid: Grid | None, stream: int, profile: int) -> None:
        copies = HostArguments(self._driver, stream)
        try:
            views = self._place(arguments, copies)
            made = self._prepare(views, grid, stream, profile)
            if made is not None:
                made.begin()
                if not copies and not profile and made.remember(arguments, views, self.artifact):
                    self._keep(made)
            if copies:
                copies.copy_back()
        finally:
            copies.close()

    def _keep(self, made: LaunchPlan) -> None:
        if len(self._prepared) > _THREADS:  # of threads that have ended, most of them
            self._prepared.clear()
        prepared = self._prepared.setdefault(get_ident(), [])
        prepared.insert(0, made)
        del prepared[_KEPT:]
        self.quick = made.launch

    def _device(self, arguments: Sequence[object]) -> int:
        """Return the device that a launch on `arguments` runs on."""
        try:
            return launch_device(self._driver, arguments, self.artifact.bindings)
        except TesseraError as error:
            raise error.with_source(self.artifact.source) from None

    def _load(self) -> DeviceCode:
        """Return the code in the current context."""
        context = self._driver.context()
        found = self._loaded.get(context)
        if found is None:
            bounded = self._rule.persistent or bool(self._layout.of_kind("scratch"))
            with self._driver.relaxed():
                made = DeviceCode(self._driver, self.artifact, bounded=bounded)
            found = self._loaded.setdefault(context, made)  # another thread may have been first
        return found

    def _place(self, arguments: Sequence[object], copies: HostArguments) -> list[object]:
        """Return every array as a view of device memory; NumPy arrays are copied there, and noted in `copies`.

        Raises OverlappingArrays, as every launch does: copies would not share what the arrays share.
        """
        bindings = self.artifact.bindings
        if len(arguments) != len(bindings):
            self._binder.check(arguments)  # raises: it says how many there should be
        values = list(arguments)
        host: dict[int, AnyArray] = {}
        for number, (value, binding) in enumerate(zip(arguments, bindings, strict=True)):
            if isinstance(binding.type, Array):
                if is_on_device(value):
                    values[number] = device_view(value, binding.name, binding.span, mutable=binding.mutable)
                else:
                    values[number] = host[number] = host_array(value, binding)
        if host and copies.captured:
            binding = bindings[next(iter(host))]
            message = f"{binding.name} is a NumPy array, and its copy to the GPU cannot be captured"
            hint = "copy it to the GPU before the capture, and pass that"
            raise BadCapture(message, binding.span, hint).with_source(self.artifact.source)
        if len(host) > 1:
            self._binder.check_overlap(values)
        for number, array in host.items():
            values[number] = copies.on_device(array, written=bindings[number].mutable)
        return values

    def _prepare(self, values: Sequence[object], grid: Grid | None, stream: int, profile: int) -> LaunchPlan | None:
        """Bind `values` in full and write every parameter; None for a launch without groups."""
        facts = self._binder.facts(values)
        if facts is None:
            values = self._binder.check(values)
            facts = self._binder.facts(values)
        if facts is None:
            message = f"{self.artifact.name}: checked arguments were not accepted"
            raise AssertionError(message)
        shape = self._grid.shape(facts, grid)
        self._groups = shape.units
        if shape.units == 0:
            return None
        try:
            packed, _ = self._slots.pack(facts, shape)
        except (OverflowError, struct.error):
            self._binder.check(values)  # names the number that is too large
            raise ScalarRange("a number is too large for its parameter", self.artifact.span) from None
        loaded = self._load()
        blocks = self._blocks(shape, loaded)
        block = ParameterBuffer(self._layout)
        block.fill(packed)
        maps = [
            (index, slot.parameter, *self._maps.window(slot, cast("AnyArray", values[slot.parameter])))
            for index, slot in self._layout.maps
        ]
        copied = self._copied(values)
        windows: list[MapOf] = []
        for index, place, window, start in maps:
            if place not in copied:
                block.write(index, window.at(start))
                if cast("AnyArray", values[place]).size:
                    windows.append((index, place, window.at))
        for index, _ in self._layout.of_kind("profile"):
            block.word(index).value = profile
        return LaunchPlan(
            self._driver, loaded, self._kernel, self._config(blocks, loaded, stream), block, grid,
            windows=tuple(windows), scratch=self._scratch(blocks), copies=self._copies(copied, maps), stream=stream,
            groups=shape.units,
            pointers=tuple((index, slot.parameter) for index, slot in self._layout.of_kind("pointer")),
        )  # fmt: skip

    def _config(self, blocks: int, loaded: DeviceCode, stream: int) -> LaunchConfig:
        rule = self._rule
        return launch_config(blocks, self._threads, loaded.shared, rule.cluster, stream, early=rule.early)

    def _blocks(self, shape: Shape, loaded: DeviceCode) -> int:
        """Return the number of blocks to launch: the groups, in whole clusters, or as many as run at a time."""
        cluster = self._rule.cluster
        blocks = -(-shape.units // cluster) * cluster
        if loaded.resident:
            blocks = min(blocks, loaded.resident)
        if blocks > _LARGEST_GRID:
            message = f"{shape.units} groups; a launch has {_LARGEST_GRID} at most"
            raise CudaFailure(message, self.artifact.span, hint="give each group more work")
        return blocks

    def _copied(self, values: Sequence[object]) -> dict[int, AnyArray]:
        """Return the arrays that a launch copies to aligned rows, by their parameters' numbers."""
        arrays = {number: cast("AnyArray", values[number]) for number in self._padded}
        return {number: array for number, array in arrays.items() if array.size}

    def _copies(
        self, arrays: dict[int, AnyArray], maps: Sequence[tuple[int, int, MappedWindow, int]]
    ) -> AlignedCopies | None:
        """Return the copies of `arrays` that a launch needs."""
        if not arrays:
            return None
        pointers = [index for index, slot in self._layout.of_kind("pointer") if slot.parameter in arrays]
        order = [self.artifact.slots[index].parameter for index in pointers]
        windows = [(index, order.index(number), window.at) for index, number, window, _ in maps if number in arrays]
        rows = [PaddedRows.of(arrays[number].shape, arrays[number].itemsize) for number in order]
        names = tuple(self.artifact.bindings[number].name for number in order)
        return AlignedCopies(RowPadding(self._driver, rows), tuple(pointers), tuple(windows), names)

    def _scratch(self, blocks: int) -> tuple[tuple[int, int, bool], ...]:
        """Return the memory for one launch: (parameter, bytes, whether it begins as zeros)."""
        size = self.artifact.resources.scratch_bytes
        return (
            *((index, blocks * size, False) for index, _ in self._layout.of_kind("scratch")),
            *((index, slot.bytes, True) for index, slot in self._layout.of_kind("workspace")),
        )


def _never(_: Sequence[object]) -> bool:
    """Decline: the fast path before the first launch."""
    return False
