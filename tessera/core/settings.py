"""Every setting of Tessera in one place: the only reader of `TESSERA_*` environment variables.

A setting is a field of `Settings`; its environment variable is `TESSERA_` and the field's name in capitals, read once,
when the first setting is asked for.  `configure` changes settings for the process, `overridden` for a `with` block.
"""

import dataclasses
import math
import operator
import os
import threading
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack, cast

from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import BadSetting
from tessera.core.targets import DEFAULT, TARGETS

_PREFIX: Final = "TESSERA_"
_MOST_WORKERS: Final = 4  # each takes 200 MB
_MOST_THREADS: Final = 4096
_MOST_BYTES: Final = 1 << 62
_MOST_LENGTHS: Final = 1 << 16


def _cache_dir() -> Path:
    import platformdirs  # noqa: PLC0415 - only where the directory is not given

    return Path(platformdirs.user_cache_dir("tessera", appauthor=False))


def cores() -> int:
    """Return how many cores this process may use: fewer than the machine has inside a container or under taskset."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, with their defaults.

    cache_dir: where compiled kernels, tuning results and crash reports lie (`TESSERA_CACHE_DIR`)
    cache_bytes: size at which the least recently used compiled kernels go (`TESSERA_CACHE_BYTES`)
    cache: whether the disk cache is used at all (`TESSERA_CACHE`, 0 or 1)
    threads: threads that run the groups of a CPU launch (`TESSERA_THREADS`)
    target: what kernels are compiled for unless they say otherwise: "cpu", "interpret", "cuda" or "cuda_tile"
        (`TESSERA_TARGET`)
    compile_timeout: seconds after which a compilation is given up (`TESSERA_COMPILE_TIMEOUT`)
    workers: compiler processes at most; a second one starts only when the first is busy (`TESSERA_WORKERS`)
    worker_bytes: memory at which a compiler process is replaced after its reply (`TESSERA_WORKER_BYTES`)
    exact_extents: lengths of its arrays that a kernel is compiled for exactly; further ones share code for every length
        up to the next power of two (`TESSERA_EXACT_EXTENTS`)
    progress: whether searches and other long work show how far they are, in notebooks and terminals
        (`TESSERA_PROGRESS`, 0 or 1)
    """

    cache_dir: Path = field(default_factory=_cache_dir)
    cache_bytes: int = 1 << 30
    cache: bool = True
    threads: int = field(default_factory=cores)
    target: str = DEFAULT
    compile_timeout: float = 120.0
    workers: int = field(default_factory=lambda: min(_MOST_WORKERS, cores()))
    worker_bytes: int = 1 << 30
    exact_extents: int = 2
    progress: bool = True

    def __post_init__(self) -> None:
        """Give each setting its own type.  Raises BadSetting."""
        for name, rule in _RULES.items():
            value = getattr(self, name)
            try:
                object.__setattr__(self, name, rule.accept(value))
            except (TypeError, ValueError, OverflowError):
                hint = f"write configure({name}={rule.example!r}), or set {_PREFIX}{name.upper()}"
                raise BadSetting(f"{name} is {value!r}, it must be {rule.wanted}", hint=hint) from None


class SettingArguments(TypedDict, total=False):
    """Changes of settings, as `configure` takes them."""

    cache_dir: str | os.PathLike[str]
    cache_bytes: int
    cache: bool
    threads: int
    target: str
    compile_timeout: float
    workers: int
    worker_bytes: int
    exact_extents: int
    progress: bool


@dataclass(frozen=True, slots=True)
class _Rule:
    """The legal values of one setting.

    read: from the text of an environment variable to a value; raises ValueError
    accept: from any value to one of the setting's own type; raises TypeError, ValueError or OverflowError
    """

    read: Callable[[str], object]
    accept: Callable[[object], object]
    wanted: str
    example: object


def _path(value: object) -> Path:
    text = os.fspath(cast("str | os.PathLike[str]", value))
    if not isinstance(text, str) or not text or "\0" in text:  # pyright: ignore[reportUnnecessaryIsInstance] - bytes
        raise ValueError(value)
    try:
        return Path(text).expanduser().absolute()  # a notebook that changes its folder keeps its cache
    except (RuntimeError, OSError):  # ~name of an unknown user, or a working directory that is gone
        raise ValueError(value) from None


