"""Rank what the rules find, and say in a sentence what limits a launch."""

from collections.abc import Callable
from typing import Final

from tessera.profiling.advice.measured_options import checked
from tessera.profiling.advice.model import Advice, Evidence, Explanation, Measured
from tessera.profiling.advice.rules import LIMITS, RULES
from tessera.profiling.origin import Origin
from tessera.profiling.results import Profile

_UNEXPLAINED: Final = 0.5
"""The share of the roofline that the found causes must explain; below, something else costs time."""
_NOISY: Final = 0.25
_LIMITS: Final = {"memory": "memory", "compute": "arithmetic"}


def explanation(profile: Profile, search: Callable[[Origin | None], Measured | None] = lambda _: None) -> Explanation:
    """Return what limits the longest launch of a profile: advice with numbers, the largest estimated gain first.

    Limits that nothing mends come after that.  Gains are upper limits, each by itself; what no rule explains is said
    to be unexplained.

    search: returns what a search measured of the profiled kernel: advice that its times contradict becomes a note
    """
    launches = (profile, *profile.next_phases)
    longest = max(launches, key=lambda each: each.wall)
    measured = search(longest.origin) if len(launches) == 1 else None
    advice = [one for rule in RULES for one in rule(longest)]
    # A cause that can be mended comes before the remark that the launch is near its limit.
    advice.sort(key=lambda one: (one.kind in LIMITS, -(one.gain if one.gain is not None else -1.0)))
    advice, contradicted = checked(advice, measured) if measured is not None else (advice, [])
    advice = [one.with_origin(longest.origin) for one in advice]
    advice += _unexplained(longest, advice)
    notes = [*_notes(longest), *contradicted]
    if len(launches) > 1:
        total = sum(each.wall for each in launches)
        number = launches.index(longest) + 1
        notes.insert(0, f"of {len(launches)} launches this is number {number}, {longest.wall / total:.0%} of the time")
    return Explanation(_verdict(longest, advice), tuple(advice), tuple(notes))


def _verdict(profile: Profile, found: list[Advice]) -> str:
    line = profile.roofline
    share = f"{profile.attained:.0%} of the speed that {_LIMITS[line.bound]} allows"
    if not profile.work.groups:
        return "nothing ran: the launch has no groups"
    if not found:
        return f"{profile.kernel} reaches {share}; nothing found that costs it time"
    first = found[0]
    told = f" (at most {first.gain:.0%} of the time)" if first.gain is not None else ""
    return f"{profile.kernel} reaches {share}; first: {first.kind}{told}"


def _unexplained(profile: Profile, found: list[Advice]) -> list[Advice]:
    """Return an advice on what is left, where the causes that were found leave most of the gap to the roofline."""
    if not profile.roofline.floor or not profile.work.groups:
        return []
    left = 1.0
    for advice in found:
        left *= 1.0 - (advice.gain or 0.0)
    reached = profile.attained / max(left, 1e-6)
    if reached >= _UNEXPLAINED:
        return []
    kinds = ", ".join(profile.work.by_kind) or "no arithmetic"
    text = (
        f"With all of that mended the launch would still reach {reached:.0%} of the roofline: what else takes time is "
        "latency, the instructions around the counted work, or memory that is not read in order. "
        "The machine code and the lines it comes from say more."
        if found
        else f"The launch reaches {reached:.0%} of the roofline and no rule explains the rest: latency of dependent "
        "operations, instructions around the counted work, or memory that is not read in order. "
        "The machine code and the lines it comes from say more."
    )
    evidence = (
        Evidence("share of the roofline", profile.attained, "%"),
        Evidence("time", profile.wall * 1e6, "µs"),
        Evidence(f"at best ({kinds})", profile.roofline.floor * 1e6, "µs"),
    )
    lines = profile.plan.lines if profile.plan is not None else ()
    return [Advice("latency", text, evidence, None, lines)]


def _notes(profile: Profile) -> list[str]:
    """Return how far to trust the numbers."""
    notes: list[str] = []
    if profile.noise > _NOISY:
        notes.append(
            f"launches vary by {profile.noise:.0%}: the machine did other work or changed its clock; measure again"
        )
    if profile.overhead > max(0.05, profile.noise):
        notes.append(f"writing the records takes {profile.overhead:.0%} of a launch: tiles look that much longer")
    if profile.every > 1:
        notes.append(f"one tile in {profile.every} has a record: balance and tail are not looked at")
    if profile.origin is None:
        notes.append("made of records alone: nothing is known of the compiled kernel, and nothing can be tried")
    return notes
