"""Run a CUDA artifact's PTX on NumPy arrays with `ptx_machine`: what the launcher does, without a GPU."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast
from unittest import mock

import numpy as np

from support import ptx_machine
from tessera.core.artifact import Artifact, Slot
from tessera.core.compilation import Compilation
from tessera.core.profile import WORDS
from tessera.core.program.program import Program
from tessera.core.targets import Target
from tessera.lowering.base.sass import with_machine_code
from tessera.lowering.driver.compile import compile_program
from tessera.lowering.program.split_phases import phases
from tessera.runtime.binding.grid import Grid, GridRule, Shape
from tessera.runtime.binding.signature import Binder, Facts
from tessera.runtime.launch.phases import Workspaces

RESIDENT = 2
"""Blocks of a kernel with private global memory, so that each has several groups to do."""


def compile_cuda(program: Program, arch: str = "sm_90a") -> Compilation:
    """With every level, through ptxas and nvdisasm."""
    compilation = compile_program(program, Target("cuda", arch), observe=True)
    return replace(compilation, listings=with_machine_code(compilation.artifact, compilation.listings))


def compile_ptx(program: Program, arch: str = "sm_90a") -> Artifact:
    """Without ptxas, which takes most of the time: the artifact's code is PTX."""
    with mock.patch("tessera.lowering.cuda.to_nvvm.find_tool", return_value=None):
        return compile_program(program, Target("cuda", arch), observe=False).artifact


def ptx_of(artifact: Artifact) -> str:
    return artifact.code.rstrip(b"\0").decode()


def simulate(
    program: Program, arguments: Sequence[Any], grid: Grid | None = None, arch: str = "sm_90a", seed: int | None = None
) -> Artifact:
    """Compile `program` and run it on `arguments`, in place; `seed` draws the order of the warps."""
    artifact = compile_ptx(program, arch)
    launch(artifact, arguments, grid, seed)
    return artifact


def launch(
    artifact: Artifact, arguments: Sequence[Any], grid: Grid | None = None, seed: int | None = None
) -> np.ndarray:
    """Run an artifact's PTX; give the records of a kernel that writes any (see `tessera.core.profile`)."""
    binder = Binder(artifact)
    values = binder.check(arguments)
    facts = binder.facts(values)
    assert facts is not None
    shape = GridRule(artifact, binder.symbol).shape(facts, grid)
    memory = ptx_machine.Memory()
    scratch = artifact.resources.scratch_bytes
    blocks = min(shape.units, RESIDENT) if scratch else shape.units
    binding = _Binding(
        artifact, binder, facts, shape, values, memory, np.full(scratch * max(1, blocks), 0xA5, np.uint8)
    )
    slots = [binding.value(slot) for slot in artifact.slots]
    ptx_machine.run(ptx_of(artifact), blocks, slots, memory, artifact.resources.shared_bytes, seed)
    return binding.records


def launch_phases(program: Program, arguments: Sequence[Any], arch: str = "sm_90a") -> list[Artifact]:
    """Compile each phase of `program` and run them one after the other on `arguments`, in place."""
    parts = phases(program)
    artifacts = [compile_ptx(part, arch) for part in parts]
    layout = Workspaces(artifacts[0], parts[0].given).layout(arguments)
    spaces = [np.full(shape, 7, dtype) for shape, dtype in layout]
    for artifact in artifacts:
        launch(artifact, (*arguments, *spaces))
    return artifacts


class _Binding:
    """Values of slots: arrays are given addresses, views of one array the same memory."""

    def __init__(
        self, artifact: Artifact, binder: Binder, facts: Facts, shape: Shape, values: Sequence[Any],
        memory: ptx_machine.Memory, scratch: np.ndarray,
    ) -> None:  # fmt: skip
        self.artifact, self.binder, self.facts, self.shape = artifact, binder, facts, shape
        self.values, self.memory, self.scratch = values, memory, scratch
        self.places: dict[int, int] = {}
        self.records = np.zeros((0, WORDS), np.uint64)

    def address(self, array: np.ndarray) -> int:
        view = isinstance(array.base, np.ndarray) and array.base.flags.c_contiguous
        whole = cast("np.ndarray", array.base) if view else array
        if id(whole) not in self.places:
            self.places[id(whole)] = self.memory.place(whole)
        return self.places[id(whole)] + array.ctypes.data - whole.ctypes.data

    def value(self, slot: Slot) -> Any:
        argument = self.values[slot.parameter]
        match slot.kind:
            case "pointer":
                return np.uint64(self.address(argument))
            case "stride":
                return np.int64(argument.strides[slot.axis] // argument.itemsize)
            case "scalar":
                return np.asarray(argument, self.artifact.bindings[slot.parameter].type.dtype.numpy)
            case "symbol":
                index, scale = self.binder.symbol(slot.symbol)
                return np.int64(self.facts[index] * scale)
            case "grid":
                return np.int64(self.shape.axes[slot.axis])
            case "lanes":
                return np.int64(self.shape.lanes)
            case "profile":
                self.records = np.zeros((self.shape.units, WORDS), np.uint64)
                return np.uint64(self.memory.place(self.records))
            case _:
                assert slot.kind == "scratch"
                return np.uint64(self.memory.place(self.scratch))


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal bit by bit, all NaNs being one."""
    if a.dtype.kind in "iub":
        return bool((a == b).all())
    nan = np.isnan(a) & np.isnan(b)
    unsigned = np.dtype(f"u{a.itemsize}")
    return bool((nan | (np.ascontiguousarray(a).view(unsigned) == np.ascontiguousarray(b).view(unsigned))).all())
