"""Random graphs of operators: a seed gives the text of a function on arrays, and its arguments.

Each step is tried on tracers as it is drawn, so that shapes and dtypes are known, and what operators refuse is left out.
"""

# Operators take arrays of any library, tracers among them, which their types cannot say.
# pyright: reportUnknownMemberType=false

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np

from fuzz.arrays import numbers, viewed
from tessera import op
from tessera.core.base.dtypes import from_numpy
from tessera.core.errors.base import TesseraError
from tessera.core.graph.graph import Graph, Tensor
from tessera.graphs.function import GraphFunction
from tessera.graphs.trace import tracing
from tessera.graphs.tracer import Tracer

DTYPES: Final[dict[str, Any]] = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i64": np.int64,
    "i32": np.int32, "i8": np.int8, "u8": np.uint8, "bool": np.bool_,
}  # fmt: skip
OFTEN: Final = ("f32",) * 6 + ("f64", "f16", "bf16", "bf16", "i32", "i64", "bool")
FLOATS: Final = ("f32", "f64", "f16", "bf16")
EXTENTS: Final = (1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 32, 33, 64, 100, 128, 257)
VIEWS: Final = ("plain",) * 6 + ("offset", "step", "reversed", "fortran", "column", "repeated", "overlapping")
VALUES: Final = ("small", "small", "ordinary", "ordinary", "ordinary", "special")
MOST: Final = 1 << 16
"""Elements of a value at most."""
MOST_WORK: Final = 1 << 23
"""Products that are added up, or elements that are moved, by one step at most."""


