"""`tessera.op`: the operators, on arrays of any library at once, or captured in a graph.

    from tessera import op, graph

    @graph.module("attention")
    def attention(Q, K, V):
        return op.matmul(op.softmax(op.matmul(Q, K.T)), V)

An operator on arrays is a graph of its own, compiled once for each kind of operands.
"""

from typing import NoReturn

from tessera.core.arrays.array_methods import OPERATORS
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
from tessera.ops.definitions.arithmetic import (
    copysign,
    floor_divide,
    fmax,
    fmin,
    fmod,
    heaviside,
    hypot,
    isfinite,
    isinf,
    isnan,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    mod,
    nan_to_num,
    power,
    reciprocal,
    remainder,
    signbit,
    tan,
)
from tessera.ops.definitions.arrays import (
    arange,
    at,
    broadcast_to,
    concat,
    full,
    gather,
    one_hot,
    ones,
    pad,
    reshape,
    split,
    stack,
    take_along_axis,
    transpose,
    zeros,
)
from tessera.ops.definitions.complex_arrays import Complex
from tessera.ops.definitions.control import cond, scan, while_
from tessera.ops.definitions.decompositions import cholesky, svd, triangular_solve
from tessera.ops.definitions.einsum import einsum
from tessera.ops.definitions.elementwise import (
    absolute,
    ceil,
    clip,
    cos,
    erf,
    exp,
    exp2,
    floor,
    log,
    log2,
    maximum,
    minimum,
    rsqrt,
    sign,
    sin,
    sqrt,
    square,
    stop_gradient,
    tanh,
    trunc,
    where,
)
from tessera.ops.definitions.elementwise import (
    absolute as abs,  # noqa: A004
)
from tessera.ops.definitions.elementwise import (
    round_ as round,  # noqa: A004
)
from tessera.ops.definitions.exponentials import (
    cbrt,
    cosh,
    expm1,
    log1p,
    log10,
    logaddexp,
    logaddexp2,
    sinh,
)
from tessera.ops.definitions.linear import gemm, linear, matmul
from tessera.ops.definitions.products import cumprod, prod
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
from tessera.ops.definitions.rearranging import (
    expand_dims,
    flatten,
    flip,
    moveaxis,
    outer,
    repeat,
    roll,
    squeeze,
    swapaxes,
    tile,
    tril,
    triu,
    unfold,
)
from tessera.ops.definitions.reductions import (
    all_ as all,  # noqa: A004
)
from tessera.ops.definitions.reductions import (
    any_ as any,  # noqa: A004
)
from tessera.ops.definitions.reductions import (
    argmax,
    argmin,
    count_nonzero,
    mean,
    std,
    var,
)
from tessera.ops.definitions.reductions import (
    max_ as max,  # noqa: A004 - as NumPy calls it
)
from tessera.ops.definitions.reductions import (
    min_ as min,  # noqa: A004
)
from tessera.ops.definitions.reductions import (
    sum_ as sum,  # noqa: A004
)
from tessera.ops.definitions.sorting import argsort, sort, top_k
from tessera.ops.definitions.sparse import spmm
from tessera.ops.definitions.spectral import fft, fft2d, ifft, ifft2d, rfft
from tessera.ops.definitions.sums import cumsum, scatter_add
from tessera.ops.elementary.inverse_hyperbolic import arccosh, arcsinh, arctanh
from tessera.ops.elementary.inverse_trigonometric import arccos, arcsin, arctan, arctan2, degrees, radians
from tessera.ops.elementary.universal import (
    acos,
    acosh,
    add,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_and,
    bitwise_count,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_not,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    conj,
    conjugate,
    deg2rad,
    divide,
    equal,
    fabs,
    float_power,
    frexp,
    gcd,
    greater,
    greater_equal,
    invert,
    lcm,
    ldexp,
    left_shift,
    less,
    less_equal,
    matvec,
    modf,
    multiply,
    negative,
    nextafter,
    not_equal,
    positive,
    rad2deg,
    right_shift,
    rint,
    spacing,
    subtract,
    true_divide,
    vecdot,
    vecmat,
)
from tessera.ops.elementary.universal import (
    divmod_ as divmod,  # noqa: A004
)
from tessera.ops.elementary.universal import (
    pow_ as pow,  # noqa: A004
)
from tessera.ops.images.convolution import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from tessera.ops.images.patches import im2col
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
from tessera.ops.networks.activations import (
    celu,
    elu,
    gelu,
    glu,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    log_sigmoid,
    mish,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    softplus,
    softsign,
)
from tessera.ops.networks.functional import (
    adam,
    adamw,
    cross_entropy,
    embedding,
    flash_attention,
    join_heads,
    log_softmax,
    logsumexp,
    mse,
    rotary,
    sgd,
    softmax,
    softmax_safe,
    split_qkv,
)
from tessera.ops.networks.normalization import (
    batch_norm,
    group_norm,
    instance_norm,
    layernorm,
    layernorm_safe,
    normalize,
    rmsnorm,
    rmsnorm_safe,
)
from tessera.ops.other_names import operator_hint

