"""Transforms by the libraries, on interleaved parts: NumPy's against NumPy's own complex ones, cuFFT's plans."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tessera.ops.libraries import fourier
from tessera.ops.libraries.fourier import transform, transform_real

RNG = np.random.default_rng(0)


def complex_of(parts: NDArray[Any]) -> NDArray[Any]:
    return parts[..., 0] + 1j * parts[..., 1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("rank", [1, 2])
def test_transforms_are_not_scaled(dtype: type[np.generic], inverse: bool, rank: int):
    x = RNG.normal(size=(3, 5, 12, 2)).astype(dtype)
    made = np.empty_like(x)
    assert transform([x, made], {"rank": rank, "inverse": inverse})[0] is made
    axes = (-1,) if rank == 1 else (-2, -1)
    wanted = (
        np.fft.ifftn(complex_of(x), axes=axes, norm="forward") if inverse else np.fft.fftn(complex_of(x), axes=axes)
    )
    np.testing.assert_allclose(complex_of(made), wanted, rtol=1e-5, atol=1e-5)


def test_real_rows():
    x = RNG.normal(size=(3, 9))
    made = np.empty((3, 5, 2))
    transform_real([x, made], {})
    np.testing.assert_allclose(complex_of(made), np.fft.rfft(x), atol=1e-12)


def test_nothing_is_left_alone():
    empty = np.empty((0, 5, 2))
    assert transform([empty, empty], {"rank": 1, "inverse": False})[0] is empty
    assert transform_real([np.empty((0, 5)), np.empty((0, 3, 2))], {})[0].shape == (0, 3, 2)


class Plan:
    """Stands for cuFFT's: notes what it was made for and asked."""

    made: list[tuple[object, ...]] = []  # noqa: RUF012 - of the test

    def __init__(self, *arguments: object) -> None:
        self.made.append(arguments)

    def fft(self, x: object, made: object, direction: int) -> None:
        self.made.append((x, made, direction))


class OnDevice(np.ndarray):
    """Stands for CuPy's array."""

    device: Any = SimpleNamespace(id=0)  # pyright: ignore[reportIncompatibleMethodOverride] - as CuPy has it


def test_plans_of_a_gpu_are_made_once(monkeypatch: pytest.MonkeyPatch):
    cufft = ModuleType("cupy.cuda.cufft")
    vars(cufft).update(CUFFT_C2C=41, CUFFT_Z2Z=105, CUFFT_R2C=42, CUFFT_FORWARD=-1, CUFFT_INVERSE=1, PlanNd=Plan)
    monkeypatch.setitem(sys.modules, "cupy.cuda.cufft", cufft)
    monkeypatch.setattr(fourier, "is_cupy", lambda _: True)
    monkeypatch.setattr(Plan, "made", [])
    fourier._plan.cache_clear()  # pyright: ignore[reportPrivateUsage] - plans are the process's
    x = np.zeros((3, 4, 6, 2), np.float32).view(OnDevice)
    made = np.zeros_like(x)
    for inverse in (False, True):
        transform([x, made], {"rank": 2, "inverse": inverse})
    assert Plan.made[0] == ((4, 6), (4, 6), 1, 24, (4, 6), 1, 24, 41, 3, "C", 1, None)
    assert [call[2] for call in Plan.made[1:]] == [-1, 1]
    rows = np.zeros((5, 6), np.float32).view(OnDevice)
    transform_real([rows, np.zeros((5, 4, 2), np.float32)], {})
    assert Plan.made[3] == ((6,), (6,), 1, 6, (4,), 1, 4, 42, 5, "C", 0, None)
    fourier._plan.cache_clear()  # pyright: ignore[reportPrivateUsage]
