"""Rules: each looks at a profile for one thing that costs time, and says so with numbers, or says nothing."""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from tessera.core.artifact import Remark
from tessera.core.schedule.options import SCHEDULE, illegal, targets_of
from tessera.profiling.advice.model import Advice, Evidence, Options
from tessera.profiling.advice.program_rules import scalar_product, strided_lanes, sum_in_memory
from tessera.profiling.origin import Origin
from tessera.profiling.results import Profile

_WORTH: Final = 0.05
"""Gains below this are not spoken of."""
_NEAR: Final = 0.6
"""The share of the roofline from which on a launch is at its limit."""
_SHORT: Final = 3e-6
"""Seconds of a tile below which what each tile costs by itself counts."""
_LARGER: Final = 4
"""How much larger tiles are proposed to be."""
_SLOW_TILE: Final = 1.5
_MANY_WAVES: Final = 20
"""Full waves from which on a part of one more costs less than is spoken of."""
_LOW_OCCUPANCY: Final = 0.25
_WAITING: Final = 0.3
_SERIAL: Final = "run one after the other"
_REREAD: Final = 1.5
_NOISY: Final = 0.25
STREAM_ROWS: Final = 4
"""Products of so few rows read columns where they lie: the constant of `lowering/cpu/tile/blocking.py`, which imports
MLIR."""


def serial_loop(profile: Profile) -> Iterator[Advice]:
    """A loop whose trips the compiler had to keep in order: one unit works, the others wait."""
    units = profile.machine.units
    for remark in _remarks(profile, serial=True):
        used = max(1, min(units, profile.work.groups))
        gain = 1.0 - used / units
        evidence = (Evidence("groups", profile.work.groups, ""), Evidence(f"{profile.machine.unit}s", units, ""))
        text = f"{remark.text}. {used} of {units} {profile.machine.unit}s work."
        yield Advice("serial loop", text, evidence, max(gain, _WORTH), (remark.span.line,))


def compiler_remarks(profile: Profile) -> Iterator[Advice]:
    """Pass on the other remarks of the compiler: unaligned accesses, products without tensor cores, tiles in memory."""
    for remark in _remarks(profile, serial=False):
        yield Advice(
            "compiler's remark", remark.text, (Evidence("line", remark.span.line, ""),), None, (remark.span.line,)
        )


def too_few_groups(profile: Profile) -> Iterator[Advice]:
    """Fewer groups than the machine runs at a time."""
    units, groups = profile.machine.units, profile.work.groups
    if any(True for _ in _remarks(profile, serial=True)) or not 0 < groups < units:
        return
    text = (
        f"{groups} group{'' if groups == 1 else 's'} for {units} {profile.machine.unit}s: smaller tiles, or a split of "
        "the reduction over groups, would give all of them work."
    )
    evidence = (Evidence("groups", groups, ""), Evidence(f"{profile.machine.unit}s", units, ""))
    yield Advice("too few groups", text, evidence, 1.0 - groups / units, _lines(profile), _tile_options(profile, 0.5))


def tiny_groups(profile: Profile) -> Iterator[Advice]:
    """Groups so short that what each one costs by itself is most of its time."""
    groups, units = profile.work.groups, max(1, len(profile.busy))
    if groups < _LARGER * units or profile.attained >= _NEAR:
        return
    each, needed = profile.wall * units / groups, profile.roofline.floor * units / groups
    if each >= _SHORT or each <= 2 * needed:
        return
    overhead = 1.0 - needed / each
    gain = overhead * (1.0 - 1.0 / _LARGER)
    steps = " x ".join(f"{axis.step} of {axis.name}" for axis in profile.axes)
    text = (
        f"{groups:,} groups of {each * 1e9:,.0f} ns each, of which their work needs {needed * 1e9:,.0f} ns: the "
        f"rest is what a group costs by itself. Groups {_LARGER} times as large ({steps} now) pay it less often."
    )
    evidence = (
        Evidence("groups", groups, ""), Evidence("time of a group", each * 1e9, "ns"),
        Evidence("its work at the machine's rates", needed * 1e9, "ns"),
    )  # fmt: skip
    yield Advice("tiny groups", text, evidence, gain, _lines(profile), _tile_options(profile, _LARGER))