@dataclass(frozen=True)
class Input:
    """One argument: `view` says how it lies in memory, `values` what it holds (see `fuzz.arrays`)."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    view: str = "plain"
    values: str = "small"

    def make(self, seed: int) -> np.ndarray:
        """A fresh array, the same each time."""
        source = np.random.default_rng([seed, *self.name.encode()])
        return viewed(self.view if self.shape else "plain", self.shape, lambda wanted: self._numbers(wanted, source))

    def _numbers(self, shape: tuple[int, ...], source: np.random.Generator) -> np.ndarray:
        kind = DTYPES[self.dtype]
        if self.dtype == "bool":
            return source.random(shape) < 0.6 if shape else np.array(source.random() < 0.6)
        if self.values == "small":
            return np.asarray(source.integers(0 if self.dtype == "u8" else -3, 4, shape)).astype(kind)
        if self.dtype not in FLOATS:
            low, high = {"i8": (-99, 100), "u8": (0, 200)}.get(self.dtype, (-9, 100))
            return np.asarray(source.integers(low, high, shape)).astype(kind)
        if self.values == "ordinary":
            return np.asarray(source.normal(size=shape)).astype(kind)
        some = np.asarray(source.normal(size=shape)).astype(kind)
        return np.where(source.random(shape) < 0.05, numbers(self.dtype, "special", shape, source), some).astype(kind)


@dataclass(frozen=True)
class Step:
    """One statement: `name = text`."""

    name: str
    text: str


@dataclass(frozen=True)
class GraphCase:
    """A function on arrays: what it takes, its statements, and the names that it returns."""

    seed: int
    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]

    @property
    def text(self) -> str:
        """The function."""
        lines = [f"def f({', '.join(each.name for each in self.inputs)}):"]
        lines += [f"    {step.name} = {step.text}" for step in self.steps]
        return "\n".join([*lines, f"    return {', '.join(self.outputs)},"]) + "\n"

    def function(self) -> Callable[..., Any]:
        """The function as an object."""
        names: dict[str, Any] = {"op": op, "math": math}
        exec(compile(self.text, "<fuzz>", "exec"), names)
        return names["f"]

    def captured(self) -> tuple[GraphFunction[..., Any], Graph]:
        """The function on arrays, and its graph as it was captured."""
        made: GraphFunction[..., Any] = GraphFunction(self.function(), "fuzzed")
        return made, made.graph_for(*self.arguments()).graph

    def arguments(self) -> list[np.ndarray]:
        """Fresh arguments, the same ones each time."""
        return [each.make(self.seed) for each in self.inputs]

    def script(self) -> str:
        """Python that runs it (with `tests` on the path)."""
        given = [f"    {each!r},\n" for each in self.inputs]
        return (
            f"from tessera import graph, op\nfrom fuzz.graphs import Input\n\n{self.text}\n"
            f"inputs = (\n{''.join(given)})\nprint(graph.module('f')(f)(*[each.make({self.seed}) for each in inputs]))\n"
        )


def graph_case_of(seed: int) -> GraphCase:
    """The graph of `seed`."""
    return _Writer(random.Random(seed), seed).drawn()


class _Writer:
    """Writes statements over the values so far.  values: by name, as tracers of the graph so far."""

    def __init__(self, source: random.Random, seed: int) -> None:
        self.random, self.seed = source, seed
        self.inputs: list[Input] = []
        self.steps: list[Step] = []
        self.values: dict[str, Tracer] = {}
        self.kind = source.choice(VALUES)
        self.dtype = source.choice(OFTEN)

    def drawn(self) -> GraphCase:
        """Draw inputs, steps and outputs."""
        with tracing() as self.trace:
            for _ in range(self.number(1, 3)):
                self.input(self.some_dtype(), self.shape(self.number(0, 3)))
            wanted = self.number(1, 9)
            for _ in range(wanted):
                self.step()
            return GraphCase(self.seed, tuple(self.inputs), tuple(self.steps), self.outputs())

    def outputs(self) -> tuple[str, ...]:
        """The last value, and perhaps others: what was computed on the way, what was given, one twice."""
        names = list(self.values)
        found = [self.steps[-1].name if self.steps else names[0]]
        while self.random.random() < 0.35:
            found.append(self.random.choice(names))
        return tuple(found)

    # -- choices -------------------------------------------------------------------------------------------------

    def number(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def pick(self, *options: str) -> str:
        return self.random.choice(options)

    def some_dtype(self) -> str:
        return self.dtype if self.random.random() < 0.7 else self.random.choice(OFTEN)

    def extent(self) -> int:
        return 0 if self.random.random() < 0.02 else self.random.choice(EXTENTS)

    def shape(self, rank: int) -> tuple[int, ...]:
        """A shape of few elements; often of extents that are there already."""
        known = [size for value in self.values.values() for size in value.shape]
        found = tuple(self.random.choice(known) if known and self.random.random() < 0.5 else self.extent()
                      for _ in range(rank))  # fmt: skip
        return found if math.prod(found) <= MOST // 4 else self.shape(rank)

    def input(self, dtype: str, shape: Sequence[int]) -> str:
        """A new argument."""
        name = f"x{len(self.inputs)}"
        view = self.random.choice(VIEWS)
        if view in ("column", "fortran", "overlapping") and len(shape) < 2:
            view = "plain"
        self.inputs.append(Input(name, dtype, tuple(shape), view, self.kind))
        kind = from_numpy(np.dtype(DTYPES[dtype]))
        assert kind is not None
        self.values[name] = Tracer(self.trace, self.trace.input(Tensor(kind, tuple(shape)), name))
        return name

    def value(self, holds: Callable[[Tracer], bool] = lambda _: True) -> str | None:
        """The name of a value, more likely a late one."""
        names = [name for name, value in self.values.items() if holds(value)]
        if not names:
            return None
        place = min(int(self.random.expovariate(0.5)), len(names) - 1)
        return names[-1 - place]

    def any(self) -> str:
        return self.value() or self.input(self.some_dtype(), ())

    def ranked(self, least: int, *, floating: bool = False) -> str:
        """A value of so many axes at least, made if there is none."""
        found = self.value(lambda v: v.ndim >= least and (v.dtype.is_float or not floating))
        dtype = self.some_dtype()
        return found or self.input(self.pick(*FLOATS) if floating and dtype not in FLOATS else dtype, self.shape(least))

    def floating(self) -> str:
        return self.value(lambda v: v.dtype.is_float) or self.input(self.pick(*FLOATS), self.shape(2))

    # -- steps ---------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Add one statement that operators take; several tries."""
        for _ in range(8):
            before = len(self.inputs)
            text = self.random.choices(_KINDS, _WEIGHTS)[0](self)
            if self.add(text):
                return
            for each in self.inputs[before:]:
                del self.values[each.name]
                self.trace.inputs.pop()
            del self.inputs[before:]

    def add(self, text: str) -> bool:
        """Whether `text` is taken as a statement."""
        nodes = len(self.trace.builder.nodes)
        try:
            made = eval(text, {"op": op, "math": math}, dict(self.values))
        except TesseraError:
            del self.trace.builder.nodes[nodes:]
            return False
        large = [node for node in self.trace.builder.nodes[nodes:] if _work(node) > MOST_WORK]
        if not isinstance(made, Tracer) or made.size > MOST or large:
            del self.trace.builder.nodes[nodes:]
            return False
        name = f"v{len(self.steps)}"
        self.steps.append(Step(name, text))
        self.values[name] = made
        return True


