"""What the views get from the compiler: links from machine code to lines, and the cost of recording every level."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Final

import numpy as np

import tessera
from notebook_figures import Figure, elapsed_ms
from support.library import CALLS
from tessera.core.base.source import Span
from tessera.core.program.program import Program
from tessera.core.settings import overridden
from tessera.core.targets import Target
from tessera.lowering.base.host_cpu import host_target
from tessera.lowering.service.server import CompileService
from tessera.session.compiled import Compiled
from tessera.viz.ir.explorer_model import explorer_model
from tessera.viz.ir.machine_columns import sass_mapping
from tessera.viz.ir.panes import Pane

GPU: Final = Target("cuda", "sm_90a")
MAPPED_PERCENT: Final = 98.0
CAPTURE_RATIO: Final = 2.0
_SMALL: Final = """
@kernel
def saxpy(x: f32[n], y: mut f32[n], alpha: f32):
    i = tile.linear_id()
    if i < n:
        y[i] = alpha * x[i] + y[i]
"""
_CAPTURED: Final = {"product": "gemm-bfloat16-300x270x130", "attention": "attention-bfloat16-full-d64"}
_X86: Final = re.compile(r"\s+[a-z]\w*")
"""An instruction of x86: indented, and no directive or label."""
Links = Counter[str]
"""Instructions by what they are linked to: "lines", "own" (marked as the compiler's) or "nothing"."""


def links_of_sass(pane: Pane, kernel: Span) -> Links:
    """Count the instructions of a pane of SASS by what they are linked to, as the explorer says it."""
    found = sass_mapping(pane, kernel)
    return Counter({"lines": found.operations, "own": found.own, "nothing": found.unknown})


def links_of_x86(pane: Pane, kernel: Span) -> Links:
    """Count the instructions of a pane of x86 assembly by the same rule."""
    found: Links = Counter()
    for line in pane.lines:
        if _X86.match(line.text):
            own = bool(line.spans) and all(span == kernel for span in line.spans)
            found["own" if own and not line.ops else "lines" if line.ops or line.spans else "nothing"] += 1
    return found


def shipped(target: str) -> Iterator[Compiled]:
    """Compile every kernel of `tessera.ops` for a target, each code once."""
    seen: set[str] = set()
    for call in CALLS:
        with overridden(target=target):
            prepared = call.prepare(*call.arguments())
        for launch in prepared.launches:
            whole: Compiled = launch.kernel.compile(*launch.arguments, target=target)
            for one in whole.phases or (whole,):
                if one.artifact.key not in seen:
                    seen.add(one.artifact.key)
                    yield one


def mapped() -> Iterator[Figure]:
    """Yield the shares of instructions that are linked to lines, or marked as the compiler's own.

    The listings mark whatever stands for no line, so that the first share only falls where a listing loses its marks;
    the share that is linked to a line says how good the links are.
    """
    for name, target, level, links in (
        ("SASS of sm_90a", str(GPU), "sass", links_of_sass),
        ("x86 of this machine", "cpu", "asm", links_of_x86),
    ):
        total: Links = Counter()
        kernels = 0
        worst = 100.0
        for one in shipped(target):
            model = explorer_model(one.artifact, one.listings, one.passes)
            found = links(model.stages(level)[-1], one.artifact.span)
            total += found
            kernels += 1
            worst = min(worst, share(found, "lines", "own"))
        size = f"{name}, {kernels} kernels, {total.total():,} instructions"
        yield Figure(f"{size}: linked or marked", "%", (share(total, "lines", "own"),), MAPPED_PERCENT, least=True)
        yield Figure(f"{size}: linked to a line", "%", (share(total, "lines"),))
        yield Figure(f"{size}: linked or marked, the kernel with the least", "%", (worst,))


def share(links: Links, *kinds: str) -> float:
    """Return the share of some kinds in percent."""
    return 100.0 * sum(links[kind] for kind in kinds) / max(1, links.total())


def programs() -> Iterator[tuple[str, Program, Target]]:
    """Yield a small kernel, and the library's product and attention, for the CPU and for a GPU."""
    small = tessera.compile_source(_SMALL).saxpy
    x = np.ones(16, np.float32)
    calls = {call.name: call for call in CALLS}
    for name, target in (("cpu", host_target()), (str(GPU), GPU)):
        yield f"saxpy, {name}", small.compile(x, x, 2.0, target=name).program, target
        for title, call in _CAPTURED.items():
            with overridden(target=name):
                (launch,) = calls[call].prepare(*calls[call].arguments()).launches
            yield f"{title}, {name}", launch.kernel.compile(*launch.arguments, target=name).program, target


def capture(repetitions: int) -> Iterator[Figure]:
    """Yield what it costs to record every level, in a warm worker: the ratio of compilations taken in turns."""
    service = CompileService(1)
    for name, program, target in programs():
        bare = partial(service.compile, program, target, False)
        observed = partial(service.compile, program, target, True)
        for run in (bare, observed):
            run()
        pairs = [(elapsed_ms(bare), elapsed_ms(observed)) for _ in range(repetitions)]
        yield Figure(f"{name}: compile, nothing recorded", "ms", tuple(one for one, _ in pairs))
        yield Figure(f"{name}: compile, every level recorded", "ms", tuple(one for _, one in pairs))
        ratios = tuple(one / other for other, one in pairs)
        yield Figure(f"{name}: every level over nothing recorded", "times", ratios, CAPTURE_RATIO)
        unseen = bare()
        yield Figure(f"{name}: listings that are made when nobody looks", "count", (float(len(unseen.listings)),), 0.0)
    service.close()
