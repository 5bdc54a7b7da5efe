"""A GPU whose kernels are run by the oracle: each launch reads its parameters, and interprets the kernel's program.

Memory is this process's, so what a launch reads and writes is where its parameters say: graphs, arenas and parameters
that are patched can be tested with values, and without a GPU.
"""

import ctypes
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from support import fake_cuda
from support.fake_cuda import FakeDriver
from tessera.core.artifact import Artifact
from tessera.core.program.program import Program
from tessera.core.program.types import Array
from tessera.graphs.execution.prepared import GroupKernel
from tessera.runtime.driver.descriptors import Encoding, LaunchConfig
from tessera.runtime.launch.interpreter import Interpreter
from tessera.session.compiled import Compiled

_MAP = 128


class InterpretedDriver(FakeDriver):
    """Kernels that are known by their code run; `names`: of those that ran, in order."""

    def __init__(self, devices: int = 1) -> None:
        super().__init__(devices, run=False)
        self.programs: dict[bytes, tuple[Artifact, Program]] = {}
        self.known: dict[int, tuple[Artifact, Program]] = {}
        self.names: list[str] = []

    def know(self, kernels: Iterable[GroupKernel]) -> None:
        """Let kernels run from now on."""
        for kernel in kernels:
            assert kernel.compiled is not None
            for part in kernel.compiled.phases or (kernel.compiled,):
                assert isinstance(part, Compiled)
                self.programs[part.artifact.code] = part.artifact, part.program

    def load(self, code: bytes, entry: str):
        handle = super().load(code, entry)
        self.known[handle] = self.programs[code]
        return handle

    def allow_shared(self, function: int, size: int) -> int:
        return 0

    def encode(self, wanted: Encoding) -> bytes:
        return wanted.address.to_bytes(8, "little") * (_MAP // 8)

    def parameter_sizes(self, function: int) -> list[int]:
        artifact, _ = self.known[function]
        return [_MAP if slot.kind == "tensor_map" else 8 for slot in artifact.slots]

    def _launch(self, function: int, config: LaunchConfig, addresses: int, cluster: int, stream: int) -> int:
        artifact, program = self.known[function]
        places = (ctypes.c_uint64 * len(artifact.slots)).from_address(addresses)
        arrays: dict[int, Any] = {}
        for slot, place in zip(artifact.slots, places, strict=True):
            if slot.kind in ("pointer", "tensor_map"):
                start = ctypes.c_uint64.from_address(place).value
                kind = program.parameters[slot.parameter].value.type
                assert isinstance(kind, Array)
                found = self._array(start, kind)
                assert slot.parameter not in arrays or arrays[slot.parameter].ctypes.data == found.ctypes.data
                arrays[slot.parameter] = found
        self.names.append(artifact.name)
        self.streams.append(stream)
        Interpreter(program)(*(arrays[number] for number in range(len(program.parameters))))
        return 0

    def _array(self, start: int, kind: Array) -> np.ndarray[Any, Any]:
        shape = tuple(extent for extent in kind.shape if isinstance(extent, int))
        dtype = kind.dtype.numpy
        size = int(np.prod(shape)) * dtype.itemsize
        inside = any(first <= start and start + size <= first + whole.nbytes for first, whole in self.memory.items())
        assert inside, f"{kind} at {start:#x} is in no memory of the device"
        memory = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(start))
        return memory.view(dtype).reshape(shape)


def install(monkeypatch: pytest.MonkeyPatch, fake: InterpretedDriver) -> InterpretedDriver:
    """Let the runtime use `fake` as its driver."""
    fake_cuda.install(monkeypatch, fake)
    return fake
