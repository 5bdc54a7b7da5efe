"""Ready kernels, written in Tessera itself.

Each function takes arrays of NumPy, PyTorch, CuPy or JAX, makes its output beside them where none is given, checks
shapes and types (OperandMismatch says what does not fit), and launches ordinary Tessera kernels: those of
`tessera.ops.tiles`.  See `ScheduleArguments` for what every one of them can be told besides.
"""

from tessera.ops.attention import flash_attention as flash_attention
from tessera.ops.attention import flash_attention_backward as flash_attention_backward
from tessera.ops.matrix import gemm as gemm
from tessera.ops.recipes.launch_recipe import ScheduleArguments as ScheduleArguments
from tessera.ops.reductions import reduce_max as reduce_max
from tessera.ops.reductions import reduce_min as reduce_min
from tessera.ops.reductions import reduce_sum as reduce_sum
from tessera.ops.rows import layernorm as layernorm
from tessera.ops.rows import rmsnorm as rmsnorm
from tessera.ops.rows import softmax as softmax
from tessera.ops.transposition import transpose as transpose

__all__ = [
    "ScheduleArguments", "flash_attention", "flash_attention_backward", "gemm", "layernorm", "reduce_max", "reduce_min",
    "reduce_sum", "rmsnorm", "softmax", "transpose",
]  # fmt: skip
