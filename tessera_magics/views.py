"""The views of `%%tessera --view NAME` and `%tessera NAME KERNEL`: what each is made of, and making it."""

import importlib
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final

from IPython.core.error import UsageError

import tessera
from tessera import viz
from tessera.core.progress import working
from tessera_magics.suggestions import suggestion

if TYPE_CHECKING:
    from tessera.kernels.kernel import Kernel


class Needs(Enum):
    """Input of the function of a view."""

    KERNEL = "the kernel"
    ARGUMENTS = "the kernel and arguments like those of its last call"
    PROFILE = "a profile of the kernel on such arguments"


_NEEDS: Final[Mapping[str, Needs]] = {
    "explore": Needs.KERNEL,
    "film": Needs.KERNEL,
    "dataflow": Needs.KERNEL,
    "layout": Needs.KERNEL,
    "dashboard": Needs.KERNEL,
    "tiles": Needs.ARGUMENTS,
    "schedule": Needs.ARGUMENTS,
    "workbench": Needs.ARGUMENTS,
    "timeline": Needs.PROFILE,
    "heatmap": Needs.PROFILE,
    "roofline": Needs.PROFILE,
    "explain": Needs.PROFILE,
}
NAMES: Final = tuple(name for name in _NEEDS if name in viz.__all__)
"""Views of one kernel, by the name of their function in `tessera.viz`."""
ALIASES: Final[Mapping[str, str]] = {"explorer": "explore"}
"""Names of views that differ from that of the function."""


def view_names(text: str) -> tuple[str, ...]:
    """Check a list of views, separated by commas.  Raises UsageError."""
    names = tuple(ALIASES.get(name.strip(), name.strip()) for name in text.split(",") if name.strip())
    for name in names:
        if name not in NAMES:
            raise UsageError(f"there is no view {name!r}{suggestion(name, NAMES)} (views: {', '.join(NAMES)})")
    if not names:
        raise UsageError(f"--view needs a view: {', '.join(NAMES)}")
    return names


def views_of(kernel: "Kernel", names: Iterable[str]) -> list[object]:
    """Return the views `names` of a kernel; it is profiled once for all that need that.

    Raises NotCalledYet for views that run the kernel, when it had no call.
    """
    given: dict[Needs, tuple[object, ...]] = {Needs.KERNEL: (kernel,)}
    found: list[object] = []
    names = tuple(names)
    with working(f"views of {kernel.source.name}", len(names)) as task:
        for name in names:
            task.step(len(found), name)
            needs = _NEEDS[name]
            if needs not in given:
                made = importlib.import_module("tessera.kernels.like_last_call").arguments_like_last_call(kernel)
                arguments: tuple[object, ...] = made
                given[Needs.ARGUMENTS] = (kernel, *arguments)
                if needs is Needs.PROFILE:
                    given[Needs.PROFILE] = (tessera.profile(kernel)(*arguments),)
            found.append(function(name)(*given[needs]))
    return found


def function(name: str) -> Callable[..., object]:
    """Return a public function of `tessera.viz`."""
    made: Callable[..., object] = getattr(viz, name)
    return made
