"""Data for regions: arrays by the names of atoms, along axis 0; `v` and `w` have columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from support.cascades import Arrays
from tessera.core.schedule.cascade import Region
from tessera.lowering.schedule.cascades.cascade_reference import evaluate_reductions

COLUMNS = 3


def draw_arrays(
    names: Sequence[str], seed: int, extent: int, size: float = 3.0, mean: float = 0.0, visible: float = 0.6
) -> list[NDArray[Any]]:
    """Return arrays for atoms.

    size: of scores; mean: of what statistics are taken of; visible: the share of elements that masks leave
    """
    rng = np.random.default_rng(seed)
    column = (extent, 1)
    scores = rng.standard_normal(column) * size
    shown = rng.random(column) < visible
    top = scores.max()

    def fixed(value: float) -> NDArray[Any]:
        return np.full((1, 1), value)

    arrays: Arrays = {
        "s": scores, "t": rng.standard_normal(column) * size, "b": rng.standard_normal(column),
        "g": rng.standard_normal(column), "h": rng.standard_normal(column), "x": rng.standard_normal(column) + mean,
        "y": rng.standard_normal(column) - mean, "v": rng.standard_normal((extent, COLUMNS)),
        "w": rng.standard_normal((extent, COLUMNS)), "qk": rng.standard_normal(column),
        "half": (rng.standard_normal(column) * size).astype(np.float32), "weight": rng.random(column) + 0.1,
        "squares": rng.random(column) + 1, "cosine": rng.random(column) * 2 - 1, "visible": shown,
        "infinities": np.where(shown, 0.0, -np.inf), "kept": rng.random(column) < 0.9,
        "documents": rng.integers(0, 3, column) if visible else np.zeros(column, np.int64),
        "j": np.arange(extent)[:, None], "i": fixed(extent * 2 // 3).astype(np.int64),
        "target": fixed(extent // 3).astype(np.int64), "document": fixed(1).astype(np.int64),
        "length": fixed(max(extent - 5, 1) if visible else 0).astype(np.int64), "slope": fixed(0.25), "sink": fixed(0.7),
        "square": fixed(2.0), "lse": fixed(top + np.log(np.exp(scores - top).sum())),
    }  # fmt: skip
    return [arrays[name] for name in names]


@st.composite
def extents_and_cuts(draw: st.DrawFn, extent: int | None = None) -> tuple[int, list[int]]:
    """Draw the extent of an axis and where it is cut."""
    size = draw(st.integers(8, 60)) if extent is None else extent
    cuts = draw(st.lists(st.integers(1, size - 1), max_size=7, unique=True).map(sorted))
    return size, cuts


def rounding_sensitivity(region: Region, arrays: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """Return the condition of the last result: the sum of `|df/da * a|` over all elements `a` of float arrays.

    An algorithm that rounds each of n elements, and each partial sum of them, errs by at most about n times this times
    the unit roundoff (Higham, Accuracy and Stability of Numerical Algorithms, sections 1.6 and 4.2).  The derivatives are
    central differences.
    """
    step = 2.0**-10
    total = np.zeros(())
    for number, values in enumerate(arrays):
        for index in np.ndindex(values.shape) if values.dtype.kind == "f" else ():
            sides: list[NDArray[Any]] = []
            for signed in (step, -step):
                moved = [*arrays]
                moved[number] = values.copy()
                moved[number][index] += signed
                sides.append(evaluate_reductions(region, moved)[-1])
            total = total + np.abs((sides[0] - sides[1]) / (2 * step) * values[index])
    return total