def imbalance_or_tail(profile: Profile) -> Iterator[Advice]:
    """Units that wait at the end: for a slow tile, or because the last wave does not fill them."""
    tiles, span = profile.tiles, profile.span
    if profile.every > 1 or not span or profile.work.groups < profile.machine.units:
        return
    ends = [float(tiles.end[tiles.unit == unit].max()) for unit in profile.busy]
    ends += [0.0] * (profile.machine.units - len(ends))
    idle = sum(span - end for end in ends) / (span * profile.machine.units)
    if idle < _WORTH:
        return
    duration = tiles.duration
    last, median = int(np.argmax(tiles.end)), float(np.median(duration))
    slowest, ratio = int(np.argmax(duration)), float(duration.max()) / max(median, 1e-9)
    waited = Evidence("idle at the end", idle, "%")
    if float(duration[last]) > _SLOW_TILE * median:
        counted = (profile.work.flops, profile.work.read + profile.work.written)
        spread = max(float(part.max()) / max(float(np.median(part)), 1e-9) for part in counted)
        why = (
            f"it has {spread:.1f} times the median's work: begin the large ones first, or divide them"
            if spread > _SLOW_TILE
            else "its counted work is that of the others: look at what its elements make it do, or what else ran there"
        )
        text = (
            f"Tile {int(tiles.group[slowest])} takes {ratio:.1f} times the median tile, and {idle:.0%} of the units' "
            f"time passes in waiting for the last ones; {why}. Smaller tiles even it out."
        )
        evidence = (waited, Evidence("slowest tile", float(duration.max()) / 1e3, "µs"),
                    Evidence("median tile", median / 1e3, "µs"))  # fmt: skip
        yield Advice("imbalance", text, evidence, idle, _lines(profile), _tile_options(profile, 0.5))
        return
    yield _waiting_for_each_other(profile, idle, ends)


def _waiting_for_each_other(profile: Profile, idle: float, ends: list[float]) -> Advice:
    """Return the advice on units that end apart although no tile is slow: a tail of waves, or uneven shares."""
    waited, plan = Evidence("idle at the end", idle, "%"), profile.plan
    slots = plan.tiles.slots if plan is not None else profile.machine.units
    groups, unit = profile.work.groups, profile.machine.unit
    full, left = divmod(groups, slots)
    # What a last wave that is not full leaves idle; units that wait for longer wait for something else.
    tail = (slots - left) / (slots * (full + 1))
    if left and full < _MANY_WAVES and idle <= tail + _WORTH:
        text = (
            f"{groups:,} groups on {slots} slots are {full} full wave{'' if full == 1 else 's'} and one of {left}: "
            f"{idle:.0%} of the units' time passes in waiting for that tail. "
            "Tiles of half the size make the last wave shorter."
        )
        evidence = (waited, Evidence("groups", groups, ""), Evidence("slots", slots, ""))
        return Advice("tail effect", text, evidence, idle, _lines(profile), _tile_options(profile, 0.5))
    used, spread = len(profile.busy), (max(ends) - min(ends)) / 1e3
    text = (
        f"{used} of {profile.machine.units} {unit}s ran tiles, and they ended {spread:,.1f} µs apart, though tiles are "
        f"alike: {idle:.0%} of the units' time passed in waiting. Other work on the machine does that; measure again."
    )
    return Advice("uneven units", text, (waited, Evidence("apart", spread, "µs")), idle)


def low_occupancy(profile: Profile) -> Iterator[Advice]:
    """Too few warps on a multiprocessor to hide each other's waiting."""
    plan = profile.plan
    if plan is None or plan.occupancy is None or profile.attained >= _NEAR:
        return
    full = plan.occupancy
    if full.fraction >= _LOW_OCCUPANCY or (plan.schedule is not None and plan.schedule.producer_warp):
        return  # warp-specialized kernels hide latency by their pipeline, not by many warps
    gain = min(1.0 - profile.attained, 0.5)
    text = (
        f"{full.warps} of {full.most_warps} warps are resident, limited by {plan.limited_by}: "
        "waiting is hidden by few others. Twice as many could halve the time at best."
    )
    evidence = (Evidence("occupancy", full.fraction, "%"), Evidence("blocks of a multiprocessor", full.blocks, ""))
    names = {"shared memory": ("stages",), "registers": ("num_warps",), "warps": ("num_warps",), "blocks": ()}
    wanted = [name for cause in full.limited_by for name in names.get(cause, ())]
    yield Advice("low occupancy", text, evidence, gain, _lines(profile), tuple(_schedule_options(profile, wanted)))


