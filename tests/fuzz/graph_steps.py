"""Random graphs of operators: a seed gives one.  Here are the kinds of steps that they are made of, as text."""

# pyright: reportUnknownMemberType=false

import math
import random
from typing import Final

from fuzz.graph_writer import MOST, GraphWriter, Kind
from fuzz.graphs import DTYPES, GraphCase
from tessera.graphs.tracer import Tracer


def _fitting(w: GraphWriter, name: str) -> str:
    """A value that broadcasts with another: one that is there, a new one, or a number."""
    x = w.values[name]

    def fits(v: Tracer) -> bool:
        pairs = zip(reversed(v.shape), reversed(x.shape), strict=False)
        return (
            all(a == b or 1 in (a, b) for a, b in pairs)
            and math.prod(
                max(a, b) for a, b in zip((1,) * (9 - v.ndim) + v.shape, (1,) * (9 - x.ndim) + x.shape, strict=True)
            )
            <= MOST
        )

    chance = w.random.random()
    if chance < 0.15:
        return w.pick("2", "0.5", "-1.5", "3", "1")
    found = w.value(fits) if chance < 0.75 else None
    if found is not None:
        return found
    rows = w.value(lambda v: v.ndim == 1 and x.ndim > 1 and v.shape[0] == x.shape[-2])
    if rows is not None and chance < 0.9:
        return f"{rows}[:, None]"
    shape = [1 if w.random.random() < 0.3 else size for size in x.shape]
    return w.input(w.some_dtype(), shape[w.number(0, len(shape)) :] if w.random.random() < 0.5 else shape)


def _binary(w: GraphWriter) -> str:
    a = w.any()
    b = _fitting(w, a)
    a, b = (b, a) if w.random.random() < 0.3 and not b[0].isdigit() and b[0] != "-" else (a, b)
    kind = w.number(0, 9)
    if kind < 7:
        return f"{a} {w.pick('+', '-', '*', '*', '+')} {b}"
    if kind == 7:
        return f"{a} / (abs({b}) + 1.5)"
    return f"op.{w.pick('maximum', 'minimum')}({a}, {b})"


def _compared(w: GraphWriter) -> str:
    a = w.any()
    return f"{a} {w.pick('<', '<=', '>', '>=', '==', '!=')} {_fitting(w, a)}"


def _logic(w: GraphWriter) -> str:
    a = w.value(lambda v: not v.dtype.is_float)
    if a is None:
        return _compared(w)
    b = w.value(lambda v: v.dtype == w.values[a].dtype and v.shape == w.values[a].shape)
    return f"{a} {w.pick('&', '|', '^')} {b}" if w.random.random() < 0.7 else f"~{a}"


def _where(w: GraphWriter) -> str:
    a = w.any()
    b = _fitting(w, a)
    condition = w.value(lambda v: v.dtype.name == "bool" and all(
        m in (n, 1) for m, n in zip(reversed(v.shape), reversed(w.values[a].shape), strict=False)))  # fmt: skip
    condition = condition if condition and w.random.random() < 0.7 else f"{a} {w.pick('<', '>=')} {b}"
    return f"op.where({condition}, {a}, {b})"


_FUNCTIONS: Final = (
    "op.exp(-abs({0}))", "op.exp({0} * 0.25)", "op.tanh({0})", "op.sigmoid({0})", "op.silu({0})", "op.gelu({0})",
    "op.relu({0})", "op.square({0})", "op.sqrt(abs({0}))", "op.rsqrt({0} * {0} + 1)", "op.log(abs({0}) + 0.5)",
    "op.softplus({0})", "op.sin({0})", "op.cos({0})", "op.erf({0})", "op.abs({0})", "-{0}", "op.clip({0}, -1, 2)",
    "op.exp2({0} * 0.25)", "op.log2(abs({0}) + 0.5)", "{0} * {0}", "{0} + {0}", "{0} - {0}", "op.gelu({0}, 'tanh')",
    "{0} // 2", "{0} % 3", "({0} * 2) ** 2", "op.exp({0})", "op.log({0})", "1 / {0}",
)  # fmt: skip


def _function(w: GraphWriter) -> str:
    return w.random.choice(_FUNCTIONS).format(w.any())


