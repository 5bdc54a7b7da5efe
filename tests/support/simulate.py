"""Run a CUDA artifact's PTX on NumPy arrays with `ptx_machine`: what the launcher does, without a GPU."""


from collections.abc import Sequence
from typing import Any

import numpy as np

from support import ptx_machine
from tessera.core.artifact import Artifact
from tessera.core.compilation import Compilation
from tessera.core.program.program import Program
from tessera.core.targets import Target
from tessera.lowering.compile import compile_program
from tessera.runtime.bind import Binder
from tessera.runtime.grid import Grid, GridRule

RESIDENT = 2
"""Blocks of a kernel with private global memory, so that each has several groups to do."""


def compile_cuda(program: Program, arch: str = "sm_90a") -> Compilation:
    return compile_program(program, Target("cuda", arch), observe=True)


def ptx_of(compiled: Compilation) -> str:
    return next(listing.text for listing in compiled.listings if listing.level == "ptx")


def simulate(
    program: Program, arguments: Sequence[Any], grid: Grid | None = None, arch: str = "sm_90a", seed: int | None = None
) -> Compilation:
    """Compile `program` and run it on `arguments`, in place."""
    compiled = compile_cuda(program, arch)
    launch(compiled.artifact, ptx_of(compiled), arguments, grid, seed)
    return compiled


def launch(
    artifact: Artifact, ptx: str, arguments: Sequence[Any], grid: Grid | None = None, seed: int | None = None
) -> None:
    binder = Binder(artifact)
    values = binder.check(arguments)
    facts = binder.facts(values)
    assert facts is not None
    shape = GridRule(artifact, binder.symbol).shape(facts, grid)
    memory = ptx_machine.Memory()
    addresses = {}
    for number, value in enumerate(values):
        if isinstance(value, np.ndarray):
            whole = value.base if value.base is not None and not value.flags.c_contiguous else value
            offset = value.ctypes.data - whole.ctypes.data
            known = next((a for array, a in addresses.values() if array is whole), None)
            base = memory.place(whole) if known is None else known
            addresses[number] = (whole, base if known is not None else base)
            addresses[number, "at"] = (whole, base + offset)
    units = shape.units
    scratch = artifact.resources.scratch_bytes
    blocks = min(units, RESIDENT) if scratch else units
    slots: list[Any] = []
    for slot in artifact.slots:
        match slot.kind:
            case "pointer":
                slots.append(np.uint64(addresses[slot.parameter, "at"][1]))
            case "stride":
                array = values[slot.parameter]
                slots.append(np.int64(array.strides[slot.axis] // array.itemsize))
            case "scalar":
                kind = artifact.bindings[slot.parameter].type
                slots.append(np.asarray(values[slot.parameter], kind.dtype.numpy))
            case "symbol":
                index, scale = binder.symbol(slot.symbol)
                slots.append(np.int64(facts[index] * scale))
            case "grid":
                slots.append(np.int64(shape.axes[slot.axis]))
            case "lanes":
                slots.append(np.int64(shape.lanes))
            case "scratch":
                slots.append(np.uint64(memory.place(np.full(scratch * max(1, blocks), 0xA5, np.uint8))))
            case _:
                raise AssertionError(slot)
    ptx_machine.run(ptx, blocks, slots, memory, artifact.resources.shared_bytes, seed)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal bit by bit, all NaNs being one."""
    if a.dtype.kind in "iub":
        return bool((a == b).all())
    nan = np.isnan(a) & np.isnan(b)
    unsigned = np.dtype(f"u{a.itemsize}")
    return bool((nan | (np.ascontiguousarray(a).view(unsigned) == np.ascontiguousarray(b).view(unsigned))).all())



