"""Plain texts: short, and the same on every machine."""

import re
from collections.abc import Sequence
from typing import Final, TypeVar

from tessera.core.targets import TARGETS

T = TypeVar("T")
_TARGET: Final = re.compile(r"\b(\w+):[\w.+-]+")


def without_host(text: str) -> str:
    """Return `text` without the name of this machine's processor: `cpu:znver3` is `cpu`; GPUs keep theirs."""

    def shorter(found: re.Match[str]) -> str:
        kind = TARGETS.get(found[1])
        return found[0] if kind is None or kind.on_gpu else found[1]

    return _TARGET.sub(shorter, text)


def largest(rows: Sequence[T], sizes: Sequence[int], most: int) -> list[T]:
    """Return at most `most` of `rows`: those of the greatest sizes, of equal ones the first; in their own order.

    sizes: one for each row
    """
    chosen = sorted(range(len(rows)), key=lambda number: -sizes[number])[:most]
    return [rows[number] for number in sorted(chosen)]
