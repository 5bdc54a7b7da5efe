"""Ready kernels, written in Tessera itself.

Each function takes arrays of NumPy, PyTorch, CuPy or JAX, makes its output beside them where none is given, checks
shapes and types (OperandMismatch says what does not fit), and launches ordinary Tessera kernels: those of
`tessera.kernels.tiles`.  See `How` for what every one of them can be told besides.
"""

from tessera.kernels.attention import flash_attention as flash_attention
from tessera.kernels.attention import flash_attention_backward as flash_attention_backward
from tessera.kernels.launches import How as How
from tessera.kernels.matrix import gemm as gemm
from tessera.kernels.reductions import reduce_max as reduce_max
from tessera.kernels.reductions import reduce_min as reduce_min
from tessera.kernels.reductions import reduce_sum as reduce_sum
from tessera.kernels.rows import layernorm as layernorm
from tessera.kernels.rows import rmsnorm as rmsnorm
from tessera.kernels.rows import softmax as softmax
from tessera.kernels.transposition import transpose as transpose

__all__ = [
    "How", "flash_attention", "flash_attention_backward", "gemm", "layernorm", "reduce_max", "reduce_min",
    "reduce_sum", "rmsnorm", "softmax", "transpose",
]  # fmt: skip
