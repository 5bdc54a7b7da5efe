"""Every setting of Tessera in one place: the only reader of `TESSERA_*` environment variables.

A setting is a field of `Settings`; its environment variable is `TESSERA_` and the field's name in capitals, read once,
when the first setting is asked for.  `configure` changes settings for the process, `overridden` for a `with` block.
"""

import dataclasses
import os
import threading
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tessera.core.mistakes import BadSetting

_PREFIX: Final = "TESSERA_"
_MOST_WORKERS: Final = 4  # each takes 200 MB
TARGETS: Final = ("cpu", "interpret", "cuda", "cuda_tile")


def _cache_dir() -> Path:
    import platformdirs  # noqa: PLC0415 - only where the directory is not given

    return Path(platformdirs.user_cache_dir("tessera", appauthor=False))


def _cores() -> int:
    """Cores this process may use: fewer than the machine has inside a container or under taskset."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Settings:
    """What can be set.

    cache_dir: where compiled kernels, tuning results and crash reports lie (`TESSERA_CACHE_DIR`)
    cache_bytes: size at which the least recently used compiled kernels go (`TESSERA_CACHE_BYTES`)
    cache: whether the disk cache is used at all (`TESSERA_CACHE`, 0 or 1)
    threads: threads that run the groups of a CPU launch (`TESSERA_THREADS`)
    target: what kernels are compiled for unless they say otherwise: "cpu", "interpret", "cuda" or "cuda_tile"
        (`TESSERA_TARGET`)
    compile_timeout: seconds after which a compilation is given up (`TESSERA_COMPILE_TIMEOUT`)
    workers: compiler processes at most; a second one starts only when the first is busy (`TESSERA_WORKERS`)
    worker_bytes: memory at which a compiler process is replaced after its reply (`TESSERA_WORKER_BYTES`)
    """

    cache_dir: Path = field(default_factory=_cache_dir)
    cache_bytes: int = 1 << 30
    cache: bool = True
    threads: int = field(default_factory=_cores)
    target: str = "cpu"
    compile_timeout: float = 120.0
    workers: int = field(default_factory=lambda: min(_MOST_WORKERS, _cores()))
    worker_bytes: int = 1 << 30

    def __post_init__(self) -> None:
        _check(self.target.partition(":")[0] in TARGETS, "target", self.target, f"one of {', '.join(TARGETS)}")
        _check(self.threads >= 1, "threads", self.threads, "at least 1")
        _check(self.workers >= 1, "workers", self.workers, "at least 1")
        _check(self.cache_bytes >= 0, "cache_bytes", self.cache_bytes, "at least 0")
        _check(self.compile_timeout > 0, "compile_timeout", self.compile_timeout, "more than 0 seconds")


def _check(legal: bool, name: str, value: object, wanted: str) -> None:
    if not legal:
        raise BadSetting(f"{name} is {value!r}, it must be {wanted}", hint=f"change {_PREFIX}{name.upper()}")


def _boolean(text: str) -> bool:
    try:
        return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}[text.strip().lower()]
    except KeyError:
        raise ValueError(text) from None


_PARSERS: Final[dict[str, Callable[[str], object]]] = {
    "cache_dir": lambda text: Path(text).expanduser(),
    "cache_bytes": int,
    "cache": _boolean,
    "threads": int,
    "target": str,
    "compile_timeout": float,
    "workers": int,
    "worker_bytes": int,
}


def from_environment(environment: Mapping[str, str]) -> Settings:
    """Read the settings out of `environment`; a value of the wrong form raises BadSetting.

    An unknown name that begins with `TESSERA_` may belong to other software, or be a slip: it gets a warning.
    """
    found: dict[str, Any] = {}
    for variable, text in environment.items():
        if not variable.startswith(_PREFIX):
            continue
        name = variable.removeprefix(_PREFIX).lower()
        if name not in _PARSERS:
            warnings.warn(f"{variable} is no setting of Tessera ({', '.join(_PARSERS)})", stacklevel=2)
            continue
        try:
            found[name] = _PARSERS[name](text)
        except ValueError:
            raise BadSetting(f"{variable} is {text!r}, which cannot be read", hint=f"unset {variable}") from None
    return Settings(**found)


class _Holder:
    """The process's settings; None until somebody asks."""

    lock: threading.Lock = threading.Lock()
    value: Settings | None = None


def current() -> Settings:
    """Return the settings in force."""
    value = _Holder.value
    if value is None:
        with _Holder.lock:
            value = _Holder.value = _Holder.value or from_environment(os.environ)
    return value


def configure(**changes: Any) -> Settings:
    """Change settings for the whole process and return the new ones; names and meanings as in `Settings`."""
    unknown = sorted(set(changes) - set(_PARSERS))
    if unknown:
        raise BadSetting(f"{unknown[0]!r} is no setting", hint=f"the settings are {', '.join(_PARSERS)}")
    _Holder.value = dataclasses.replace(current(), **changes)
    return _Holder.value


@contextmanager
def overridden(**changes: Any) -> Generator[Settings]:
    """Change settings inside the `with`, for the whole process."""
    before = current()
    try:
        yield configure(**changes)
    finally:
        _Holder.value = before
