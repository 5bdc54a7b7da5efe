"""Rules: each looks at a profile for one thing that costs time, and says so with numbers, or says nothing."""

from collections.abc import Callable, Iterator
from typing import Final

from tessera.core.artifact import Remark
from tessera.profiling.advice.balance_rules import edge_tiles, idle_units, imbalance_or_tail
from tessera.profiling.advice.model import Advice, Evidence, Options
from tessera.profiling.advice.option_values import first_line, schedule_options, tile_options
from tessera.profiling.advice.program_rules import scalar_product, strided_lanes, sum_in_memory
from tessera.profiling.results import Profile

_WORTH: Final = 0.05
"""Gains below this are not spoken of."""
_NEAR: Final = 0.6
"""The share of the roofline from which on a launch is at its limit."""
_SHORT: Final = 3e-6
"""Seconds of a tile below which what each tile costs by itself counts."""
_LARGER: Final = 4
"""How much larger tiles are proposed to be."""
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
    yield Advice(
        "too few groups", text, evidence, 1.0 - groups / units, first_line(profile), tile_options(profile, 0.5)
    )


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
    yield Advice("tiny groups", text, evidence, gain, first_line(profile), tile_options(profile, _LARGER))


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
    yield Advice("low occupancy", text, evidence, gain, first_line(profile), tuple(schedule_options(profile, wanted)))


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
    yield Advice("spills", text, evidence, gain, first_line(profile), tuple(schedule_options(profile, ["num_warps"])))


def waiting_for_loads(profile: Profile) -> Iterator[Advice]:
    """Pipelined tiles that wait for their loads."""
    share = profile.phase_share.get("load", 0.0)
    if share < _WAITING or (profile.roofline.bound == "memory" and profile.attained >= _NEAR):
        return
    text = f"Tiles wait for loads {share:.0%} of their time: more stages load further ahead."
    evidence = (Evidence("waiting for loads", share, "%"),)
    options = tuple(schedule_options(profile, ["stages"]))
    yield Advice("load latency", text, evidence, share, first_line(profile), options)


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
    yield Advice("repeated reads", text, (asked, least), gain, first_line(profile), tile_options(profile, 2))


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
    larger = tile_options(profile, 2)
    together: Options = {name: value for option in larger for name, value in option.items()}
    options = (together, *larger) if len(larger) > 1 else larger
    yield Advice("packing", text, evidence, gain, first_line(profile), options)


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
    serial_loop, too_few_groups, tiny_groups, idle_units, edge_tiles, imbalance_or_tail, low_occupancy, spills,
    waiting_for_loads, reread, packing, launch_cost, at_the_limit, strided_lanes, scalar_product, sum_in_memory,
    compiler_remarks,
)  # fmt: skip


def _remarks(profile: Profile, *, serial: bool) -> Iterator[Remark]:
    if profile.origin is not None:
        for remark in profile.origin.compiled.artifact.remarks:
            if (_SERIAL in remark.text) is serial:
                yield remark