def spills(profile: Profile) -> Iterator[Advice]:
    """Registers that are stored and loaded for want of room."""
    spilled, origin = profile.spill_bytes, profile.origin
    if not spilled or origin is None:
        return
    threads = origin.compiled.artifact.launch.threads or 1
    moved = 2.0 * spilled * threads * profile.work.groups
    gain = min(0.5, moved / profile.machine.cache_bandwidth / profile.wall)
    text = (
        f"Each lane spills {spilled:,} bytes: {moved / 1e6:,.3g} MB a launch are stored and loaded at least once. "
        "Smaller tiles, or other numbers of warps, need fewer registers a lane."
    )
    evidence = (Evidence("spilled by a lane", spilled, "bytes"), Evidence("registers", profile.registers or 0, ""))
    yield Advice("spills", text, evidence, gain, _lines(profile), tuple(_schedule_options(profile, ["num_warps"])))


def waiting_for_loads(profile: Profile) -> Iterator[Advice]:
    """Pipelined tiles that wait for their loads."""
    share = profile.phase_share.get("load", 0.0)
    if share < _WAITING or (profile.roofline.bound == "memory" and profile.attained >= _NEAR):
        return
    text = f"Tiles wait for loads {share:.0%} of their time: more stages load further ahead."
    evidence = (Evidence("waiting for loads", share, "%"),)
    options = tuple(_schedule_options(profile, ["stages"]))
    yield Advice("load latency", text, evidence, share, _lines(profile), options)


def reread(profile: Profile) -> Iterator[Advice]:
    """Groups that ask for the same bytes again, so often that the cache is the limit."""
    work, machine = profile.work, profile.machine
    cache = work.requested_bytes / machine.cache_bandwidth
    floor = profile.roofline.floor
    if cache <= floor or work.requested_bytes < _REREAD * work.least_bytes or _packs(profile):
        return
    gain = min(1.0, cache / profile.wall) * (1.0 - floor / cache)
    if gain < _WORTH:
        return
    times = work.requested_bytes / work.least_bytes
    text = (
        f"Groups ask for {work.requested_bytes / 1e6:,.1f} MB, {times:.1f} times what has to be moved: at the cache's "
        f"rate (taken from the model) that is {cache * 1e6:,.1f} µs. Larger tiles read each byte less often."
    )
    asked = Evidence("asked for", work.requested_bytes / 1e6, "MB")
    least = Evidence("least", work.least_bytes / 1e6, "MB")
    yield Advice("repeated reads", text, (asked, least), gain, _lines(profile), _tile_options(profile, 2))


def packing(profile: Profile) -> Iterator[Advice]:
    """Products on a CPU whose tiles are so small that copying the factors takes much of the time."""
    work, machine = profile.work, profile.machine
    if not _packs(profile):
        return
    asked = sum(
        flops * sum(dot.operand_bytes for dot in alike) / sum(2 * dot.m * dot.n * dot.k for dot in alike)
        for kind, flops in work.by_kind.items()
        if (alike := [dot for dot in work.dots if kind == f"dot {dot.dtype}"])
    )
    # Read where they lie, and written in the order in which the inner loop takes them.
    gain = min(1.0 - profile.attained, 2 * max(0.0, asked - work.least_read) / machine.cache_bandwidth / profile.wall)
    if gain < _WORTH:
        return
    dot = max(work.dots, key=lambda each: each.operand_bytes / (each.m * each.n * each.k))
    uses = dot.m * dot.n / (dot.m + dot.n)
    text = (
        "Each group packs its factors, which means that it copies them to the order in which the inner loop reads "
        f"them: {asked / 1e6:,.1f} MB in all, {asked / work.least_read:.1f} times what is there. With tiles of "
        f"{dot.m} x {dot.n}, an element is copied for every {uses:.0f} multiply-adds; with tiles twice as large, for "
        f"every {2 * uses:.0f}."
    )
    evidence = (
        Evidence("packed", asked / 1e6, "MB"), Evidence("read at least", work.least_read / 1e6, "MB"),
        Evidence("multiply-adds for each packed element", uses, ""),
    )  # fmt: skip
    larger = _tile_options(profile, 2)
    together: Options = {name: value for option in larger for name, value in option.items()}
    options = (together, *larger) if len(larger) > 1 else larger
    yield Advice("packing", text, evidence, gain, _lines(profile), options)


def _packs(profile: Profile) -> bool:
    """Return whether groups copy the factors of their products before they multiply."""
    return not profile.machine.on_gpu and any(dot.m > STREAM_ROWS for dot in profile.work.dots)


