"""`tessera.op`: the operators, on arrays of any library at once, or captured in a graph.

    from tessera import op, graph

    @graph.module("attention")
    def attention(Q, K, V):
        return op.matmul(op.softmax(op.matmul(Q, K.T)), V)

An operator on arrays is a graph of its own, compiled once for each kind of operands.
"""

from typing import NoReturn

from tessera.graphs.custom import custom
from tessera.ops.collectives import (
    all_gather,
    all_reduce,
    all_to_all,
    broadcast,
    check_replicas,
    permute,
    reduce_scatter,
    send_recv,
)
from tessera.ops.definitions.arrays import (
    arange,
    argmax,
    at,
    broadcast_to,
    concat,
    full,
    gather,
    mean,
    one_hot,
    ones,
    pad,
    reshape,
    split,
    stack,
    take_along_axis,
    transpose,
    var,
    zeros,
)
from tessera.ops.definitions.arrays import (
    max_ as max,  # noqa: A004 - as NumPy calls it
)
from tessera.ops.definitions.arrays import (
    min_ as min,  # noqa: A004
)
from tessera.ops.definitions.arrays import (
    sum_ as sum,  # noqa: A004
)
from tessera.ops.definitions.complex_arrays import Complex
from tessera.ops.definitions.control import cond, scan, while_
from tessera.ops.definitions.decompositions import cholesky, svd, triangular_solve
from tessera.ops.definitions.elementwise import (
    absolute as abs,  # noqa: A004
)
from tessera.ops.definitions.elementwise import (
    ceil,
    clip,
    cos,
    erf,
    exp,
    exp2,
    floor,
    gelu,
    log,
    log2,
    maximum,
    minimum,
    relu,
    rsqrt,
    sigmoid,
    sign,
    silu,
    sin,
    softplus,
    sqrt,
    square,
    stop_gradient,
    tanh,
    trunc,
    where,
)
from tessera.ops.definitions.elementwise import (
    round_ as round,  # noqa: A004
)
from tessera.ops.definitions.linear import (
    einsum,
    gemm,
    matmul,
)
from tessera.ops.definitions.networks import (
    adam,
    adamw,
    cross_entropy,
    embedding,
    flash_attention,
    join_heads,
    layernorm,
    layernorm_safe,
    log_softmax,
    logsumexp,
    mse,
    rmsnorm,
    rmsnorm_safe,
    rotary,
    sgd,
    softmax,
    softmax_safe,
    split_qkv,
)
from tessera.ops.definitions.quantization import cast, dequantize, quantize
from tessera.ops.definitions.random import (
    dropout,
    fold_in,
    key,
    poisson,
    randn,
    random_bits,
    split_key,
    uniform,
)
from tessera.ops.definitions.sparse import spmm
from tessera.ops.definitions.spectral import fft, fft2d, ifft, ifft2d, rfft
from tessera.ops.definitions.sums import cumsum, scatter_add
from tessera.ops.images.convolution import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from tessera.ops.images.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from tessera.ops.images.resampling import interpolate
from tessera.ops.other_names import operator_hint

__all__ = [
    "Complex",
    "abs",
    "adam",
    "adamw",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "arange",
    "argmax",
    "at",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "broadcast",
    "broadcast_to",
    "cast",
    "ceil",
    "check_replicas",
    "cholesky",
    "clip",
    "concat",
    "cond",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cos",
    "cross_entropy",
    "cumsum",
    "custom",
    "dequantize",
    "dropout",
    "einsum",
    "embedding",
    "erf",
    "exp",
    "exp2",
    "fft",
    "fft2d",
    "flash_attention",
    "floor",
    "fold_in",
    "full",
    "gather",
    "gelu",
    "gemm",
    "ifft",
    "ifft2d",
    "interpolate",
    "join_heads",
    "key",
    "layernorm",
    "layernorm_safe",
    "log",
    "log2",
    "log_softmax",
    "logsumexp",
    "matmul",
    "max",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "maximum",
    "mean",
    "min",
    "minimum",
    "mse",
    "one_hot",
    "ones",
    "pad",
    "permute",
    "poisson",
    "quantize",
    "randn",
    "random_bits",
    "reduce_scatter",
    "relu",
    "reshape",
    "rfft",
    "rmsnorm",
    "rmsnorm_safe",
    "rotary",
    "round",
    "rsqrt",
    "scan",
    "scatter_add",
    "send_recv",
    "sgd",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "softmax",
    "softmax_safe",
    "softplus",
    "split",
    "split_key",
    "split_qkv",
    "spmm",
    "sqrt",
    "square",
    "stack",
    "stop_gradient",
    "sum",
    "svd",
    "take_along_axis",
    "tanh",
    "transpose",
    "triangular_solve",
    "trunc",
    "uniform",
    "var",
    "where",
    "while_",
    "zeros",
]


def __getattr__(name: str) -> NoReturn:
    """Raise AttributeError for a name that is no operator, with the operator that may be meant."""
    raise AttributeError(f"tessera.op has no operator {name!r}{operator_hint(name, __all__)}", name=name)