__all__ = [  # noqa: RUF022 - in the order of their letters, in which digits come first
    "Complex", "abs", "absolute", "acos", "acosh", "adam", "adamw", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
    "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "add", "all",
    "all_gather", "all_reduce", "all_to_all", "any", "arange", "arccos", "arccosh", "arcsin", "arcsinh", "arctan",
    "arctan2", "arctanh", "argmax", "argmin", "argsort", "asin", "asinh", "at", "atan", "atan2", "atanh", "avg_pool1d",
    "avg_pool2d", "avg_pool3d", "batch_norm", "bitwise_and", "bitwise_count", "bitwise_invert", "bitwise_left_shift",
    "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "broadcast", "broadcast_to", "cast", "cbrt",
    "ceil", "celu", "check_replicas", "cholesky", "clip", "concat", "cond", "conj", "conjugate", "conv1d", "conv2d",
    "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "copysign", "cos", "cosh", "count_nonzero",
    "cross_entropy", "cumprod", "cumsum", "custom", "deg2rad", "degrees", "dequantize", "divide", "divmod", "dropout",
    "einsum", "elu", "embedding", "equal", "erf", "exp", "exp2", "expand_dims", "expm1", "fabs", "fft", "fft2d",
    "flash_attention", "flatten", "flip", "float_power", "floor", "floor_divide", "fmax", "fmin", "fmod", "fold_in",
    "frexp", "full", "gather", "gcd", "gelu", "gemm", "glu", "greater", "greater_equal", "group_norm", "hardsigmoid",
    "hardswish", "hardtanh", "heaviside", "hypot", "ifft", "ifft2d", "im2col", "instance_norm", "interpolate", "invert",
    "isfinite", "isinf", "isnan", "join_heads", "key", "layernorm", "layernorm_safe", "lcm", "ldexp", "leaky_relu",
    "left_shift", "less", "less_equal", "linear", "log", "log10", "log1p", "log2", "log_sigmoid", "log_softmax",
    "logaddexp", "logaddexp2", "logical_and", "logical_not", "logical_or", "logical_xor", "logsumexp", "matmul",
    "matvec", "max", "max_pool1d", "max_pool2d", "max_pool3d", "maximum", "mean", "min", "minimum", "mish", "mod",
    "modf", "moveaxis", "mse", "multiply", "nan_to_num", "negative", "nextafter", "normalize", "not_equal", "one_hot",
    "ones", "outer", "pad", "permute", "poisson", "positive", "pow", "power", "prod", "quantize", "rad2deg", "radians",
    "randn", "random_bits", "reciprocal", "reduce_scatter", "relu", "relu6", "remainder", "repeat", "reshape", "rfft",
    "right_shift", "rint", "rmsnorm", "rmsnorm_safe", "roll", "rotary", "round", "rsqrt", "scan", "scatter_add", "selu",
    "send_recv", "sgd", "sigmoid", "sign", "signbit", "silu", "sin", "sinh", "softmax", "softmax_safe", "softplus",
    "softsign", "sort", "spacing", "split", "split_key", "split_qkv", "spmm", "sqrt", "square", "squeeze", "stack",
    "std", "stop_gradient", "subtract", "sum", "svd", "swapaxes", "take_along_axis", "tan", "tanh", "tile", "top_k",
    "transpose", "triangular_solve", "tril", "triu", "true_divide", "trunc", "unfold", "uniform", "var", "vecdot",
    "vecmat", "where", "while_", "zeros",
]  # fmt: skip

OPERATORS.update({name: globals()[name] for name in __all__})


def __getattr__(name: str) -> NoReturn:
    """Raise AttributeError for a name that is no operator, with the operator that may be meant."""
    raise AttributeError(f"tessera.op has no operator {name!r}{operator_hint(name, __all__)}", name=name)