def _cast(w: GraphWriter) -> str:
    return f"op.cast({w.any()}, '{w.pick(*DTYPES)}')"


def _slice(w: GraphWriter, size: int) -> str:
    """One entry of an index."""
    kind = w.number(0, 11)
    if kind < 3 or size == 0:
        return ":"
    if kind == 3:
        return str(w.number(-size, size - 1))
    if kind == 4:
        return "::-1"
    if kind == 5:
        return f"::{w.number(2, 3)}"
    if kind == 6:
        return f"::-{w.number(2, 3)}"
    start = w.number(-size, size - 1)
    stop = w.number(start % size, size)
    return f"{start}:{stop}" if kind < 10 else f"{stop}:{start % size}:-{w.number(1, 2)}"


def _index(w: GraphWriter) -> str:
    a = w.ranked(1)
    entries = [_slice(w, size) for size in w.values[a].shape]
    if w.random.random() < 0.3:
        place = w.number(0, len(entries))
        entries = [*entries[:place], "...", *entries[w.number(place, len(entries)) :]]
    for _ in range(w.number(0, 5) // 4):
        entries.insert(w.number(0, len(entries)), "None")
    return f"{a}[{', '.join(entries)}]"


def _gather(w: GraphWriter) -> str:
    a = w.ranked(1)
    shape = w.values[a].shape
    axis = w.number(0, len(shape) - 1)
    index = w.value(lambda v: v.dtype.is_integer and v.ndim < 3)
    if index is None or w.random.random() < 0.4:
        index = w.input(w.pick("i32", "i64"), w.shape(w.number(0, 2)))
    index = f"{index} + 0"  # computed ones may lie outside; arrays that do are refused
    if w.random.random() < 0.3:
        return f"{a}[{':, ' * axis}{index}]"
    return f"op.gather({a}, {index}, {axis - w.random.choice((0, len(shape)))})"


def _transposed(w: GraphWriter) -> str:
    a = w.ranked(2)
    axes = list(range(w.values[a].ndim))
    w.random.shuffle(axes)
    return w.random.choice((f"{a}.T", f"op.transpose({a})", f"op.transpose({a}, {axes})"))


def _reshaped(w: GraphWriter) -> str:
    a = w.any()
    size, shape = w.values[a].size, list[int]()
    while size > 1 and len(shape) < 3:
        shape.append(w.random.choice([each for each in range(1, size + 1) if size % each == 0]))
        size //= shape[-1]
    shape.append(size if size > 1 or w.random.random() < 0.3 else -1)
    w.random.shuffle(shape)
    return f"op.reshape({a}, {tuple(shape)})"


def _spread(w: GraphWriter) -> str:
    a = w.value(lambda v: v.ndim < 4) or w.any()
    shape = [w.extent() if size == 1 else size for size in w.values[a].shape]
    shape = [w.extent() for _ in range(w.number(0, 4) // 3)] + shape
    return f"op.broadcast_to({a}, {tuple(shape)})"


def _joined(w: GraphWriter) -> str:
    a = w.ranked(1)
    x = w.values[a]
    axis = w.number(0, x.ndim - 1)

    def rest(v: Tracer) -> tuple[int, ...]:
        return (*v.shape[:axis], *v.shape[axis + 1 :])

    b = w.value(lambda v: v.ndim == x.ndim and rest(v) == rest(x) and v.dtype == x.dtype) or a
    kind = w.number(0, 3)
    if kind == 0:
        parts = [each for each in range(1, 6) if x.shape[axis] % each == 0]
        count = w.random.choice(parts)
        return f"op.split({a}, {count}, {axis})[{w.number(0, count - 1)}]"
    if kind == 1 and b != a and w.values[b].shape == x.shape:
        return f"op.stack([{a}, {b}], {w.number(-x.ndim, x.ndim)})"
    parts = [a, b, a][: w.number(2, 3)]
    if w.random.random() < 0.2:
        new = list(x.shape)
        new[axis] = w.extent()
        parts[1] = w.input(x.dtype.name, new)
    return f"op.concat([{', '.join(parts)}], {axis})"


def _padded(w: GraphWriter) -> str:
    a = w.ranked(1)
    widths = [(w.random.choice((0, 0, 1, 3)), w.random.choice((0, 0, 1, 2, 30))) for _ in w.values[a].shape]
    return f"op.pad({a}, {widths})"


def _axes(w: GraphWriter, rank: int) -> str:
    if not rank or w.random.random() < 0.2:
        return "None"
    if w.random.random() < 0.6:
        return str(w.number(-rank, rank - 1))
    return str(tuple(w.random.sample(range(rank), w.number(1, rank))))


def _reduced(w: GraphWriter) -> str:
    a = w.value(lambda v: v.ndim > 0) or w.any()
    kept = ", keepdims=True" if w.random.random() < 0.4 else ""
    return f"op.{w.pick('sum', 'sum', 'max', 'min', 'mean', 'var')}({a}, {_axes(w, w.values[a].ndim)}{kept})"


def _placed(w: GraphWriter) -> str:
    a = w.ranked(1)
    axis = w.number(-w.values[a].ndim, w.values[a].ndim - 1)
    return f"op.{w.pick('argmax', 'logsumexp', 'softmax', 'softmax_safe', 'log_softmax')}({a}, {axis})"


def _normalized(w: GraphWriter) -> str:
    a = w.ranked(1)
    size = w.values[a].shape[-1]
    if w.random.random() < 0.4:
        return f"op.{w.pick('layernorm', 'rmsnorm')}({a})"
    weight = w.value(lambda v: v.shape == (size,)) or w.input(w.some_dtype(), (size,))
    return f"op.{w.pick('layernorm', 'rmsnorm')}({a}, {weight})"


def _product(w: GraphWriter) -> str:
    a = w.ranked(1)
    x = w.values[a]
    inner = x.shape[-1]
    b = w.value(lambda v: v.ndim > 0 and v.shape[-2 if v.ndim > 1 else 0] == inner)
    if b is None or w.random.random() < 0.3:
        turned = w.value(lambda v: v.ndim > 1 and v.shape[-1] == inner)
        b = f"{turned}.T" if turned and w.random.random() < 0.6 else None
    if b is None:
        batch = [1 if w.random.random() < 0.3 else size for size in x.shape[:-2]] if w.random.random() < 0.5 else []
        b = w.input(x.dtype.name if w.random.random() < 0.8 else w.some_dtype(), [*batch, inner, w.extent()])
    more = w.random.choice(("", "", "", "", ", exact=True", ", tile_shape=(32, 32, 16)", ", compute='tf32'"))
    if w.random.random() < 0.3 and not more:
        return f"{a} @ {b}"
    return f"op.matmul({a}, {b}{more})"


def _einsum(w: GraphWriter) -> str:
    a = w.ranked(1)
    x = w.values[a]
    first = "abcdefg"[: x.ndim]
    b = w.value(lambda v: v.ndim > 0 and bool(set(v.shape) & set(x.shape)))
    if b is None or w.random.random() < 0.4:
        shape = [size for size in x.shape if w.random.random() < 0.6][:2]
        shape = [*shape, *(w.extent() for _ in range(w.number(0, 1)))]
        w.random.shuffle(shape)
        b = w.input(x.dtype.name, shape)
    free = dict(zip(first, x.shape, strict=True))
    second = ""
    for place, size in enumerate(w.values[b].shape):
        same = [letter for letter, extent in free.items() if extent == size]
        letter = w.random.choice([*same, "hijklm"[place]]) if same else "hijklm"[place]
        free.pop(letter, None)
        second += letter
    letters = [letter for letter in dict.fromkeys(first + second) if w.random.random() < 0.6]
    w.random.shuffle(letters)
    return f"op.einsum('{first},{second}->{''.join(letters)}', {a}, {b})"


def _attention(w: GraphWriter) -> str:
    """Attention: the operator with its options, or its formula with what people put between."""
    dtype = w.pick("f32", "f32", "bf16", "f16", "f64")
    heads, width = w.random.choice((1, 2, 4)), w.random.choice((1, 3, 8, 16, 33))
    queries, keys = (w.random.choice((1, 3, 16, 17, 33, 64, 100)) for _ in range(2))
    if w.random.random() < 0.5:
        return _formula(w, dtype, queries, keys, width)
    shared = w.random.choice([each for each in (1, 2, 4) if heads % each == 0])
    q = w.input(dtype, (heads, queries, width))
    k, v = w.input(dtype, (shared, keys, width)), w.input(dtype, (shared, keys, w.random.choice((width, 5))))
    more = [part for part in ("causal=True", "scale=0.3", "softcap=2.0", f"window={w.number(1, 40)}")
            if w.random.random() < 0.3]  # fmt: skip
    shape = (w.random.choice((1, heads)), queries, keys)
    if w.random.random() < 0.3:
        more.append(f"mask={w.input('bool', shape)}")
    if w.random.random() < 0.3:
        more.append(f"bias={w.input(dtype, shape[w.number(0, 1) :])}")
    return f"op.flash_attention({', '.join([q, k, v, *more])})"


def _formula(w: GraphWriter, dtype: str, queries: int, keys: int, width: int) -> str:
    q = w.value(lambda v: v.ndim == 2 and v.dtype.is_float and v.shape[1] == width) or w.input(dtype, (queries, width))
    queries = w.values[q].shape[0]
    k, v = w.input(dtype, (keys, width)), w.input(dtype, (keys, w.random.choice((1, 8, 17))))
    scores = f"({q} @ {k}.T)"
    rows, columns = f"op.arange({queries})[:, None]", f"op.arange({keys})[None, :]"
    for _ in range(w.number(0, 2)):
        scores = w.random.choice((
            f"({scores} * 0.5)", f"({scores} + {w.input(dtype, (keys,))})", f"op.tanh({scores})",
            f"({scores} + {w.input(dtype, (queries, 1))})", f"({scores} - 0.125 * ({rows} - {columns}))",
            f"op.where({columns} <= {rows}, {scores}, -math.inf)", f"op.where({rows} < {columns} + 5, {scores}, -1e4)",
            f"op.where({w.input('bool', (queries, keys))}, {scores}, -math.inf)",
        ))  # fmt: skip
    soft = w.pick(
        "op.softmax", "op.softmax", "op.softmax_safe", "op.exp", "op.log_softmax", "op.layernorm", "op.rmsnorm"
    )
    return f"{soft}({scores}) @ {v}"


def _indices(w: GraphWriter) -> str:
    a = w.any()
    x = w.values[a]
    if not x.ndim or w.random.random() < 0.3:
        return f"op.arange({w.extent()})"
    axis = w.number(0, x.ndim - 1)
    place = f"op.arange({x.shape[axis]})" + "[" + ", ".join([":", *["None"] * (x.ndim - 1 - axis)]) + "]"
    return w.pick(f"{a} + {place}", f"{a} * {place}", f"op.where({place} < {x.shape[axis] // 2}, {a}, 0)",
                  f"op.where({place} % 2 == 0, {a}, 1)")  # fmt: skip


def _filled(w: GraphWriter) -> str:
    dtype = w.some_dtype()
    return f"op.{w.pick('ones', 'zeros')}({w.shape(w.number(0, 3))}, '{dtype}')"


def _hot(w: GraphWriter) -> str:
    a = w.value(lambda v: v.dtype.is_integer and v.ndim < 3) or w.input("i32", w.shape(1))
    return f"op.one_hot({a}, {w.number(1, 9)}, '{w.pick('f32', 'bf16', 'i32')}')"


KINDS: Final[tuple[tuple[Kind, int], ...]] = (
    (_binary, 9), (_compared, 2), (_logic, 1), (_where, 3), (_function, 7), (_cast, 4), (_index, 4), (_gather, 2),
    (_transposed, 3), (_reshaped, 4), (_spread, 3), (_joined, 3), (_padded, 2), (_reduced, 8), (_placed, 4),
    (_normalized, 2), (_product, 7), (_einsum, 3), (_attention, 3), (_indices, 2), (_filled, 1), (_hot, 1),
)  # fmt: skip


def graph_case_of(seed: int) -> GraphCase:
    """The graph of `seed`."""
    return GraphWriter(random.Random(seed), seed, KINDS).drawn()
