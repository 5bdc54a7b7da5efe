"""Run one case on the oracle and on a target: do both give the same bits, or the same mistake?"""

import warnings
from dataclasses import dataclass

import numpy as np

import tessera
from fuzz.device import Placed, fetch, root_of
from fuzz.kernels import Case
from tessera.core.settings import overridden

ORACLE = "interpret"
GPU = ("cuda", "cuda_tile")
"""Targets that run on the GPU of this machine, on arrays in its memory."""
LIMITS = ("TSR-E7",)
"""Codes of what a target cannot do: no disagreement."""


@dataclass(frozen=True)
class Outcome:
    """kind: agrees, refused (both did), limit (the target cannot), differs, or fails (one of them did, or crashed)."""

    kind: str
    detail: str = ""

    @property
    def bad(self) -> bool:
        return self.kind in ("differs", "fails")


def run(case: Case, target: str) -> tuple[list[np.ndarray] | None, str]:
    """The arguments after a launch, or None and the mistake."""
    arguments = case.arguments()
    try:
        with overridden(target=target), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            kernel = tessera.compile_source(case.text).k
            if target in GPU:
                placed = [Placed(array) for array in arguments]
                kernel(*placed)
                fetch(placed)
            else:
                kernel(*arguments)
    except tessera.TesseraError as mistake:
        return None, f"{mistake.code} {str(mistake).splitlines()[0]}"
    except Exception as error:  # noqa: BLE001 - what is no TesseraError is a finding
        return None, f"{type(error).__name__}: {error}"
    return arguments, ""


def check(case: Case, target: str) -> Outcome:
    """Compare `target` with the oracle."""
    expected, refused = run(case, ORACLE)
    actual, failed = run(case, target)
    if (refused and not refused.startswith("TSR-")) or refused.startswith("TSR-E900"):
        return Outcome("fails", f"{ORACLE}: {refused}")
    if expected is None or actual is None:
        if failed.startswith(LIMITS):
            return Outcome("limit", failed)
        same = refused.split(" ")[0] == failed.split(" ")[0]
        return (
            Outcome("refused", failed)
            if same
            else Outcome("fails", f"{ORACLE}: {refused or 'runs'}; {target}: {failed or 'runs'}")
        )
    for array, a, b in zip(case.arrays, expected, actual, strict=True):
        wrong = np.argwhere(~same_bits(a, b))
        if len(wrong):
            place = tuple(int(i) for i in wrong[0])
            return Outcome(
                "differs",
                f"{array.name}{list(place)}: {ORACLE} {a[place]!r}, {target} {b[place]!r}, {len(wrong)} of {a.size}",
            )
        if not same_bits(root_of(a), root_of(b)).all():
            return Outcome("differs", f"{array.name}: written outside of its elements")
    return Outcome("agrees")


def same_bits(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where two arrays are equal bit for bit, any NaN being as good as another."""
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    if a.dtype.kind in "iub":
        return a == b
    kind = f"u{a.itemsize}"
    with np.errstate(all="ignore"):
        return (np.isnan(a) & np.isnan(b)) | (a.view(kind) == b.view(kind))