def _work(node: Any) -> int:
    if node.op != "contract":
        return max(value.type.size for value in (*node.operands, *node.results))
    extents: dict[int, int] = {}
    for operand, labels in zip(node.operands, node.attributes["labels"], strict=True):
        extents.update(zip(labels, operand.type.shape, strict=True))
    return math.prod(extents.values())


# -- kinds of steps: each gives the text of an expression ---------------------------------------------------------


def _fitting(w: _Writer, name: str) -> str:
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


def _binary(w: _Writer) -> str:
    a = w.any()
    b = _fitting(w, a)
    a, b = (b, a) if w.random.random() < 0.3 and not b[0].isdigit() and b[0] != "-" else (a, b)
    kind = w.number(0, 9)
    if kind < 7:
        return f"{a} {w.pick('+', '-', '*', '*', '+')} {b}"
    if kind == 7:
        return f"{a} / (abs({b}) + 1.5)"
    return f"op.{w.pick('maximum', 'minimum')}({a}, {b})"


def _compared(w: _Writer) -> str:
    a = w.any()
    return f"{a} {w.pick('<', '<=', '>', '>=', '==', '!=')} {_fitting(w, a)}"


def _logic(w: _Writer) -> str:
    a = w.value(lambda v: not v.dtype.is_float)
    if a is None:
        return _compared(w)
    b = w.value(lambda v: v.dtype == w.values[a].dtype and v.shape == w.values[a].shape)
    return f"{a} {w.pick('&', '|', '^')} {b}" if w.random.random() < 0.7 else f"~{a}"


def _where(w: _Writer) -> str:
    a = w.any()
    b = _fitting(w, a)
    condition = w.value(lambda v: v.dtype.name == "bool" and all(
        m == n or m == 1 for m, n in zip(reversed(v.shape), reversed(w.values[a].shape), strict=False)))  # fmt: skip
    condition = condition if condition and w.random.random() < 0.7 else f"{a} {w.pick('<', '>=')} {b}"
    return f"op.where({condition}, {a}, {b})"


_FUNCTIONS: Final = (
    "op.exp(-abs({0}))", "op.exp({0} * 0.25)", "op.tanh({0})", "op.sigmoid({0})", "op.silu({0})", "op.gelu({0})",
    "op.relu({0})", "op.square({0})", "op.sqrt(abs({0}))", "op.rsqrt({0} * {0} + 1)", "op.log(abs({0}) + 0.5)",
    "op.softplus({0})", "op.sin({0})", "op.cos({0})", "op.erf({0})", "op.abs({0})", "-{0}", "op.clip({0}, -1, 2)",
    "op.exp2({0} * 0.25)", "op.log2(abs({0}) + 0.5)", "{0} * {0}", "{0} + {0}", "{0} - {0}", "op.gelu({0}, 'tanh')",
    "{0} // 2", "{0} % 3", "({0} * 2) ** 2", "op.exp({0})", "op.log({0})", "1 / {0}",
)  # fmt: skip


def _function(w: _Writer) -> str:
    return w.random.choice(_FUNCTIONS).format(w.any())


def _cast(w: _Writer) -> str:
    return f"op.cast({w.any()}, '{w.pick(*DTYPES)}')"


def _slice(w: _Writer, size: int) -> str:
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


