"""Run a Program on the GPU of this machine, in place of the machine that runs PTX in this process."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from support.simulate import compile_ptx
from tessera.core.artifact import Artifact
from tessera.core.program.program import Program
from tessera.core.targets import Target
from tessera.lowering.driver.compile import compile_program
from tessera.runtime.binding.grid import Grid
from tessera.runtime.launch.cuda import CudaLauncher, device_architecture, synchronize

_TORCH = {"float16": "float16", "bfloat16": "bfloat16", "float32": "float32", "float64": "float64", "bool": "bool"}


def simulate(
    program: Program, arguments: Sequence[Any], grid: Grid | None = None, arch: str = "sm_90a", seed: int | None = None
) -> Artifact:
    """What `support.simulate.simulate` does, on hardware: arrays are changed in place; gives the PTX for `arch`.

    Views keep their place in the memory of the array they are views of, so that addresses are aligned as in the test.
    """
    del seed
    artifact = compile_program(program, Target("cuda", device_architecture()), observe=False).artifact
    places = _Places()
    CudaLauncher(artifact)(*(places.on_device(a) if isinstance(a, np.ndarray) else a for a in arguments), grid=grid)
    synchronize()
    places.fetch()
    return compile_ptx(program, arch)


class _Places:
    """Copies of host arrays on the device, views of one array in one piece of memory."""

    def __init__(self) -> None:
        import torch  # noqa: PLC0415  # pyright: ignore[reportMissingImports] - only where there is a GPU

        self.torch: Any = torch
        self.pieces: dict[int, tuple[np.ndarray, Any]] = {}

    def on_device(self, array: np.ndarray) -> Any:
        view = isinstance(array.base, np.ndarray) and array.base.flags.c_contiguous
        whole = cast("np.ndarray", array.base) if view else np.ascontiguousarray(array)
        if id(whole) not in self.pieces:
            flat = whole.reshape(-1).view(np.uint8)
            self.pieces[id(whole)] = whole, self.torch.from_numpy(flat.copy()).cuda()
        _, piece = self.pieces[id(whole)]
        dtype = getattr(self.torch, _TORCH.get(array.dtype.name, array.dtype.name))
        offset = array.ctypes.data - whole.ctypes.data
        strides = [step // array.itemsize for step in array.strides]
        size = array.size * array.itemsize if array.flags.c_contiguous else piece.numel() - offset
        return piece[offset : offset + size].view(dtype).as_strided(array.shape, strides)

    def fetch(self) -> None:
        """Bring everything back."""
        for whole, piece in self.pieces.values():
            whole.reshape(-1).view(np.uint8)[:] = piece.cpu().numpy()
