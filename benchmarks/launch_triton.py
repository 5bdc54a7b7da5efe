"""The Triton kernel that `launch.py` compares with."""

# Libraries of GPUs are not installed where types are checked: what comes from them is unknown.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUntypedFunctionDecorator=false
# Triton has no types for the parameters of kernels.
# pyright: reportMissingParameterType=false

import triton
import triton.language as tl


@triton.jit
def saxpy(a, x, y, n, block: tl.constexpr):
    """y = a * x + y."""
    i = tl.program_id(0) * block + tl.arange(0, block)
    mask = i < n
    tl.store(y + i, a * tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)