def _index(w: _Writer) -> str:
    a = w.ranked(1)
    entries = [_slice(w, size) for size in w.values[a].shape]
    if w.random.random() < 0.3:
        place = w.number(0, len(entries))
        entries = [*entries[:place], "...", *entries[w.number(place, len(entries)) :]]
    for _ in range(w.number(0, 5) // 4):
        entries.insert(w.number(0, len(entries)), "None")
    return f"{a}[{', '.join(entries)}]"


def _gather(w: _Writer) -> str:
    a = w.ranked(1)
    shape = w.values[a].shape
    axis = w.number(0, len(shape) - 1)
    index = w.value(lambda v: v.dtype.is_integer and v.ndim < 3)
    if index is None or w.random.random() < 0.4:
        index = w.input(w.pick("i32", "i64"), w.shape(w.number(0, 2)))
    if w.random.random() < 0.3:
        return f"{a}[{':, ' * axis}{index}]"
    return f"op.gather({a}, {index}, {axis - w.random.choice((0, len(shape)))})"


def _transposed(w: _Writer) -> str:
    a = w.ranked(2)
    axes = list(range(w.values[a].ndim))
    w.random.shuffle(axes)
    return w.random.choice((f"{a}.T", f"op.transpose({a})", f"op.transpose({a}, {axes})"))


def _reshaped(w: _Writer) -> str:
    a = w.any()
    size, shape = w.values[a].size, list[int]()
    while size > 1 and len(shape) < 3:
        shape.append(w.random.choice([each for each in range(1, size + 1) if size % each == 0]))
        size //= shape[-1]
    shape.append(size if size > 1 or w.random.random() < 0.3 else -1)
    w.random.shuffle(shape)
    return f"op.reshape({a}, {tuple(shape)})"


def _spread(w: _Writer) -> str:
    a = w.value(lambda v: v.ndim < 4) or w.any()
    shape = [w.extent() if size == 1 else size for size in w.values[a].shape]
    shape = [w.extent() for _ in range(w.number(0, 4) // 3)] + shape
    return f"op.broadcast_to({a}, {tuple(shape)})"


def _joined(w: _Writer) -> str:
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


def _padded(w: _Writer) -> str:
    a = w.ranked(1)
    widths = [(w.random.choice((0, 0, 1, 3)), w.random.choice((0, 0, 1, 2, 30))) for _ in w.values[a].shape]
    return f"op.pad({a}, {widths})"


def _axes(w: _Writer, rank: int) -> str:
    if not rank or w.random.random() < 0.2:
        return "None"
    if w.random.random() < 0.6:
        return str(w.number(-rank, rank - 1))
    return str(tuple(w.random.sample(range(rank), w.number(1, rank))))


def _reduced(w: _Writer) -> str:
    a = w.value(lambda v: v.ndim > 0) or w.any()
    kept = ", keepdims=True" if w.random.random() < 0.4 else ""
    return f"op.{w.pick('sum', 'sum', 'max', 'min', 'mean', 'var')}({a}, {_axes(w, w.values[a].ndim)}{kept})"


def _placed(w: _Writer) -> str:
    a = w.ranked(1)
    axis = w.number(-w.values[a].ndim, w.values[a].ndim - 1)
    return f"op.{w.pick('argmax', 'logsumexp', 'softmax', 'softmax_safe', 'log_softmax')}({a}, {axis})"


def _normalized(w: _Writer) -> str:
    a = w.ranked(1)
    size = w.values[a].shape[-1]
    if w.random.random() < 0.4:
        return f"op.{w.pick('layernorm', 'rmsnorm')}({a})"
    weight = w.value(lambda v: v.shape == (size,)) or w.input(w.some_dtype(), (size,))
    return f"op.{w.pick('layernorm', 'rmsnorm')}({a}, {weight})"


def _product(w: _Writer) -> str:
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


def _einsum(w: _Writer) -> str:
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


def _attention(w: _Writer) -> str:
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


def _formula(w: _Writer, dtype: str, queries: int, keys: int, width: int) -> str:
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


def _indices(w: _Writer) -> str:
    a = w.any()
    x = w.values[a]
    if not x.ndim or w.random.random() < 0.3:
        return f"op.arange({w.extent()})"
    axis = w.number(0, x.ndim - 1)
    place = f"op.arange({x.shape[axis]})" + "[" + ", ".join([":", *["None"] * (x.ndim - 1 - axis)]) + "]"
    return w.pick(f"{a} + {place}", f"{a} * {place}", f"op.where({place} < {x.shape[axis] // 2}, {a}, 0)",
                  f"op.where({place} % 2 == 0, {a}, 1)")  # fmt: skip


def _filled(w: _Writer) -> str:
    dtype = w.some_dtype()
    return f"op.{w.pick('ones', 'zeros')}({w.shape(w.number(0, 3))}, '{dtype}')"


def _hot(w: _Writer) -> str:
    a = w.value(lambda v: v.dtype.is_integer and v.ndim < 3) or w.input("i32", w.shape(1))
    return f"op.one_hot({a}, {w.number(1, 9)}, '{w.pick('f32', 'bf16', 'i32')}')"


_TABLE: Final[tuple[tuple[Callable[[_Writer], str], int], ...]] = (
    (_binary, 9), (_compared, 2), (_logic, 1), (_where, 3), (_function, 7), (_cast, 4), (_index, 4), (_gather, 2),
    (_transposed, 3), (_reshaped, 4), (_spread, 3), (_joined, 3), (_padded, 2), (_reduced, 8), (_placed, 4),
    (_normalized, 2), (_product, 7), (_einsum, 3), (_attention, 3), (_indices, 2), (_filled, 1), (_hot, 1),
)  # fmt: skip
_KINDS: Final = [kind for kind, _ in _TABLE]
_WEIGHTS: Final = [weight for _, weight in _TABLE]
