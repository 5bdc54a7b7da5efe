"""The magic `%tessera`: the doctor, the targets, a kernel's levels and resources, the cache."""

import shlex
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from IPython.core.error import UsageError

import tessera
from tessera.core.resources import ResourceReport
from tessera.core.targets import DEFAULT_ON_GPU, find_kind
from tessera.kernels.kernel import Kernel
from tessera.session.compiled import Compiled
from tessera.session.session import session
from tessera_magics import options, views
from tessera_magics.cell import compilation_of
from tessera_magics.doctor import doctor, shown_path, targets
from tessera_magics.ipython import Shell, show
from tessera_magics.suggestions import suggestion

_MOST_WORDS: Final = {"ir": 2, "resources": 3, "cache": 1, "diff": 2, **dict.fromkeys(views.NAMES, 1)}


def run_command(shell: Shell, line: str) -> object:
    """Run one command and return what is to be displayed.  Raises UsageError for what does not exist."""
    try:
        words = shlex.split(line)
    except ValueError as mistake:
        raise UsageError(f"cannot read the command: {mistake}") from None
    command, *rest = words or ["doctor"]
    commands: dict[str, Callable[..., object]] = {
        "doctor": doctor,
        "ir": lambda *words: _ir(shell.user_ns, *words),
        "resources": lambda *words: _resources(shell.user_ns, *words),
        "targets": targets,
        "cache": _cache,
        "--version": lambda: f"tessera {tessera.__version__}",
        "diff": lambda *words: _diff(shell.user_ns, *words),
        **{name: partial(_view, shell.user_ns, name) for name in views.NAMES},
    }
    if command not in commands:
        hint = suggestion(command, commands)
        raise UsageError(f"%tessera has no command {command!r}{hint} ({', '.join(commands)})")
    most = _MOST_WORDS.get(command, 0)
    if len(rest) > most:
        raise UsageError(f"%tessera {command} takes {f'at most {most} words' if most else 'nothing'} more")
    return commands[command](*rest)


def kernel_names(namespace: Mapping[str, object]) -> list[str]:
    """Return the names of the user's kernels."""
    return sorted(name for name, value in namespace.items() if isinstance(value, Kernel))


def _ir(namespace: Mapping[str, object], name: str = "", level: str = "tile") -> None:
    kernel = _kernel(namespace, name, "ir NAME [LEVEL]")
    wanted = options.levels(level)
    show(compilation_of(kernel, None, wanted), wanted)


def _view(namespace: Mapping[str, object], view: str, name: str = "") -> object:
    """Return a view, which shows itself."""
    return views.views_of(_kernel(namespace, name, f"{view} NAME"), (view,))[0]


def _diff(namespace: Mapping[str, object], first: str = "", second: str = "") -> object:
    """Return the difference of two kernels or compilations, by their names."""
    sides: list[object] = []
    for name in (first, second):
        side = namespace.get(name)
        sides.append(side if isinstance(side, Compiled) else _kernel(namespace, name, "diff A B"))
    return views.function("diff")(*sides)


def _resources(namespace: Mapping[str, object], *words: str) -> ResourceReport:
    """Return the report, which shows itself: as text, and in notebooks as tables."""
    names, target = options.resource_words(words)
    kernel = _kernel(namespace, " ".join(names), "resources NAME [--target TARGET]")
    own = kernel.options.target or ""
    target = target or (own if own and find_kind(own)[0].on_gpu else DEFAULT_ON_GPU)
    return compilation_of(kernel, target, ()).resources()


def _kernel(namespace: Mapping[str, object], name: str, usage: str) -> Kernel:
    kernel = namespace.get(name)
    if not isinstance(kernel, Kernel):
        hint = suggestion(name, kernel_names(namespace))
        raise UsageError(f"there is no kernel {name!r}{hint} (%tessera {usage})")
    return kernel


def _cache(action: str = "info") -> object:
    cache = session().cache
    if cache is None:
        return "the cache is switched off (TESSERA_CACHE)"
    if action == "clear":
        count = cache.clear()
        return f"{count} compiled kernel{'' if count == 1 else 's'} deleted"
    if action != "info":
        hint = suggestion(action, options.CACHE_ACTIONS)
        raise UsageError(f"%tessera cache knows {' and '.join(options.CACHE_ACTIONS)}, not {action!r}{hint}")
    found = cache.statistics()
    size = f"{found.entries} compiled kernels, {found.bytes / 2**20:.1f} of {found.limit / 2**20:.0f} MiB"
    return f"{size}, in {shown_path(found.folder)}; {found.hits} found and {found.misses} missed since the start"
