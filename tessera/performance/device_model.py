"""The machine that a kernel runs on, as numbers: its units, the rates of memory and arithmetic, and their source.

A GPU's rates come from its own properties and the operations a multiprocessor does in a cycle, its memory's rate from a
copy, once per process; a CPU's are measured and kept, see `host_rates`.
"""

import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tessera.core.errors.catalog import CudaFailure
from tessera.core.settings import current
from tessera.core.targets import TargetKind, rates_of
from tessera.performance.host_rates import HostRates, Measure, kept_rates, measure_rates, raised_rates, rates_path
from tessera.runtime.driver import driver as door
from tessera.runtime.driver.driver import Driver
from tessera.runtime.memory.device_arrays import device_of


@dataclass(frozen=True, slots=True, eq=False)
class Machine:
    """One device (or the process's share of a CPU).

    name: "NVIDIA H200"; count: how many of them there are; on_gpu: whether it is a GPU
    units: multiprocessors or cores, called `unit`
    bandwidth: bytes a second from memory; cache_bandwidth: from the cache that all units share, of `cache_bytes`
    rates: operations a second by what does them: "f32", "special", "dot bf16", ...
    source: where bandwidth and rates come from, in words
    shared_bytes, registers, lanes: what one unit has for its groups (0: no limit)
    launch: seconds that a launch takes at least; step: seconds that one operation on a tile takes at least
    """

    name: str
    count: int
    units: int
    unit: str
    bandwidth: float
    cache_bandwidth: float
    cache_bytes: int
    rates: Mapping[str, float]
    source: str
    shared_bytes: int = 0
    registers: int = 0
    lanes: int = 0
    launch: float = 5e-6
    step: float = 2e-8
    on_gpu: bool = False

    def rate(self, kind: str) -> float:
        """Return the operations a second of one kind of work; of a kind without a rate of its own, that of f32."""
        return self.rates.get(kind, self.rates["f32"])

    @property
    def label(self) -> str:
        """Name and count, which times are kept by: "NVIDIA H200 x1"."""
        return f"{self.name} x{self.count}"


_better: Final[dict[Machine, Machine]] = {}
"""Machines whose rates were found to be higher than at first."""

_SIXTEEN: Final = ("dot f16", "dot bf16")
_EIGHT: Final = ("dot fp8_e4m3", "dot fp8_e5m2", "dot i8")
_GPU_CACHE: Final = 2.5
_CPU_CACHE: Final = 4.0
"""How many times faster than memory the shared cache is taken to be: only the cost model asks."""
_COPY_BYTES: Final = 512 << 20
_COPIES: Final = 5


def this_machine(kind: TargetKind, values: Sequence[object] = ()) -> Machine:
    """Return the machine that kernels for a target run on now: the GPU on which arrays of `values` lie, if any does.

    Raises:
        CudaFailure: there is no GPU.
    """
    if kind.on_gpu:
        api = door.driver()
        api.enter()
        device = device_of(values)
        with api.inside(api.device() if device is None else device):
            found = _gpu(api.device())
    else:
        found = _cpu(current().threads)
    return _better.get(found, found)


def measured_again(machine: Machine) -> Machine:
    """Return the machine with its rates as they are when they are measured once more, where those are higher.

    What else a machine does only ever makes it seem slower; the best is remembered, for a CPU by later processes, too.
    """
    if machine.on_gpu:
        again = raised(machine, (_device_copy(door.driver()) or 0.0) / machine.bandwidth, 1.0)
    else:
        again = _measured_host(machine)
    first = next((first for first, last in _better.items() if last is machine), machine)
    _better[first] = again
    return again


def _measured_host(machine: Machine) -> Machine:
    rates = raised_rates(_rates_path(machine.units), _measurement(machine.units))
    if rates.bandwidth <= machine.bandwidth and rates.product <= machine.rates["f32"]:
        return machine
    return host_machine(machine.units, rates)


def raised(machine: Machine, memory: float, arithmetic: float) -> Machine:
    """Return the machine with its rates of memory and arithmetic multiplied by those factors that are above 1."""
    memory, arithmetic = max(1.0, memory), max(1.0, arithmetic)
    if memory == arithmetic == 1.0:
        return machine
    rates = {kind: rate * arithmetic for kind, rate in machine.rates.items()}
    return replace(
        machine, bandwidth=machine.bandwidth * memory, cache_bandwidth=machine.cache_bandwidth * memory, rates=rates
    )


