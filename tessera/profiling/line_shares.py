"""Sample the instructions that threads execute on the CPU: the share of time of each line of a kernel."""

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

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

    lines: of the user's file; rest: of instructions that the compiler made for several lines or for none
    samples: the instructions that were seen, one each `program_counters.PERIOD` of each thread
    """

    lines: Mapping[int, float]
    rest: float
    samples: int


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
    whole = origin.kernel.compile_quietly(*values)
    copies = ClonedArguments(values, [binding.mutable for binding in whole.bindings], on_device=False)
    try:
        counters = _sampled(origin.kernel, copies, origin.grid, phases)
    finally:
        copies.close()
    places = Counter(place for code in phases for place in code.places(counters))
    total = places.total()
    if total < _FEWEST:
        return None
    name = origin.compiled.program.source.name
    lines = {line: count / total for (file, line), count in sorted(places.items()) if file == name and line}
    return LineShares(lines, max(0.0, 1.0 - sum(lines.values())), total)


def _sampled(kernel: Kernel, copies: ClonedArguments, grid: Grid | None, phases: Sequence["_Code"]) -> Numbers:
    """Launch until enough of the kernel was seen; return the addresses of the instructions."""
    with working(f"sampling {kernel.source.name}", _ENOUGH) as task, sampling() as addresses:
        ends = time.monotonic() + _PATIENCE
        used = time.process_time() + _PATIENCE
        while True:
            kernel.launch(copies.values, None, grid)
            copies.restore()
            found = addresses()
            seen = sum(int(code.inside(found).sum()) for code in phases)
            task.step(min(seen, _ENOUGH))
            if seen >= _ENOUGH or (time.monotonic() > ends and time.process_time() > used):
                return found


class _Code:
    """The machine code of one phase, where it lies in this process."""

    def __init__(self, compiled: Compiled) -> None:
        from tessera.lowering.base.line_table import read_instructions  # noqa: PLC0415 - 50 ms, for few profiles

        artifact = compiled.artifact
        self._read = read_instructions(compiled.listed_code, artifact.entry)
        own = read_instructions(artifact.code, artifact.entry)
        assert (own.text, own.entry) == (self._read.text, self._read.entry), "code that is listed is code that runs"
        self._loaded = load(artifact)  # keeps it where it is
        self._begin = self._loaded.address - own.entry
        self._offsets = [offset for offset, _, _ in self._read.rows]

    def inside(self, addresses: Numbers) -> Numbers:
        """Return which addresses are of this code."""
        return (addresses >= self._begin) & (addresses < self._begin + len(self._read.text))

    def places(self, addresses: Numbers) -> list[tuple[str, int]]:
        """Return file and line of each address of this code."""
        offsets = addresses[self.inside(addresses)] - self._begin
        return [self._read.rows[bisect_right(self._offsets, int(offset)) - 1][1:] for offset in offsets]
