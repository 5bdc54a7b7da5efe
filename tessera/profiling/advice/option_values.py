"""Values of a kernel's own parameters, and of its schedule, that an advice proposes to try."""

from collections.abc import Iterator

from tessera.core.schedule.options import SCHEDULE, illegal, targets_of
from tessera.profiling.advice.model import Options
from tessera.profiling.origin import Origin
from tessera.profiling.results import Profile


def first_line(profile: Profile) -> tuple[int, ...]:
    """Return the line that the groups come from: the first of the kernel's that does any work."""
    return profile.plan.lines[:1] if profile.plan is not None else ()


def tile_options(profile: Profile, factor: float) -> tuple[Options, ...]:
    """Return values of the kernel's own parameters that make groups `factor` times as large.

    A parameter is known as the size of a tile where its value is that of a step of the grid.
    """
    origin = profile.origin
    if origin is None:
        return ()
    options: list[Options] = []
    steps = {axis.step for axis in profile.axes if axis.step > 1}
    for name, value in _parameters(origin).items():
        if value in steps and (changed := round(value * factor)) >= 1:
            options.append({name: changed})
    return tuple(options)


def _parameters(origin: Origin) -> dict[str, int]:
    """Return the whole numbers that a kernel was specialized for: its tuning parameters, by name."""
    options = origin.kernel.options
    known = {**{name: values[0] for name, values in (options.space or {}).items()}, **options.constants}
    names = origin.kernel.function.__globals__ if hasattr(origin.kernel.function, "__globals__") else {}
    for name in origin.kernel.function.__code__.co_names if hasattr(origin.kernel.function, "__code__") else ():
        if name not in known and isinstance(names.get(name), int):
            known[name] = names[name]
    return {name: value for name, value in known.items() if type(value) is int}


def schedule_options(profile: Profile, names: list[str]) -> Iterator[Options]:
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
