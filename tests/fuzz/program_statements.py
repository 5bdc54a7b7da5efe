"""The statements of random programs, as templates: {f} {g} floats, {i} integers, {b} bools, {c} a number, {a} an axis."""

from typing import Final

from support.closure_programs import TERMS

_ARITHMETIC: Final = (
    "{f} + {g}", "{f} - {g}", "{f} * {g}", "{f} * {c}", "{c} - {f}", "{f} / (abs({g}) + 1)", "{f} + {c}", "{c} * {f}",
    "{f} ** 2", "2 ** {f}", "{f} // 0.75", "{f} % 1.5", "1.5 % ({f} * {f} + 0.5)", "-{f}", "abs({f})", "{f} * True", "{f} @ p['w']",
    "op.maximum({f}, {c})", "op.minimum({g}, {f})", "op.hypot({f}, {g})", "op.copysign({f}, {c})", "op.logaddexp({f}, {g})", "op.arctan2({f}, {g})", "op.fmax({f}, {c})", "op.fmod({f}, 1.5)", "op.logaddexp2({f}, {c})", "op.arctan({c}) * {f}",
    "op.maximum({f}, np.float64(0.1))", "{f} / 3", "{f} * p['b']", "{f} + p['layers'][n - 1]", "{f}.clip(-1, {c})",
    "op.clip({f}, None, 0.5)", "op.clip({f}, -0.25)", "op.power(abs({f}) + 0.1, {c})", "op.exp({c}) * {f}", "op.sqrt(2) * {f}",
)  # fmt: skip
_FUNCTIONS: Final = (
    *(f"op.{name}({{f}})" for name in (
        "exp", "tanh", "sin", "cos", "sigmoid", "silu", "gelu", "relu", "softplus", "mish", "elu", "leaky_relu", "hardswish",
        "relu6", "softsign", "square", "erf", "sinh", "cosh", "expm1", "sign", "floor", "round", "ceil", "trunc", "exp2",
    )),
    "op.arctan({f})", "op.arcsin(op.tanh({f}))", "op.arccos({f} / (abs({f}) + 1))", "op.arcsinh({f})", "op.arccosh(abs({f}) + 1.5)",
    "op.arctanh({f} / (abs({f}) + 1.5))", "op.cbrt({f})", "op.radians({f})", "op.signbit({f})", "op.heaviside({f}, {c})",
    "op.log(abs({f}) + 0.5)", "op.rsqrt({f} * {f} + 1)", "op.sqrt(abs({f}) + 0.1)", "op.log1p(abs({f}))",
    "op.tan({f} * 0.3)", "op.reciprocal(abs({f}) + 1)", "op.log2(abs({f}) + 1)", "op.log10({f} * {f} + 2)",
)  # fmt: skip
_CLOSURES: Final = (
    *(f"(lambda v: {term})({{f}})" for term in TERMS if "lambda" not in term),
    "layer({f}) + layer.bend({g})", "[f for f in activations.values()][0]({f})", "sum([{f} * k for k in range(n + 1)])",
    "{f} if rate else {g}", "{f} * 2 if n > 1 else {f} - 1", "{f} @ np.diag(steps.repeat(2))", "single * {f}",
)  # fmt: skip
_INDICES: Final = (
    "{f}[0]", "{f}[-1]", "{f}[..., {k}]", "{f}[:, {k}]", "{f}[1:]", "{f}[:, ::-1]", "{f}[..., ::2]", "{f}[:, None]", "{f}[..., [0, -1]]",
    "{f}[[1, 0, 1]]", "{f}[y + 0]", "{f}[:, y + 0]", "{f}[op.arange({f}.shape[0]), y + 0]".replace("{f}", "x"), "{f}[{i} + 0]", "{f}[:, {i} + 0]",
    "op.gather({f}, {i} + 0, {a})", "op.gather({f}, y + 2, 1)", "op.take_along_axis({f}, op.argsort({f}, -1), -1)", "{f}[..., np.array([2, 0])]",
    "op.take_along_axis({f}, (y % 3)[:, None, None], 1)", "{f}[0, {k}]", "{f}[{k}:]", "{f}[:, :n]", "{f}[..., n]", "p['w'][y + 0]",
    "p['w'][[n, 0]]", "{f}[op.arange(2)]", "{f}[..., {k}:][..., :1]", "{f}[tuple([0, 1])]", "{f}[slice(None, None, 2)]",
)  # fmt: skip
_UPDATES: Final = (
    "{f}.at[0].set(0.5)", "{f}.at[-1].add({c})", "{f}.at[:, 1].set({c})", "{f}.at[..., 1:3].multiply(2.0)", "{f}.at[y + 0].add(1.0)",
    "{f}.at[:, {k}].max({g}[0, 0])", "{f}.at[1:].add({f}[:-1])", "{f}.at[[0, 1, 0]].add({c})", "{f}.at[{i} + 0].min(0.25)",
    "{f}.at[:, y + 0].add({c})", "{f}.at[::2].set({f}[::2] * 3)", "{f}.at[..., 0].set({f}[..., -1])", "{f}.at[0, {k}].set(p['b'])",
    "{f}.at[:, 0].set(single)", "op.at(p['w'])[n].set(p['b'])", "{f}.at[..., -1].min({c})", "{f}.at[{k}].multiply(rate)",
    "op.scatter_add({f}, y % 2, {f}, 0)",
)  # fmt: skip
_REDUCTIONS: Final = (
    "op.sum({f}, {a})", "{f}.sum()", "op.mean({f}, {a}, keepdims=True)", "{f}.max(axis={a})", "op.var({f}, {a})", "op.std({f}, {a}, ddof=1)",
    "op.prod({f} * 0.5 + 1, {a})", "op.cumsum({f}, {a})", "op.cumprod({f} * 0.2 + 1, {a})", "op.min({f}, (0, -1))", "{f}.mean((0, 1))",
    "op.logsumexp({f}, {a})", "op.softmax({f}, {a})", "op.log_softmax({f})", "op.argmax({f}, {a})", "op.argmin({f}, {a})",
    "op.any({f} > 1, {a})", "op.all({b}, {a})", "op.count_nonzero({b}, {a})", "op.sort({f}, {a})", "op.sort({f}, {a}, descending=True)",
    "op.top_k({f}, 2).values", "op.top_k({f}, 2).indices", "op.argsort({f}, {a})", "op.sum({b}, {a})", "op.sum({i})", "op.max({i}, 0)",
    "op.sum({f}, (-1, 0), keepdims=True)", "op.mse({f}, {g})", "op.cross_entropy({f}, abs(y)) if {f}.ndim == 2 else {f}",
)  # fmt: skip
_ARRANGED: Final = (
    "{f}.T", "{f}.reshape(-1)", "{f}.reshape({f}.shape[0], -1)", "op.flip({f}, {a})", "op.flip({f})", "op.roll({f}, n, {a})", "op.roll({f}, -1)",
    "op.tril({f})", "op.triu({f}, 1)", "op.concat([{f}, {f}], {a})", "op.stack([{f}, {g}])", "op.split({f}, 2, -1)[1]",
    "op.split({f}, [1, 3])[1]", "op.pad({f}, [(0, 0)] * ({f}.ndim - 1) + [(1, 2)])", "op.pad({f}, [(1, 0)] + [(0, 0)] * ({f}.ndim - 1), 0.5)",
    "op.repeat({f}, 2, {a})", "op.tile({f}, 2)", "op.swapaxes({f}, 0, -1)", "op.moveaxis({f}, 0, -1)", "op.expand_dims({f}, {a})",
    "op.squeeze({f}[:1])", "{f}.transpose()", "op.broadcast_to({f}[:1], {f}.shape)", "op.transpose({f}, (1, 0, 2))", "{f}.flatten()",
    "{f}.swapaxes(0, 1)", "op.outer({f}[0], {g}[0])",
)  # fmt: skip
_CHOICES: Final = (
    "op.where({f} > {c}, {f}, {g})", "op.where({f} > 0, 1.0, 0.0)", "op.where(m[:, None], {f}, -0.5)", "op.where({b}, {f}, 0)",
    "{f} > {g}", "{f} <= {c}", "({f} > 0) & ({g} < 1)", "({f} > 0) | m[:, None]", "~({f} > 0.5)", "{f} * m[:, None]", "{b} ^ True",
    "op.logical_not({f} > 0)", "{i} + 1", "{i} * 2 - n", "{i} // 2", "{i} % 3", "-{i} >> 1", "{i} << n", "{i} & 1", "3 - {i}", "7 // ({i} * {i} + 1)",
    "{i} > 0", "op.cast({i}, 'f64') * 0.5", "op.cast({b}, 'f64')", "op.one_hot({i} % 3, 3, 'f64')", "op.where({i} > 1, {i}, -1)", "op.cast({f}, 'i64')",
    "op.where(n > 1, {f}, {g})", "op.maximum({i}, 1)", "{f} == {f}", "{i} != y", "op.clip({i}, 0, 2)", "y < 2**40", "y + np.int64(3)",
)  # fmt: skip
_NETWORKS: Final = (
    "op.layernorm({f})", "op.layernorm({f}, p['b'], single)", "op.rmsnorm({f}, p['b'])", "op.linear({f}, p['w'], p['b'])", "op.matmul({f}, {f}.T)",
    "op.einsum('...i,ij->...j', {f}, p['w'])", "op.einsum('ii->i', p['w'])", "op.einsum('ii->', p['w']) * {f}", "op.einsum('bti,bsi->bts', {f}, {g})",
    "op.einsum('...ij->...ji', {f})", "op.flash_attention({f}, {g}, {f})", "op.flash_attention({f}, {f}, {g}, causal=True)",
    "op.conv1d({f}, {g}[:2, :, :2], padding=1)", "op.max_pool1d({f}, 2)", "op.avg_pool1d({f}, 2)", "op.softmax({f} @ {f}.T * rate) @ {f}",
    "op.normalize({f}, axis=-1)", "op.relu({f} @ p['w'] + p['b']) @ p['w'].T", "op.tanh({f} @ p['w']) * op.sigmoid({f} @ p['w'].T)",
    "(op.exp({f}) / op.exp({f}).sum(-1, keepdims=True))", "({f} - {f}.mean(-1, keepdims=True)) / op.sqrt({f}.var(-1, keepdims=True) + 0.1)",
)  # fmt: skip
_LOOPS: Final = (
    "op.scan(lambda h, s: (op.tanh(h * {c} + s), h), {f}[0] * 0, {f})[0]", "op.scan(lambda h, s: (h + s, h * s), {f}[0], {f})[1]",
    "op.scan(lambda h, s: (op.tanh(h @ p['w'] + s), h), {f}[0], {f}, reverse=True)[1]", "op.scan(lambda h, s: (h * 0.5 + s * rate, op.sin(h)), {f}[0], {f})[1]",
    "op.cond({f}.sum() > {c}, lambda: {f} * 2, lambda: {f} - 1)", "op.cond(op.max({f}) > 1, lambda v: op.tanh(v), lambda v: v * scale, {f})",
    "op.while_(lambda v: op.max(abs(v)) > 1.0, lambda v: v * 0.5, {f})", "functools.reduce(lambda h, k: op.tanh(h * (k + 1)), range(n), {f})",
    "op.cond({f}[0].sum() < 0, lambda: {f}, lambda: -{f})", "op.scan(lambda h, s: ((h[0] + s, h[1] * 0.5), h[1]), ({f}[0], {f}[1]), {f})[0][0]",
)  # fmt: skip
STATEMENTS: Final = (
    (_ARITHMETIC, 6), (_FUNCTIONS, 4), (_CLOSURES, 6), (_INDICES, 6), (_UPDATES, 5), (_REDUCTIONS, 5), (_ARRANGED, 4),
    (_CHOICES, 6), (_NETWORKS, 4), (_LOOPS, 3),
)  # fmt: skip
