"""A CUDA driver in this process: memory is the host's, kernels are PTX run by `ptx_machine`, or only noted.

Streams run in the order of their calls, at once unless `hold` is set; `log` tells what happened, in order.
"""

import ctypes
import os
import weakref
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from support import ptx_machine
from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import CudaFailure
from tessera.graphs import known_executables
from tessera.graphs.ready import RECENT_CAPTURES
from tessera.runtime.driver import driver as door
from tessera.runtime.driver.calls import Launch
from tessera.runtime.driver.descriptors import Encoding, KernelNode, LaunchAttribute, LaunchConfig
from tessera.runtime.launch import cuda
from tessera.runtime.streams import streams

_FIRST_NODE = 7  # its handle; those of a graph count on from there


class Steps(list[tuple[Any, ...]]):  # the arguments of a copy and of a launch have nothing in common
    """A graph: copies and launches, each with the arguments of its call."""


class FakeDriver(door.Driver):
    """A driver with this process's memory as the device's: every call that the runtime makes, without CUDA.

    sizes: (blocks, lanes, bytes of dynamic shared memory) of each launch; clusters: blocks of each launch's cluster
    linked: whether devices may read each other's memory
    keep: sizes of the parameters, in bytes, of which `parameters` then notes the bytes of each launch
    statuses: what the next calls of `start` give instead of running
    """

    def __init__(self, devices: int = 1, *, run: bool = True) -> None:  # without Driver's own, which loads libcuda
        self.memory: dict[int, np.ndarray] = {}
        self.owners: dict[int, int] = {}
        self.reserved: set[int] = set()
        self.sizes: list[tuple[int, int, int]] = []
        self.clusters: list[int] = []
        self.streams: list[int] = []
        self.log: list[tuple[Any, ...]] = []  # the name of a call and what it was given
        self.waited = 0
        self.lost: TesseraError | None = None
        self._process = os.getpid()
        self.used: set[int] = set()
        self.launched: deque[Launch] = deque(maxlen=64)
        self.statuses: list[int] = []
        self.encoded: list[Encoding] = []
        self.loads: list[int] = []
        self.devices, self.current, self.run = devices, 0, run
        self.functions: dict[int, str] = {}
        self.handles = 1000
        self.events: dict[int, bool] = {}
        self.held: set[int] = set()
        self.captured: dict[int, Steps] = {}
        self.apart: set[int] = set()
        self.loose = 0
        self.graphs: dict[int, Steps] = {}
        self.resident_blocks = 2
        self.keep: list[int] = []
        self.parameters: list[list[bytes]] = []
        self.linked = True

    # contexts: context n belongs to device n - 1

    def enter(self) -> None:
        if self.lost is not None:
            raise self.lost

    def give_back(self, device: int | None, how: Callable[..., object], *what: object) -> None:
        if not self.gone:
            with self.inside(self.current if device is None else device):
                how(*what)

    def context(self) -> int:
        return self.current + 1

    def device(self) -> int:
        return self.current

    def device_of(self, address: int) -> int:
        for start, array in self.memory.items():
            if start <= address < start + max(1, array.nbytes):
                return self.owners.get(start, 0)
        raise CudaFailure(f"no memory at {address:#x}")

    @contextmanager
    def inside(self, device: int) -> Generator[None]:
        before, self.current = self.current, device
        try:
            yield
        finally:
            self.current = before

    @contextmanager
    def within(self, context: int) -> Generator[None]:
        with self.inside(context - 1):
            yield

    def is_pinned(self, address: int) -> bool:
        return any(s <= address < s + a.nbytes and self.owners.get(s) == -1 for s, a in self.memory.items())

    def let_peer(self, device: int, peer: int) -> bool:
        self.log.append(("let peer", device, peer))
        return self.linked

    def count(self) -> int:
        return self.devices

    def name(self, device: int) -> str:
        return f"Fake {device}"

    def memory_of(self, device: int) -> int:
        return 1 << 30

    def capability(self, device: int) -> tuple[int, int]:
        return 9, 0

    def attribute(self, name: str, device: int) -> int:
        known = {"MULTIPROCESSOR_COUNT": 132, "GLOBAL_MEMORY_BUS_WIDTH": 6016, "MEMORY_CLOCK_RATE": 3201000}
        return known.get(name, 9)

    def handle(self) -> int:
        self.handles += 1
        return self.handles

    # launches

    def load(self, code: bytes, entry: str):
        text = code.rstrip(b"\0").decode() if self.run else ""
        assert not self.run or f".entry {entry}(" in text
        self.loads.append(self.current)
        handle = self.handle()
        self.functions[handle] = text
        return handle

    def allow_shared(self, function: int, size: int) -> int:
        return size if ".extern .shared" in self.functions[function] else 0

    def resident(self, function: int, lanes: int, shared: int, cluster: int = 1) -> int:
        return self.resident_blocks * cluster

    def encode(self, wanted: Encoding) -> bytes:
        self.encoded.append(wanted)
        return len(self.encoded).to_bytes(1, "little") * 128

    def start(
        self, config_address: ctypes.c_void_p, function: ctypes.c_void_p, addresses: ctypes.c_void_p, null: object
    ) -> int:
        if self.statuses:
            return self.statuses.pop(0)
        assert config_address.value
        assert function.value
        assert addresses.value
        config = LaunchConfig.from_address(config_address.value)
        cluster = 1
        if config.attribute_count:
            cluster = LaunchAttribute.from_address(config.attributes).x
        stream = config.stream or 0
        if stream in self.captured:
            copy = LaunchConfig.from_buffer_copy(config)
            place, keep = self._snapshot(function.value, addresses.value)
            self.captured[stream].append((function.value, copy, place, cluster, keep))
            return 0
        return self._launch(function.value, config, addresses.value, cluster, stream)

    def _launch(self, function: int, config: LaunchConfig, addresses: int, cluster: int, stream: int) -> int:
        if self.keep:
            places = (ctypes.c_uint64 * len(self.keep)).from_address(addresses)
            self.parameters.append([ctypes.string_at(a, n) for a, n in zip(places, self.keep, strict=True)])
        self.clusters.append(cluster)
        self.streams.append(stream)
        self.sizes.append((config.grid_x, config.block_x, config.shared))
        self.log.append(("launch", stream, function))
        if self.run:
            self._run(self.functions[function], config, addresses)
        return 0

    def parameter_sizes(self, function: int) -> list[int]:
        """The bytes of each parameter of a function; none where they are not known."""
        if self.keep:
            return self.keep
        return [8] * len(ptx_machine.parse(self.functions[function]).parameters) if self.run else []

    def _snapshot(self, function: int, addresses: int) -> tuple[int, object]:
        """Copy parameters as they are now, as a captured graph does: the place of their addresses, and what holds them."""
        sizes = self.parameter_sizes(function)
        if not sizes:
            return addresses, None
        places = (ctypes.c_uint64 * len(sizes)).from_address(addresses)
        held = [ctypes.create_string_buffer(ctypes.string_at(a, n), n) for a, n in zip(places, sizes, strict=True)]
        made = (ctypes.c_uint64 * len(sizes))(*map(ctypes.addressof, held))
        return ctypes.addressof(made), (made, held)

    def _run(self, text: str, config: LaunchConfig, parameters: int) -> None:
        kernel = ptx_machine.parse(text)
        assert kernel.lanes == config.block_x, (kernel.lanes, config.block_x)
        memory = ptx_machine.Memory([*self.memory.items()])
        places = (ctypes.c_uint64 * len(kernel.parameters)).from_address(parameters)
        values = [np.uint64(ctypes.c_uint64.from_address(a).value) for a in places]
        ptx_machine.run(text, config.grid_x, values, memory, config.shared)

    def failed(self, status: int, what: str) -> None:
        raise CudaFailure(f"{what}: {status}")

    # memory

    def allocate(self, size: int, stream: int) -> int:
        array = np.full(size + 256, 0xA5, np.uint8)
        start = -(-array.ctypes.data // 256) * 256
        self.memory[start] = array[start - array.ctypes.data :][:size]
        self.owners[start] = self.current
        return start

    def reserve(self, size: int, stream: int, device: int) -> int:
        assert device == self.current
        address = self.allocate(size, stream)
        self.reserved.add(address)
        self.log.append(("reserve", stream, address))
        return address

    def trim(self) -> None:
        self.log.append(("trim",))

    def free(self, address: int, stream: int) -> None:
        if address in self.reserved:
            self.reserved.discard(address)
            self.log.append(("free", stream, address))
        del self.memory[address]

    def clear(self, address: int, size: int, stream: int) -> None:
        ctypes.memset(address, 0, size)

    def upload(self, address: int, array: np.ndarray, stream: int) -> None:
        ctypes.memmove(address, array.ctypes.data, array.nbytes)

    def send(self, address: int, array: np.ndarray, stream: int) -> None:
        self.log.append(("send", stream, array.nbytes))
        ctypes.memmove(address, array.ctypes.data, array.nbytes)

    def download(self, array: np.ndarray, address: int, stream: int) -> None:
        ctypes.memmove(array.ctypes.data, address, array.nbytes)

    def copy(self, target: int, source: int, size: int, stream: int) -> None:
        if stream in self.captured:
            self.captured[stream].append(("copy", target, source, size))
            return
        self.log.append(("copy", stream, size))
        ctypes.memmove(target, source, size)

    def copy_rows(self, target: tuple[int, int], source: tuple[int, int], width: int, rows: int, stream: int) -> None:
        self.log.append(("copy rows", stream, width, rows))
        for row in range(rows):
            ctypes.memmove(target[0] + row * target[1], source[0] + row * source[1], width)

    def pinned(self, size: int) -> int:
        start = self.allocate(size, 0)
        self.owners[start] = -1
        return start

    def unpin(self, address: int) -> None:
        del self.memory[address]

    # streams, events, graphs

    def new_stream(self, *, capturing: bool = False) -> int:
        made = self.handle()
        if capturing:
            self.apart.add(made)
        return made

    def close_stream(self, stream: int) -> None:
        self.log.append(("close", stream))

    def new_event(self, *, timing: bool = True) -> int:
        event = self.handle()
        self.events[event] = False
        return event

    def close_event(self, event: int) -> None:
        self.events.pop(event, None)

    def record(self, event: int, stream: int) -> None:
        self.log.append(("record", stream))
        self.events[event] = stream not in self.held

    def follow(self, stream: int, event: int) -> None:
        self.log.append(("follow", stream, event))

    def reached(self, event: int) -> bool:
        return self.events[event]

    def elapsed(self, first: int, second: int) -> float:
        return 0.5

    def empty(self, stream: int) -> bool:
        return stream not in self.held

    def wait(self, stream: int) -> None:
        self.waited += 1
        self.log.append(("wait", stream))

    def wait_event(self, event: int) -> None:
        self.log.append(("wait event", event))

    def capturing(self, stream: int) -> bool:
        return stream in self.captured

    @contextmanager
    def relaxed(self) -> Generator[None]:
        self.loose += 1
        try:
            yield
        finally:
            self.loose -= 1

    def begin_capture(self, stream: int) -> None:
        self.captured[stream] = Steps()

    def end_capture(self, stream: int) -> Steps:
        return self.captured.pop(stream)

    def instantiate(self, graph: object) -> int:
        assert isinstance(graph, Steps)
        handle = self.handle()
        self.graphs[handle] = Steps(graph)
        return handle

    def only_node(self, graph: object) -> int:
        assert isinstance(graph, Steps)
        (_node,) = graph
        return _FIRST_NODE

    def kernel_nodes(self, graph: object, count: int) -> list[tuple[int, int, int]]:
        assert isinstance(graph, Steps)
        assert len(graph) == count
        return [(_FIRST_NODE + number, step[0], step[2]) for number, step in enumerate(graph)]

    def set_parameters(self, executable: ctypes.c_void_p, node: ctypes.c_void_p, parameters: ctypes.c_void_p) -> int:
        self.log.append(("set parameters", executable.value))
        steps = self.graphs[executable.value or 0]
        number = (node.value or 0) - _FIRST_NODE
        function, config, _, cluster, _ = steps[number]
        told = KernelNode.from_address(parameters.value or 0)
        assert told.function == function
        place, keep = self._snapshot(function, told.parameters)
        steps[number] = (function, config, place, cluster, keep)
        return 0

    def update(self, executable: object, graph: object) -> bool:
        assert isinstance(executable, int)
        assert isinstance(graph, Steps)
        if [step[0] == "copy" for step in self.graphs[executable]] != [step[0] == "copy" for step in graph]:
            return False
        self.graphs[executable] = Steps(graph)
        return True

    def replay(self, executable: ctypes.c_void_p, stream: ctypes.c_void_p) -> int:
        if self.statuses:
            return self.statuses.pop(0)
        handle = stream.value or 0
        self.log.append(("replay", handle))
        for step in self.graphs[executable.value or 0]:
            if step[0] == "copy":
                ctypes.memmove(*step[1:])
            else:
                self._launch(step[0], step[1], step[2], step[3], handle)
        return 0

    def close_graph(self, graph: object) -> None:
        self.log.append(("close graph",))

    def close_executable(self, executable: object) -> None:
        self.log.append(("close executable",))

    # arrays

    def device_array(self, array: np.ndarray, device: int = 0) -> "FakeArray":
        with self.inside(device):
            address = self.allocate(array.nbytes, 0)
        self.upload(address, array, 0)
        return FakeArray(address, array)


class FakeArray:
    """An array of another library, in the fake device's memory."""

    def __init__(self, address: int, like: np.ndarray) -> None:
        self.address, self.like = address, like
        self.__cuda_array_interface__ = {
            "data": (address, False),
            "typestr": like.dtype.str,
            "shape": like.shape,
            "strides": None,
        }

    def get(self) -> np.ndarray:
        out = np.empty_like(self.like)
        ctypes.memmove(out.ctypes.data, self.address, out.nbytes)
        return out


def install(monkeypatch: pytest.MonkeyPatch, fake: FakeDriver) -> FakeDriver:
    """Let the runtime use `fake` as its driver.

    Streams of the test are known until it ends: one that a traceback holds on to must not be waited for by later tests,
    which have no such driver.  So are graphs, whose launches are bound to it.
    """
    known = weakref.WeakValueDictionary(streams._Known.streams)  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(streams._Known, "streams", known)  # pyright: ignore[reportPrivateUsage]
    executables = known_executables._KnownExecutables()  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(known_executables, "_KNOWN", executables)
    RECENT_CAPTURES.clear()
    monkeypatch.setattr(cuda, "driver", lambda: fake)
    monkeypatch.setattr(door, "driver", lambda: fake)
    monkeypatch.setattr(door, "loaded", lambda: fake)
    return fake
