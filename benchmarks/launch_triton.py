"""The Triton kernel that `launch.py` compares with."""

import triton
import triton.language as tl


@triton.jit
def saxpy(a, x, y, n, block: tl.constexpr):
    """y = a * x + y."""
    i = tl.program_id(0) * block + tl.arange(0, block)
    mask = i < n
    tl.store(y + i, a * tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)
