"""Plain texts that are the same on every machine."""

import re
from typing import Final

from tessera.core.targets import TARGETS

_TARGET: Final = re.compile(r"\b(\w+):[\w.+-]+")


def without_host(text: str) -> str:
    """Return `text` without the name of this machine's processor: `cpu:znver3` is `cpu`; GPUs keep theirs."""

    def shorter(found: re.Match[str]) -> str:
        kind = TARGETS.get(found[1])
        return found[0] if kind is None or kind.on_gpu else found[1]

    return _TARGET.sub(shorter, text)
