"""What a kernel's decorator can say, and its checks."""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tessera.core.mistakes import BadGrid, BadKernelOption
from tessera.core.program.program import Attribute
from tessera.runtime.grid import read_grid
from tessera.session import resolve_target

Space = Mapping[str, Iterable[Attribute]]
"""Values to try for each tuning parameter."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a decorator can say.

    tile: lanes a group along each axis (`tile[(128,)]`); shared: bytes of shared memory a group may use
    target: "cpu", "interpret" or "cuda"; None: the setting of that name
    sanitize: run interpreted and look for races and other mistakes
    fast: GPUs may use their approximations of functions and fuse multiplications with additions: other bits than
    elsewhere, errors as stated in docs/language.md
    constants: tuning parameters: they go before free names and the keywords of tile iterators
    space: values to try for each tuning parameter; None: nothing is tuned
    """

    tile: tuple[int, ...] | None = None
    shared: int | None = None
    target: str | None = None
    sanitize: bool = False
    fast: bool = False
    constants: Mapping[str, Attribute] = dataclasses.field(default_factory=dict[str, Attribute])
    space: Mapping[str, tuple[Attribute, ...]] | None = None


def read_options(given: Mapping[str, Any]) -> Options:
    """Check a decorator's keywords.  Raises BadKernelOption."""
    known = [field.name for field in dataclasses.fields(Options)]
    for name in given:
        if name not in known:
            raise BadKernelOption(f"a kernel has no option {name!r}", hint=f"the options are {', '.join(known)}")
    options: dict[str, Any] = dict(given)
    if options.get("tile") is not None:
        options["tile"] = _tile(options["tile"])
    shared = options.get("shared")
    if shared is not None and (isinstance(shared, bool) or not isinstance(shared, int)):
        raise BadKernelOption(f"shared is a number of bytes, got {shared!r}", hint="write shared=8 * KiB")
    if not isinstance(options.get("fast", False), bool):
        raise BadKernelOption(f"fast is True or False, got {options['fast']!r}", hint="write fast=True")
    if options.get("target") is not None:
        _check_target(options["target"])
    if options.get("space") is not None:
        space: Space = options.pop("space")
        return with_space(Options(**options), space, {})
    return Options(**options)


def _check_target(name: object) -> None:
    if not isinstance(name, str):
        raise BadKernelOption(f"target is a name, got {name!r}", hint='write target="cpu"')
    if name != "cpu":  # asking for the host's name would load LLVM
        resolve_target(name)


def _tile(value: object) -> tuple[int, ...]:
    try:
        return read_grid(value).blocks
    except BadGrid as error:
        raise BadKernelOption(f"tile: {error.message}", hint="write tile=(128,)") from None


def with_space(options: Options, space: Space | None, more: Mapping[str, Iterable[Attribute]]) -> Options:
    """Return `options` with a space to search.  Raises BadKernelOption for an empty one."""
    merged: dict[str, tuple[Attribute, ...]] = {}
    for name, values in {**(space or {}), **more}.items():
        merged[name] = (values,) if isinstance(values, str | int | float) else tuple(values)
        if not merged[name]:
            raise BadKernelOption(f"no values are given for {name!r}", hint=f"write {name}=[64, 128]")
    if not merged:
        raise BadKernelOption("autotune needs a space", hint="write autotune(space=dict(BM=[64, 128]))")
    return dataclasses.replace(options, space=merged)
