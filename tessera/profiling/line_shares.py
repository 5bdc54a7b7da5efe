"""Sample the instructions that threads execute on the CPU: the share of time of each, and of each line of a kernel."""

import time
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.listing import NO_ADDRESS, Line
from tessera.core.object_files import machine_text
from tessera.core.progress import working
from tessera.core.work import Numbers
from tessera.kernels.kernel import Kernel
from tessera.profiling.argument_clones import ClonedArguments
from tessera.profiling.results import Profile
from tessera.runtime.binding.grid import Grid
from tessera.runtime.launch.object_code import load
from tessera.runtime.launch.program_counters import can_sample, sampling
from tessera.session.compiled import Compiled

_ENOUGH: Final = 2000
"""Samples in the kernel after which no further launch is begun: a share of 10 % is then known to within 1.4 %."""
_PATIENCE: Final = 0.5
"""Seconds after which none is, if the process was given as much processor time: a busy machine shows less of it."""
_FEWEST: Final = 50
"""Samples that say anything."""


@dataclass(frozen=True, slots=True)
class LineShares:
    """Shares of the time that threads spent in a kernel's own machine code.

    lines: of the user's file; an instruction that several lines have in common counts for each in equal parts
    common: of these, the part that is of such instructions
    unattributed: of instructions that the compiler made for the kernel as a whole, or for other files
    samples: the instructions that were seen, one each `program_counters.PERIOD` of each thread
    assembly, counts: the lines of assembly, of all phases, and how many samples each has
    """

    lines: Mapping[int, float]
    unattributed: float
    samples: int
    common: Mapping[int, float]
    assembly: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()


def line_shares(profile: Profile) -> LineShares | None:
    """Launch a profiled kernel again, on copies of its arguments, and sample which instructions its threads execute.

    None for a launch on a GPU, where the arguments are gone, for a launch too short to be seen, and on machines whose
    threads cannot be sampled.  Takes half a second at most, or one launch; longer where other
    processes take the processor.
    """
    origin = profile.origin
    values = origin.arguments.values() if origin is not None else None
    if origin is None or values is None or profile.machine.on_gpu or not can_sample():
        return None
    origins = [each.origin for each in (profile, *profile.next_phases)]
    phases = [_Code(each.compiled) for each in origins if each is not None]
    bindings = origin.kernel.compile_quietly(*values).bindings
    copies = ClonedArguments(values, [binding.mutable for binding in bindings], on_device=False)
    try:
        counters = _sampled(origin.kernel, copies, origin.grid, phases)
    finally:
        copies.close()
    counted = [(line, count) for code in phases for line, count in code.counts(counters)]
    if sum(count for _, count in counted) < _FEWEST:
        return None
    return _shares(counted, origin.compiled.program.source.name)


def _shares(counted: Sequence[tuple[Line, int]], file: str) -> LineShares:
    total = sum(count for _, count in counted)
    lines, common = defaultdict[int, float](float), defaultdict[int, float](float)
    for instruction, count in counted:
        numbers = sorted({span.line for span in instruction.spans if span.file == file}) if instruction.ops else []
        for number in numbers:
            lines[number] += count / len(numbers)
            common[number] += count / len(numbers) if len(numbers) > 1 else 0
    shares = _divided(lines, total)
    return LineShares(
        shares, max(0.0, 1.0 - sum(shares.values())), total, _divided(common, total),
        tuple(line.text for line, _ in counted), tuple(count for _, count in counted),
    )  # fmt: skip


def _divided(counts: Mapping[int, float], total: int) -> dict[int, float]:
    return {number: counts[number] / total for number in sorted(counts) if counts[number]}


def _sampled(kernel: Kernel, copies: ClonedArguments, grid: Grid | None, phases: Sequence["_Code"]) -> Numbers:
    """Launch until enough of the kernel was seen; return the addresses of the instructions."""
    with working(f"sampling {kernel.source.name}", _ENOUGH) as task, sampling() as addresses:
        ends = time.monotonic() + _PATIENCE
        used = time.process_time() + _PATIENCE
        while True:
            kernel.launch(copies.values, None, grid)
            copies.restore()
            sampled = addresses()
            seen = sum(int(code.inside(sampled).sum()) for code in phases)
            task.step(min(seen, _ENOUGH))
            if seen >= _ENOUGH or (time.monotonic() > ends and time.process_time() > used):
                return sampled


class _Code:
    """The machine code of one phase, where it lies in this process."""

    def __init__(self, compiled: Compiled) -> None:
        artifact = compiled.artifact
        own, listed = (machine_text(code) for code in (artifact.code, compiled.listed_code))
        assert own.code == listed.code, "code that is listed is code that runs"
        self._lines = compiled.listing("asm").lines
        self._offsets, self._numbers = _sorted_by_address(self._lines)
        self._loaded = load(artifact)  # keeps it where it is
        self._begin, self._size = self._loaded.address - own.symbols[artifact.entry], len(own.code)

    def inside(self, addresses: Numbers) -> Numbers:
        """Return which addresses are of this code."""
        return (addresses >= self._begin) & (addresses < self._begin + self._size)

    def counts(self, addresses: Numbers) -> list[tuple[Line, int]]:
        """Return the lines of assembly, and how many of the addresses are of each."""
        samples = Counter[int]()
        for address in addresses[self.inside(addresses)] if self._offsets else ():
            samples[self._numbers[bisect_right(self._offsets, int(address) - self._begin) - 1]] += 1
        return [(line, samples[number]) for number, line in enumerate(self._lines)]


def _sorted_by_address(lines: Iterable[Line]) -> tuple[list[int], list[int]]:
    """Return the addresses of instructions in order, and the numbers of their lines."""
    pairs = sorted((line.address, number) for number, line in enumerate(lines) if line.address != NO_ADDRESS)
    return [address for address, _ in pairs], [number for _, number in pairs]
