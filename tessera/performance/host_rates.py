"""The rates of the host's memory and arithmetic: measured while the machine is idle, and kept for all processes.

Beside other programs a rate comes out too low, so a measurement looks at how much of the processors' time these took.
One that was disturbed is taken again, in this process and by later ones, and the highest rates are kept with the date,
the disturbance and the spread of the runs: the roofs of a machine are the same in all of its notebooks.
"""

import datetime as dt
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np

from tessera.core.base.interrupts import LOOK, deferred_interrupts
from tessera.core.private_files import make_folder, read_private, replace_file

IDLE: Final = 0.1
"""Share of the processors' time that other programs may take while a machine counts as idle."""
_ATTEMPTS: Final = 3
_RUNS: Final = 15
_MATRIX: Final = 768
_NUMBERS: Final = ("bandwidth", "product", "spread", "disturbance")


@dataclass(frozen=True, slots=True)
class HostRates:
    """Rates of the host, of some threads.

    bandwidth: bytes per second of sums in place; product: operations per second of NumPy's product of f32 matrices
    spread: by how much the median of the runs is slower than the fastest, as a share
    disturbance: the share of the processors' time that other programs took; date: of the measurement, ISO 8601
    """

    bandwidth: float
    product: float
    spread: float
    disturbance: float
    date: str

    @property
    def idle(self) -> bool:
        """True where other programs took too little time to count."""
        return self.disturbance <= IDLE

    @property
    def circumstances(self) -> str:
        """When and how they were measured, in words."""
        beside = "idle" if self.idle else f"other programs had {self.disturbance:.0%} of the processors' time"
        return f"{self.date}, {beside}, runs differ by {self.spread:.0%}"

    def best(self, other: "HostRates") -> "HostRates":
        """Return the higher rates of two measurements, with what is known of the one that was disturbed less."""
        calmer = self if self.disturbance <= other.disturbance else other
        bandwidth, product = max(self.bandwidth, other.bandwidth), max(self.product, other.product)
        return replace(calmer, bandwidth=bandwidth, product=product)


Measure = Callable[[], HostRates]
"""Takes one measurement."""


def kept_rates(path: Path, measure: Measure) -> HostRates:
    """Return the rates in a file, if they were measured on an idle machine; else measure, and keep the best."""
    rates = read_rates(path)
    for _ in range(_ATTEMPTS):
        if rates is not None and rates.idle:
            return rates
        rates = measure() if rates is None else rates.best(measure())
        write_rates(path, rates)
    assert rates is not None
    return rates


def raised_rates(path: Path, measure: Measure) -> HostRates:
    """Return rates measured once more, or those in a file where these are higher, and keep them."""
    rates, kept = measure(), read_rates(path)
    best = rates if kept is None else kept.best(rates)
    write_rates(path, best)
    return best


def rates_path(folder: Path, processor: str, threads: int) -> Path:
    """Return where the rates of some threads of a processor are kept; another NumPy may have another product."""
    identity = repr((processor, os.cpu_count(), threads, np.__version__))
    return folder / f"{hashlib.blake2b(identity.encode(), digest_size=10).hexdigest()}.json"


def read_rates(path: Path) -> HostRates | None:
    """Return the rates in a file; None where there are none that can be read and trusted."""
    try:
        stored = json.loads(read_private(path))
        rates = HostRates(*(float(stored[name]) for name in _NUMBERS), date=str(stored["date"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return rates if rates.bandwidth > 0 and rates.product > 0 else None


def write_rates(path: Path, rates: HostRates) -> None:
    """Keep rates in a file; where that cannot be, the next process measures again."""
    with suppress(OSError):
        make_folder(path.parent)
        replace_file(path, json.dumps(asdict(rates)).encode())


def measure_rates(threads: int, array_bytes: int) -> HostRates:
    """Measure: sums of two arrays in place on each thread, two reads and a write for each element, and a product."""
    size = array_bytes // 4
    pairs = [(np.ones(size, np.float32), np.zeros(size, np.float32)) for _ in range(threads)]
    matrix = np.ones((_MATRIX, _MATRIX), np.float32)
    out = np.empty_like(matrix)
    adding = [partial(np.add, a, b, b) for a, b in pairs]
    sums, ran = _seconds(partial(_side_by_side, adding), time.process_time)
    # BLAS has its own threads, how many it does not say: this one works all the time, unless it has no processor.
    products, ran_here = _seconds(partial(np.matmul, matrix, matrix, out=out), time.thread_time)
    waited = 1.0 - min(1.0, ran / threads, ran_here)
    spread = max(median(seconds) / min(seconds) - 1.0 for seconds in (sums, products))
    return HostRates(
        3 * 4 * size * threads / min(sums), 2 * _MATRIX**3 / min(products), spread, waited,
        dt.datetime.now(tz=dt.UTC).date().isoformat(),
    )  # fmt: skip


def _seconds(run: Callable[[], object], processor_time: Callable[[], float]) -> tuple[list[float], float]:
    """Return how long each run takes, and the processors that all had on average; one before them is not counted."""
    run()
    seconds: list[float] = []
    before = processor_time()
    for _ in range(_RUNS):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return seconds, (processor_time() - before) / sum(seconds)


def _side_by_side(work: Sequence[Callable[[], object]]) -> None:
    """Run on a thread each."""
    workers = [threading.Thread(target=each) for each in work]
    with deferred_interrupts() as deferral:
        for worker in workers:
            worker.start()
        for worker in workers:
            while worker.is_alive():
                worker.join(LOOK)
                deferral.deliver()
