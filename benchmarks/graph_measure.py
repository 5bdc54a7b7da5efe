"""One row of `benchmarks/graph.py`: check each contender against f64, then time all of them in turns."""

# Libraries of GPUs are not installed where types are checked: what comes from them is unknown.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false

import gc
import math
import statistics
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import torch

CALLS: Final = 10
ROUNDS: Final = 9
BF16: Final = torch.bfloat16
_LONG: Final = 30_000.0  # microseconds: what takes longer is called once between two events


@dataclass
class Row:
    """What each contender took (microseconds), its error, the memory it needed beside its operands, and its mistakes.

    goal: what the time of the best peer over ours shall be at least; None: reported only
    apart: contenders that compute something else, and are no peers
    """

    name: str
    work: float
    unit: str
    goal: float | None
    times: dict[str, float] = field(default_factory=dict[str, float])
    errors: dict[str, float] = field(default_factory=dict[str, float])
    peak_bytes: dict[str, int] = field(default_factory=dict[str, int])
    first_call: dict[str, float] = field(default_factory=dict[str, float])
    notes: dict[str, str] = field(default_factory=dict[str, str])
    kernels: int = 0
    apart: tuple[str, ...] = ()

    @property
    def ratio(self) -> float:
        """The time of the best peer over ours; NaN without either."""
        peers = [value for name, value in self.times.items() if name not in ("tessera", *self.apart)]
        return min(peers, default=math.nan) / self.times.get("tessera", math.nan)


@dataclass(frozen=True)
class Case:
    """One computation.

    contenders: functions of no arguments; reference: the result in f64, or a part of it, which `part` takes of results
    ours: the function of operators, whose kernels are counted
    tolerance: the largest error, relatively to the norm of the reference
    apart: contenders that compute something else, such as a part of it: timed, not compared
    """

    name: str
    work: float
    unit: str
    contenders: dict[str, Callable[[], Any]]
    reference: Callable[[], Any]
    part: Callable[[Any], Any] = lambda x: x
    ours: Any = None
    goal: float | None = None
    tolerance: float = 2e-2
    apart: tuple[str, ...] = ()


def normal(*shape: int, scale: float = 1.0) -> Any:
    """Random bf16 numbers."""
    return (torch.randn(*shape, device="cuda") * scale).to(BF16)


def flat(*parts: Any) -> Any:
    """Join parts of several results, each divided by its norm, so that a wrong one shows."""
    wide = [part.double().reshape(-1) for part in parts]
    return torch.cat(wide)


@dataclass(frozen=True)
class _Repeated:
    """Calls between two events; count: how many."""

    run: Callable[[], Any]
    count: int


def measured(case: Case) -> Row:
    """Check and time one case."""
    row = Row(case.name, case.work, case.unit, case.goal, apart=case.apart)
    want = case.reference().double()
    ready: dict[str, _Repeated] = {}
    for name, run in case.contenders.items():
        try:
            start = time.perf_counter()
            got = case.part(run()).double()
            torch.cuda.synchronize()
            row.first_call[name] = time.perf_counter() - start
            row.errors[name] = float((got - want).norm() / want.norm())
            del got
            if name not in case.apart and not row.errors[name] < case.tolerance:
                raise ValueError(f"its result is off by {row.errors[name]:.1e}")
            row.peak_bytes[name] = _peak(run) + (_arenas(case.ours.executable) if name == "tessera" else 0)
            ready[name] = _captured(run, row, name)
        except Exception as error:  # noqa: BLE001 - a contender that fails is a line of the report
            row.notes[name] = f"{type(error).__name__}: {error}"[:200]
            traceback.print_exc()
    if case.ours is not None:
        row.kernels = len(case.ours.executable.plan.groups)
    samples: dict[str, list[float]] = {name: [] for name in ready}
    for _ in range(ROUNDS):
        for name, run in ready.items():
            samples[name].append(_timed(run))
    row.times = {name: statistics.median(values) for name, values in samples.items() if values}
    return row


def kernel_times(run: Callable[[], Any]) -> list[tuple[str, float]]:
    """Return the kernels of one call in the order they ended, with microseconds from the end of the one before.

    A kernel that begins before the one ends whose results it waits for would count the wait, too.
    """
    for _ in range(2):
        run()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        run()
        torch.cuda.synchronize()
    spans = [(event.time_range.end, event.time_range.start, event.name) for event in profile.events()
             if event.device_type == torch.autograd.DeviceType.CUDA]  # fmt: skip
    found: list[tuple[str, float]] = []
    before = -math.inf
    for end, start, name in sorted(spans):
        found.append((name, end - max(start, before)))
        before = end
    return found


def _arenas(executable: Any) -> int:
    """Return the bytes of a graph's arena and of its bodies', which are kept between calls."""
    bodies = [body for each in executable.bodies.values() for body in each]
    return executable.plan.arena_bytes + sum(map(_arenas, bodies))


def _peak(run: Callable[[], Any]) -> int:
    """Return the bytes that a call takes at its most from torch's allocator, results included."""
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def _captured(run: Callable[[], Any], row: Row, name: str) -> _Repeated:
    """Return the replay of CALLS calls as one CUDA graph, or the calls themselves where they cannot be captured."""
    for _ in range(2):
        run()
    torch.cuda.synchronize()
    once = _timed(_Repeated(run, 1))
    if once > _LONG / CALLS:  # the launches of long calls do not matter
        return _Repeated(run, CALLS if once < _LONG else 1)
    try:
        made = torch.cuda.CUDAGraph()
        with torch.cuda.graph(made):
            for _ in range(CALLS):
                run()
        made.replay()
        torch.cuda.synchronize()
    except Exception as error:  # noqa: BLE001 - some contenders cannot be captured, such as JAX
        row.notes[name] = f"not captured: {error}"[:120]
        torch.cuda.synchronize()
        return _Repeated(run, CALLS)
    return _Repeated(made.replay, 0)


def _timed(given: _Repeated) -> float:
    """Return microseconds a call; a count of 0 is one replay of CALLS calls."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(max(given.count, 1)):
        given.run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e3 / (given.count or CALLS)


def line(row: Row) -> str:
    """Return a row of the table."""
    ours = row.times.get("tessera")
    rate = row.work / ours / (1e6 if row.unit == "TFLOP/s" else 1e3) if ours else math.nan
    rest = ", ".join(f"{name} {value:.0f}" for name, value in row.times.items() if name != "tessera")
    mine = f"{ours:9.0f} us {rate:6.0f} {row.unit}" if ours else "failed"
    goal = "" if row.goal is None else f"(goal {row.goal:.2f}{'' if row.ratio >= row.goal else ' MISSED'})"
    memory = " ".join(f"{name} {size / 1e6:.0f}" for name, size in row.peak_bytes.items())
    errors = " ".join(f"{name} {error:.1e}" for name, error in row.errors.items())
    first = f"{row.first_call.get('tessera', math.nan):.1f} s"
    return (
        f"{row.name:30} {mine} {row.ratio:5.2f}x {goal} k{row.kernels} [{rest} us] MB[{memory}] err[{errors}] "
        f"first {first} {row.notes or ''}"
    )
