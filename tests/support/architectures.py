"""GPUs that do not exist, for what happens at a limit."""

from dataclasses import replace

import pytest

from tessera.core.targets import TARGETS, Architecture


def limit_shared_memory(patch: pytest.MonkeyPatch, size: int) -> None:
    """Let blocks on sm_90a have `size` bytes of shared memory, and none of its own features."""
    little = Architecture("sm_90a", (9, 0), size, 228 << 10, ptx="+ptx80")
    kind = TARGETS["cuda"]
    patch.setitem(TARGETS, "cuda", replace(kind, architectures={**kind.architectures, "sm_90a": little}))
