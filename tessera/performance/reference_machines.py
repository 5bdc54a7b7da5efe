"""GPUs by their data sheets, for plans of launches on machines that are not here."""

from collections.abc import Mapping
from typing import Final

from tessera.core.targets import generation, rates_of
from tessera.performance.device_model import Machine, gpu_rates

_SHEETS: Final[Mapping[tuple[int, int], tuple[str, int, float, float, int]]] = {
    # compute capability: name, multiprocessors, boost clock in GHz, memory in TB/s, L2 in MiB
    (8, 0): ("NVIDIA A100 80GB SXM", 108, 1.41, 2.039, 40),
    (8, 9): ("NVIDIA L40S", 142, 2.52, 0.864, 96),
    (9, 0): ("NVIDIA H200 SXM", 132, 1.98, 4.8, 50),
}
_CACHE: Final = 2.5
"""How many times faster than memory the L2 is taken to be, as in `device_model`."""
_REGISTERS: Final = 65536


def reference_machine(arch: str) -> Machine:
    """Return the largest well-known GPU of an architecture ("sm_90a"), as its data sheet says.

    Raises ValueError for an architecture without an entry.
    """
    chip = generation(arch)
    sheet = _SHEETS.get(chip.capability) if chip is not None else None
    if sheet is None or chip is None:
        known = ", ".join(name for name, *_ in _SHEETS.values())
        raise ValueError(f"there is no GPU here, and no data sheet for {arch!r}: known are {known}")
    name, units, clock, memory, cache = sheet
    bandwidth = memory * 1e12
    return Machine(
        name, 1, units, "SM", bandwidth, _CACHE * bandwidth, cache << 20,
        gpu_rates(rates_of(chip.capability), units * clock * 1e9),
        f"data sheet: {units} multiprocessors at {clock} GHz, {memory} TB/s; no GPU was asked", chip.shared_processor,
        chip.registers or _REGISTERS, chip.warps * 32, launch=3e-6, step=1e-7, on_gpu=True,
    )  # fmt: skip