def last_cache_bytes(kind: TargetKind, values: Sequence[object] = ()) -> int:
    """Return the bytes of the cache that all units share; 0 for programs that are interpreted."""
    if not kind.backend:
        return 0
    return this_machine(kind, values).cache_bytes if kind.on_gpu else _cache_bytes()


@functools.cache
def _gpu(device: int) -> Machine:
    api = door.driver()
    ask = functools.partial(_attribute, api, device)
    capability = (ask("COMPUTE_CAPABILITY_MAJOR"), ask("COMPUTE_CAPABILITY_MINOR"))
    units, clock = ask("MULTIPROCESSOR_COUNT"), 1e3 * ask("CLOCK_RATE")
    rates = gpu_rates(rates_of(capability), units * clock)
    stated = 2 * 1e3 * ask("MEMORY_CLOCK_RATE") * ask("GLOBAL_MEMORY_BUS_WIDTH") / 8
    measured = _device_copy(api)
    source = f"operations: {units} multiprocessors at {clock / 1e9:.2f} GHz; memory: " + (
        "a copy, measured" if measured else "its clock and width"
    )
    bandwidth = measured or stated
    return Machine(
        api.name(device), api.count(), units, "SM", bandwidth, _GPU_CACHE * bandwidth, ask("L2_CACHE_SIZE"),
        rates, source, ask("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"), ask("MAX_REGISTERS_PER_MULTIPROCESSOR"),
        ask("MAX_THREADS_PER_MULTIPROCESSOR"), launch=3e-6, step=1e-7, on_gpu=True,
    )  # fmt: skip


def _attribute(api: Driver, device: int, name: str) -> int:
    return api.attribute(name, device)


def gpu_rates(cycle: Mapping[str, int], cycles: float) -> dict[str, float]:
    """Return the operations a second of each kind, from those of a multiprocessor in a cycle and its clock."""
    rates = {name: count * cycles for name, count in cycle.items() if not name.startswith("dot ")}
    rates |= dict.fromkeys(_SIXTEEN, cycle["dot 16"] * cycles)
    rates |= dict.fromkeys(_EIGHT, cycle["dot 8"] * cycles)
    rates["dot tf32"] = cycle["dot 16"] * cycles / 2
    rates["dot f64"] = cycle.get("dot f64", cycle["f64"]) * cycles
    return rates


def _device_copy(api: Driver) -> float | None:
    """Return the bytes a second of a copy inside the device, read and written; None where there is no memory for it."""
    pieces: list[int] = []
    try:
        pieces += [api.allocate(_COPY_BYTES, 0), api.allocate(_COPY_BYTES, 0)]
    except CudaFailure:
        for piece in pieces:
            api.free(piece, 0)
        return None
    first, second = api.new_event(), api.new_event()
    try:
        seconds: list[float] = []
        for _ in range(_COPIES):
            api.record(first, 0)
            api.copy(pieces[0], pieces[1], _COPY_BYTES, 0)
            api.record(second, 0)
            api.wait_event(second)
            seconds.append(api.elapsed(first, second))
        return 2 * _COPY_BYTES / min(seconds)
    finally:
        for event in (first, second):
            api.close_event(event)
        for piece in pieces:
            api.free(piece, 0)


@functools.cache
def _cpu(threads: int) -> Machine:
    return host_machine(threads, kept_rates(_rates_path(threads), _measurement(threads)))


def host_machine(threads: int, rates: HostRates) -> Machine:
    """Return the processor with rates that were measured on some threads."""
    product, bandwidth = rates.product, rates.bandwidth
    by_kind = {"f32": product, "f64": product / 2, "special": product / 16, "dot f64": product / 2}
    source = (
        f"measured on {threads} threads ({rates.circumstances}): sums of two arrays in place, and NumPy's product of "
        "two f32 matrices"
    )
    return Machine(
        _processor(), threads, threads, "core", bandwidth, _CPU_CACHE * bandwidth, _cache_bytes(), by_kind, source
    )


def _rates_path(threads: int) -> Path:
    return rates_path(current().cache_dir / "machines", _processor(), threads)


def _measurement(threads: int) -> Measure:
    return functools.partial(measure_rates, threads, max(4 * _cache_bytes() // threads, 8 << 20))


def _processor() -> str:
    """Return the processor's name as Linux has it, or the kind of it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return os.uname().machine


def _cache_bytes() -> int:
    """Return the bytes of the cache that all cores share, from Linux; elsewhere 32 MiB, more than most have."""
    try:
        text = Path("/sys/devices/system/cpu/cpu0/cache/index3/size").read_text().strip()
        return int(text.removesuffix("K")) << 10
    except (OSError, ValueError):
        return 32 << 20
