"""Fourier transforms on arrays of NumPy (pocketfft) or CuPy (cuFFT), a complex number as two real ones side by side.

The last axis of a complex array, [..., 2], is its real and its imaginary part, which is how both libraries store
complex numbers: nothing is packed or copied.
"""

import importlib
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np

from tessera.core.program.program import Attribute
from tessera.ops.libraries.arrays import Numbers
from tessera.runtime.arrays.interop import is_cupy

Options: TypeAlias = Mapping[str, Attribute]
CufftPlan: TypeAlias = Any  # of CuPy, an optional package without stubs
PLANS: Final = 32
"""How many plans of cuFFT are kept, each with its workspace."""


def transform(arrays: Sequence[Numbers], options: Options) -> Sequence[Numbers]:
    """Fill the second array, [..., n, 2], with the transforms of the first one, not scaled.

    options: rank: how many axes before the last one are transformed; inverse: whether exponents are positive
    """
    x, made = arrays
    if made.size:
        rank, inverse = int(str(options["rank"])), bool(options["inverse"])
        axes = tuple(range(x.ndim - 1 - rank, x.ndim - 1))
        if is_cupy(x):
            _on_gpu(x, made, [x.shape[axis] for axis in axes], "C2C" if x.dtype == np.float32 else "Z2Z", inverse)
        else:
            apply = np.fft.ifftn if inverse else np.fft.fftn
            apply(_complex(x), axes=axes, norm="forward" if inverse else "backward", out=_complex(made))
    return [made]


def transform_real(arrays: Sequence[Numbers], options: Options) -> Sequence[Numbers]:
    """Fill the second array, [..., n // 2 + 1, 2], with the first half of the transforms of real rows, [..., n]."""
    del options
    x, made = arrays
    if made.size:
        if is_cupy(x):
            _on_gpu(x, made, [x.shape[-1]], "R2C" if x.dtype == np.float32 else "D2Z", inverse=False)
        else:
            np.fft.rfft(x, out=_complex(made))
    return [made]


def _complex(x: Numbers) -> Numbers:
    """Return [..., 2] as complex numbers [...], the same memory."""
    return x.view(np.complex64 if x.dtype == np.float32 else np.complex128)[..., 0]


def _on_gpu(x: Numbers, made: Numbers, lengths: Sequence[int], kind: str, inverse: bool) -> None:
    real = kind in ("R2C", "D2Z")
    batch = x.size // math.prod(lengths) // (1 if real else 2)
    plan = _plan(tuple(lengths), kind, batch, x.device.id)
    cufft = importlib.import_module("cupy.cuda.cufft")
    plan.fft(x, made, cufft.CUFFT_INVERSE if inverse else cufft.CUFFT_FORWARD)


@lru_cache(PLANS)
def _plan(lengths: tuple[int, ...], kind: str, batch: int, device: int) -> CufftPlan:
    """Return cuFFT's plan for a batch of transforms, one behind the other."""
    del device  # the current one: a plan belongs to it
    cufft = importlib.import_module("cupy.cuda.cufft")
    half = (*lengths[:-1], lengths[-1] // 2 + 1) if kind in ("R2C", "D2Z") else lengths
    return cufft.PlanNd(
        lengths, lengths, 1, math.prod(lengths), half, 1, math.prod(half), getattr(cufft, f"CUFFT_{kind}"), batch, "C",
        len(lengths) - 1, None,
    )  # fmt: skip
