"""The launch that a profile came from: what predictions, advice and trials of it ask for beside the figures."""

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.work import Shape
from tessera.kernels.kernel import Kernel
from tessera.runtime.arrays.host import is_array
from tessera.runtime.binding.grid import Grid
from tessera.session.compiled import Compiled


class ArgumentReferences:
    """The arguments of a call, arrays held weakly: a profile that is kept must not keep gigabytes with it."""

    def __init__(self, values: Sequence[object]) -> None:
        self._held: Final[tuple[Callable[[], object], ...]] = tuple(map(_reference, values))

    def values(self) -> tuple[object, ...] | None:
        """Return the arguments; None where an array is gone."""
        found = tuple(held() for held in self._held)
        gone = any(value is None for value, held in zip(found, self._held, strict=True) if not isinstance(held, _Kept))
        return None if gone else found


@dataclass(frozen=True, slots=True)
class _Kept:
    """A value that is held for good: a number."""

    value: object

    def __call__(self) -> object:
        """Return it."""
        return self.value


def _reference(value: object) -> Callable[[], object]:
    if not is_array(value):
        return _Kept(value)
    try:
        return weakref.ref(value)
    except TypeError:  # an array of a library whose objects know no weak references
        return _Kept(value)


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """One profiled launch.

    compiled: what was launched, a phase where a call is several launches; shape: the size of the launch
    kernel, arguments, grid: of the call, whichever phase this is
    """

    compiled: Compiled
    shape: Shape
    kernel: Kernel
    arguments: ArgumentReferences
    grid: Grid | None = None