def _integer(lowest: int, highest: int) -> Callable[[object], int]:
    def accept(value: object) -> int:
        if isinstance(value, bool):
            raise TypeError(value)
        number = operator.index(cast("int", value))
        if not lowest <= number <= highest:
            raise ValueError(value)
        return number

    return accept


def _switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(value)
    return value


def _seconds(value: object) -> float:
    if isinstance(value, bool | str):
        raise TypeError(value)
    number = float(cast("float", value))
    if math.isnan(number) or number <= 0:
        raise ValueError(value)
    return min(number, threading.TIMEOUT_MAX)


def _target(value: object) -> str:
    if not isinstance(value, str) or value.partition(":")[0] not in TARGETS:
        raise ValueError(value)
    return str(value)


def _boolean(text: str) -> bool:
    try:
        return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}[text.strip().lower()]
    except KeyError:
        raise ValueError(text) from None


_RULES: Final[dict[str, _Rule]] = {
    "cache_dir": _Rule(str, _path, "a path", "/tmp/tessera"),  # noqa: S108 - an example
    "cache_bytes": _Rule(int, _integer(0, _MOST_BYTES), "a number of bytes, at least 0", 1 << 30),
    "cache": _Rule(_boolean, _switch, "True or False", True),
    "threads": _Rule(int, _integer(1, _MOST_THREADS), f"an integer, at least 1 and at most {_MOST_THREADS}", 4),
    "target": _Rule(str, _target, f"one of {', '.join(TARGETS)}", DEFAULT),
    "compile_timeout": _Rule(float, _seconds, "a number of seconds, more than 0 seconds", 60.0),
    "workers": _Rule(int, _integer(1, _MOST_THREADS), f"an integer, at least 1 and at most {_MOST_THREADS}", 2),
    "worker_bytes": _Rule(int, _integer(0, _MOST_BYTES), "a number of bytes, at least 0", 1 << 30),
    "exact_extents": _Rule(int, _integer(1, _MOST_LENGTHS), "a number of lengths, at least 1", 2),
    "progress": _Rule(_boolean, _switch, "True or False", False),
}


def from_environment(environment: Mapping[str, str]) -> Settings:
    """Read the settings out of `environment`; a value of the wrong form raises BadSetting.

    An empty value is none.  An unknown name that begins with `TESSERA_` may belong to other software, or be a slip: it
    gets a warning.
    """
    found: dict[str, Any] = {}  # each of its setting's own type
    for variable, text in environment.items():
        if not variable.startswith(_PREFIX):
            continue
        name = variable.removeprefix(_PREFIX).lower()
        if name not in _RULES:
            warnings.warn(f"{variable} is no setting of Tessera ({', '.join(_RULES)})", stacklevel=2)
            continue
        if not text:
            continue
        try:
            found[name] = _RULES[name].read(text)
        except ValueError:
            raise BadSetting(f"{variable} is {text!r}, which cannot be read", hint=f"unset {variable}") from None
    return Settings(**found)


class _Holder:
    """The process's settings; None before the first use."""

    lock: threading.Lock = threading.Lock()
    value: Settings | None = None


def current() -> Settings:
    """Return the settings in force."""
    value = _Holder.value
    if value is None:
        with _Holder.lock:
            value = _Holder.value = _Holder.value or from_environment(os.environ)
    return value


def configure(**changes: Unpack[SettingArguments]) -> Settings:
    """Change settings for the whole process and return the new ones; names and meanings as in `Settings`.

    Raises BadSetting, with the place of the call.
    """
    unknown = sorted(set(changes) - set(_RULES))
    if unknown:
        raise at_call(BadSetting(f"{unknown[0]!r} is no setting", hint=f"the settings are {', '.join(_RULES)}"))
    try:
        _Holder.value = dataclasses.replace(current(), **changes)
    except BadSetting as mistake:
        raise at_call(mistake) from None
    return _Holder.value


@contextmanager
def overridden(**changes: Unpack[SettingArguments]) -> Generator[Settings]:
    """Change settings inside the `with`, for the whole process."""
    before = current()
    try:
        yield configure(**changes)
    finally:
        _Holder.value = before
