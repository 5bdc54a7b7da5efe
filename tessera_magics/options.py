"""The options of `%%tessera` and the commands of `%tessera`: reading them, suggesting, completing."""

import shlex
from collections.abc import Iterable, Sequence
from typing import Final

from IPython.core.error import UsageError

from tessera.core.targets import TARGETS, every_level, find_kind
from tessera_magics import views
from tessera_magics.suggestions import suggestion

OPTIONS: Final = ("--target", "--show", "--view", "--name", "--time", "--sanitize", "--out")
COMMANDS: Final = ("doctor", "ir", "diff", *views.NAMES, "resources", "targets", "cache", "--version")
CACHE_ACTIONS: Final = ("info", "clear")
_TARGET: Final = "--target"


def target_name(text: str) -> str:
    """Check a target: `cpu`, `interpret`, `cuda` or `cuda_tile`, or `cuda:` or `cuda_tile:` and an architecture.

    Raises UsageError.
    """
    name, _, arch = text.partition(":")
    if name not in TARGETS:
        raise UsageError(f"there is no target {text!r}{suggestion(name, TARGETS)} (targets: {', '.join(TARGETS)})")
    there = tuple(TARGETS[name].architectures)
    if arch and arch not in there:
        known = f" (architectures: {', '.join(there)})" if there else ""
        raise UsageError(f"{name} has no architecture {arch!r}{suggestion(arch, there)}{known}")
    return text


def levels(text: str) -> tuple[str, ...]:
    """Check a list of levels, separated by commas.  Raises UsageError."""
    known = every_level()
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in known:
            raise UsageError(f"there is no level {name!r}{suggestion(name, known)} (levels: {', '.join(known)})")
    if not names:
        raise UsageError(f"--show needs a level: {', '.join(known)}")
    return names


def python_name(text: str) -> str:
    """Check that `text` can name a variable.  Raises UsageError."""
    if not text.isidentifier():
        raise UsageError(f"{text!r} cannot be the name of a variable")
    return text


def check_options(line: str) -> None:
    """Refuse options that do not exist, with the right name suggested, before argparse words it its own way."""
    try:
        words = shlex.split(line, comments=False)
    except ValueError as mistake:
        raise UsageError(f"cannot read the options: {mistake}") from None
    for word in words:
        option = word.partition("=")[0]
        if option.startswith("-") and not any(known.startswith(option) for known in OPTIONS):
            raise UsageError(f"%%tessera has no option {option}{suggestion(option, OPTIONS)} ({', '.join(OPTIONS)})")


def resource_words(words: Sequence[str]) -> tuple[list[str], str | None]:
    """Check the words after `%tessera resources`: gives those that are no option, and the target asked for.

    Raises UsageError.
    """
    rest, target = list(words), None
    for word in words:
        option, _, value = word.partition("=")
        if not option.startswith("-"):
            continue
        if option != _TARGET:
            raise UsageError(f"%tessera resources has no option {option}{suggestion(option, [_TARGET])} ({_TARGET})")
        place = rest.index(word)
        given = [value] if value else rest[place + 1 : place + 2]
        if not given or target is not None:
            raise UsageError(f"%tessera resources needs one target after {_TARGET}")
        target = _gpu_name(given[0])
        del rest[place : place + 1 + (not value)]
    return rest, target


def _gpu_name(text: str) -> str:
    if not find_kind(target_name(text))[0].on_gpu:
        raise UsageError(f"{text} is no GPU, whose resources could be told (targets: {', '.join(_gpu_targets())})")
    return text


def complete_cell(line: str) -> list[str]:
    """Return completions for the first line of a cell, `%%tessera ...` up to the cursor."""
    words = line.split()
    current = "" if line.endswith(" ") else words.pop()
    before = words[-1] if words else ""
    if before == _TARGET:
        return _starting((*TARGETS, *_with_architectures()), current)
    if before == "--show":
        done, comma, part = current.rpartition(",")
        return [done + comma + level for level in _starting(every_level(), part)]
    if before == "--view":
        done, comma, part = current.rpartition(",")
        return [done + comma + name for name in _starting((*views.NAMES, *views.ALIASES), part)]
    return [option for option in _starting(OPTIONS, current) if option not in words]


def complete_line(line: str, kernels: Iterable[str]) -> list[str]:
    """Return completions for `%tessera ...` up to the cursor; `kernels` are the names of kernels the user has."""
    words = line.split()[1:]
    current = "" if line.endswith(" ") or not words else words.pop()
    if not words:
        return _starting(COMMANDS, current)
    if words[0] == "cache":
        return _starting(CACHE_ACTIONS, current) if len(words) == 1 else []
    if words[0] == "ir":
        return _starting(sorted(kernels), current) if len(words) == 1 else _starting(every_level(), current)
    if words[0] == "diff" or words[0] in views.NAMES:
        most = 2 if words[0] == "diff" else 1
        return _starting(sorted(kernels), current) if len(words) <= most else []
    if words[0] == "resources":
        return _complete_resources(words[1:], current, kernels)
    return []


def _complete_resources(before: Sequence[str], current: str, kernels: Iterable[str]) -> list[str]:
    if before and before[-1] == _TARGET:
        return _starting(_gpu_targets(), current)
    named = any(word in kernels for word in before)
    return _starting([*([] if named else sorted(kernels)), *([] if _TARGET in before else [_TARGET])], current)


def _with_architectures() -> tuple[str, ...]:
    return tuple(f"{name}:{a}" for name, kind in TARGETS.items() for a in kind.architectures)


def _gpu_targets() -> tuple[str, ...]:
    return tuple(name for name in (*TARGETS, *_with_architectures()) if find_kind(name)[0].on_gpu)


def _starting(names: Iterable[str], start: str) -> list[str]:
    return [name for name in names if name.startswith(start)]
