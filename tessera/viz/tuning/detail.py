"""Details of one configuration: the resources of its code, its diff and its profile beside the best one's."""

import ast
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from tessera.core.errors.base import TesseraError
from tessera.core.program.program import Attribute
from tessera.kernels.kernel import Kernel
from tessera.profiling.argument_clones import ClonedArguments
from tessera.profiling.profile import profile
from tessera.session.compiled import Compiled
from tessera.tuning.results import Config, config_key, show
from tessera.viz.base.payload import Json
from tessera.viz.diffs.view import diff
from tessera.viz.profile.timeline import timeline


@dataclass(frozen=True, slots=True)
class Detail:
    """Resources of a configuration's code.

    rows: a name, the value of this configuration and that of the best; error: why there are none
    """

    rows: tuple[tuple[str, str, str], ...]
    error: str = ""


def detail(kernel: Kernel, values: Sequence[object], config: Config, best: Config | None) -> Detail:
    """Compile a configuration, which after its trial comes from the cache, and compare its resources with the best's.

    A configuration that cannot be compiled says why.
    """
    try:
        own = _figures(kernel, values, config)
        others = _figures(kernel, values, best) if best is not None else {}
    except TesseraError as mistake:
        return Detail((), f"{mistake.code} {mistake.title}: {mistake.message}")
    names = dict.fromkeys([*own, *others])
    return Detail(tuple((name.strip(), own.get(name, ""), others.get(name, "")) for name in names))


@dataclass(frozen=True, slots=True)
class Embedded:
    """A view inside of the dashboard: `title` above it, and what its renderer, `kind`, draws."""

    title: str
    kind: str
    payload: Json


def diff_with_best(kernel: Kernel, values: Sequence[object], config: Config, best: Config) -> tuple[Embedded, ...]:
    """Return the visual diff from the best configuration to another one.  Raises the mistakes of a configuration."""
    made = diff(compiled(kernel, values, best), compiled(kernel, values, config))
    return (Embedded(f"from the best, {show(best)}, to {show(config)}", made.kind, made.payload()),)


def profile_beside_best(kernel: Kernel, values: Sequence[object], config: Config, best: Config) -> tuple[Embedded, ...]:
    """Profile a configuration and the best one on copies of `values`, and return their timelines."""
    shown = [config] if config_key(config) == config_key(best) else [config, best]
    found: list[Embedded] = []
    copies = ClonedArguments(values, [False] * len(values), on_device=kernel.target_for(values).kind.on_gpu)
    try:
        for one in shown:
            made = timeline(profile(kernel.with_constants(one))(*copies.values))
            found.append(Embedded(show(one) + (", the best" if one is best else ""), made.kind, made.payload()))
    finally:
        copies.close()
    return tuple(found)


def compiled(kernel: Kernel, values: Sequence[object], config: Config) -> Compiled:
    """Return a configuration compiled for arguments like `values`."""
    return kernel.with_constants(config).compile_quietly(*values)


def _figures(kernel: Kernel, values: Sequence[object], config: Config) -> dict[str, str]:
    return dict(compiled(kernel, values, config).resources().figures)


def parsed(text: str) -> dict[str, Attribute]:
    """Return a configuration from what a person types: "BM=64, BN=128 pingpong=True".

    Raises ValueError for what is no name with a value.
    """
    found: dict[str, Attribute] = {}
    for word in shlex.split(text.replace(",", " ")):
        name, equals, value = word.partition("=")
        if not (name.isidentifier() and equals and value):
            raise ValueError(f"{word!r} is not of the form NAME=VALUE")
        try:
            found[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            found[name] = value
    if not found:
        raise ValueError("write NAME=VALUE, such as BM=64")
    return found