def launch_cost(profile: Profile) -> Iterator[Advice]:
    """Launches whose tiles take little of their time."""
    inside = profile.span * 1e-9
    outside = profile.wall - inside
    gain = outside / profile.wall if profile.wall else 0.0
    if profile.every > 1 or gain < 2 * _WORTH or profile.wall > 10 * max(profile.machine.launch, 5e-6):
        return
    text = (
        f"Tiles take {inside * 1e6:,.3g} of {profile.wall * 1e6:,.3g} µs: the rest is the launch itself. "
        "Capture several calls as a graph (`tessera.graph`), or do more in one."
    )
    evidence = (Evidence("launch", profile.wall * 1e6, "µs"), Evidence("tiles", inside * 1e6, "µs"))
    yield Advice("launch overhead", text, evidence, gain)


def at_the_limit(profile: Profile) -> Iterator[Advice]:
    """A launch near what memory or arithmetic allows: only less of it helps."""
    if profile.attained < _NEAR or not profile.roofline.floor:
        return
    memory = profile.roofline.bound == "memory"
    rate, work = profile.machine.bandwidth / 1e9, profile.work
    text = (
        f"Memory is the limit: {profile.attained:.0%} of {rate:,.0f} GB/s for {work.least_bytes / 1e6:,.3g} MB. Only "
        "fewer bytes make it much faster: narrower types, or one kernel instead of several."
        if memory
        else f"Arithmetic is the limit: {profile.attained:.0%} of what the machine's units do. Only fewer operations, "
        "or a type that units do faster, make it much faster."
    )
    evidence = (
        Evidence("share of the roofline", profile.attained, "%"),
        Evidence("FLOP per byte", profile.roofline.intensity, ""),
    )  # fmt: skip
    yield Advice("memory-bound" if memory else "compute-bound", text, evidence, max(0.0, 1.0 - profile.attained))


LIMITS: Final = ("memory-bound", "compute-bound")
"""Kinds of advice that name no cause to mend, only what cannot be mended."""
RULES: Final[tuple[Callable[[Profile], Iterator[Advice]], ...]] = (
    serial_loop, too_few_groups, tiny_groups, imbalance_or_tail, low_occupancy, spills, waiting_for_loads, reread,
    packing, launch_cost, at_the_limit, strided_lanes, scalar_product, sum_in_memory, compiler_remarks,
)  # fmt: skip


def _remarks(profile: Profile, *, serial: bool) -> Iterator[Remark]:
    if profile.origin is not None:
        for remark in profile.origin.compiled.artifact.remarks:
            if (_SERIAL in remark.text) is serial:
                yield remark


def _lines(profile: Profile) -> tuple[int, ...]:
    """Return the line that the groups come from: the first of the kernel's that does any work."""
    return profile.plan.lines[:1] if profile.plan is not None else ()


def _tile_options(profile: Profile, factor: float) -> tuple[Options, ...]:
    """Return values of the kernel's own parameters that make groups `factor` times as large.

    A parameter is known as the size of a tile where its value is that of a step of the grid.
    """
    origin = profile.origin
    if origin is None:
        return ()
    found: list[Options] = []
    steps = {axis.step for axis in profile.axes if axis.step > 1}
    for name, value in _parameters(origin).items():
        if value in steps and (changed := round(value * factor)) >= 1:
            found.append({name: changed})
    return tuple(found)


def _parameters(origin: Origin) -> dict[str, int]:
    """Return the whole numbers that a kernel was specialized for: its tuning parameters, by name."""
    options = origin.kernel.options
    known = {**{name: values[0] for name, values in (options.space or {}).items()}, **options.constants}
    names = origin.kernel.function.__globals__ if hasattr(origin.kernel.function, "__globals__") else {}
    for name in origin.kernel.function.__code__.co_names if hasattr(origin.kernel.function, "__code__") else ():
        if name not in known and isinstance(names.get(name), int):
            known[name] = names[name]
    return {name: value for name, value in known.items() if type(value) is int}


def _schedule_options(profile: Profile, names: list[str]) -> Iterator[Options]:
    """Yield the next smaller and larger legal values of schedule options that the target reads."""
    plan, origin = profile.plan, profile.origin
    if plan is None or origin is None:
        return
    target = origin.compiled.target.name
    for name in names:
        if target not in targets_of(name):
            continue
        now = getattr(plan.schedule, name, 0) if plan.schedule is not None else 0
        legal = [value for value in SCHEDULE[name].legal if not isinstance(value, bool)]
        around = [max((v for v in legal if v < now), default=0), min((v for v in legal if v > now), default=0)]
        for value in around:
            if value and not illegal(name, value, target):
                yield {name: value}
