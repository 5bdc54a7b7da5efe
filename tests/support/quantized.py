"""Codes and scales by NumPy and ml_dtypes: what quantised arrays are compared with."""

from typing import Any, Final

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tessera.core.graph.numerics import Format, Numerics

DTYPES: Final = {
    "fp6_e3m2": np.dtype(ml_dtypes.float6_e3m2fn), "fp6_e2m3": np.dtype(ml_dtypes.float6_e2m3fn),
    "fp4_e2m1": np.dtype(ml_dtypes.float4_e2m1fn), "fp8_e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "fp8_e5m2": np.dtype(ml_dtypes.float8_e5m2), "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
}  # fmt: skip


def quantized(x: NDArray[Any], numerics: Numerics) -> tuple[NDArray[Any], NDArray[np.float32] | None]:
    """Return codes, one an element, as numbers in f32, and scales as f32 with as many axes as x."""
    target, scale = numerics.format, numerics.scale
    wide, scales = x.astype(np.float32), None
    if scale is not None:
        blocks = scale.blocks(x.shape)
        split = np.abs(wide).reshape([n for block in blocks for n in block])
        largest = split.max(axis=tuple(range(1, 2 * x.ndim, 2)), initial=0)
        if scale.dtype == "f32":
            scales = np.asarray(largest / np.float32(target.largest), np.float32)
            scales = np.where(scales == 0, np.float32(1), scales)
        else:
            exponent = np.frexp(largest)[1] - 1 - int(np.floor(np.log2(target.largest)))
            exponent = np.where(largest == 0, -127, np.clip(exponent, -127, 127))
            scales = np.ldexp(np.float32(1), exponent).astype(np.float32)
        wide = wide / repeated(scales, numerics, x.shape)
    clipped = np.clip(wide, -target.largest, target.largest)
    return (np.rint(clipped) if target.is_integer else clipped.astype(DTYPES[target.name])).astype(np.float32), scales


def repeated(scales: NDArray[Any], numerics: Numerics, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return scales as one an element."""
    assert numerics.scale is not None
    for axis, (_, length) in enumerate(numerics.scale.blocks(shape)):
        scales = np.repeat(scales, length, axis)
    return scales


def restored(x: NDArray[Any], numerics: Numerics) -> NDArray[np.float32]:
    """Return numbers as quantising and reading them back gives them, in f32."""
    codes, scales = quantized(x, numerics)
    return codes if scales is None else codes * repeated(scales, numerics, x.shape)


def unpacked(codes: NDArray[Any], target: Format, extent: int) -> NDArray[np.float32]:
    """Return the numbers of codes as they are stored, by their bits."""
    if not target.is_packed:
        return codes.astype(np.float32)
    bits = np.unpackbits(codes, axis=-1, bitorder="little")[..., : extent * target.bits]
    digits = bits.reshape(*codes.shape[:-1], extent, target.bits).astype(np.int64)
    found = (digits << np.arange(target.bits)).sum(-1).astype(np.uint8)
    if target.is_integer:
        return found.astype(np.float32) - np.float32(16) * (found > 7)
    return found.view(DTYPES[target.name]).astype(np.float32)
