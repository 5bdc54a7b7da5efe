"""Random cascades: a seed gives reductions over one axis that use each other, and the data for them.

What is derived of them is compared with the reductions one after the other, in f64, in several orders of merging; as
graphs they are computed by kernels.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fuzz.check import Outcome
from fuzz.graph_check import check_built
from support.cascades import NEVER, E, Formulas, absolute, compute, exp, log, maximum, minimum, rsqrt, sqrt, tanh, where
from tessera.core.base.dtypes import DType, boolean, f32, f64, i64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Apply, Argument, Expr, apply, arguments, substitute
from tessera.core.graph.graph import Graph, Tensor, Value
from tessera.core.schedule.cascade import Region
from tessera.lowering.schedule.cascades.derive import derive
from tessera.lowering.schedule.cascades.evaluate import evaluate
from tessera.lowering.schedule.cascades.terms import NotSeparable
from tessera.runtime.interpret.rounding import Numbers

ROWS: Final = 4
"""Independent rows of data, each with masks of its own: along the axis behind the reduced one."""
_SAMPLES: Final = 3
_RELATIVE: Final = 1e-9
"""How far intermediate results are off in disturbed runs: sums that cancel, of expanded powers, need some room."""


class CascadeWriter:
    """Writes reductions.  results: of the reductions so far; budget: how many operations a body may still have."""

    def __init__(self, source: random.Random, dtype: DType) -> None:
        self.random, self.to = source, Formulas()
        self.dtype = dtype
        self.s, self.x, self.y = (self.to.atom(name, dtype) for name in "sxy")
        self.visible = self.to.atom("visible", boolean)
        self.column = self.to.atom("j", i64)
        self.slope, self.sink = self.to.atom("slope", dtype, fixed=True), self.to.atom("sink", dtype, fixed=True)
        self.row = self.to.atom("i", i64, fixed=True)
        self.results: list[E] = []

    def pick(self, *made: Callable[[], E]) -> E:
        return self.random.choice(made)()

    def number(self) -> float:
        return self.random.choice((0.25, 0.5, 1.0, 1.5, 2.0, -1.0, -0.5, 3.0))

    def condition(self) -> E:
        return self.pick(
            lambda: self.visible, lambda: self.visible, lambda: self.column <= self.row,
            lambda: self.column > self.row - 3, lambda: self.x > 0.0, lambda: self.s <= self.y,
            lambda: ~self.visible, lambda: self.visible & (self.column <= self.row), lambda: self.visible | (self.y > 0.5),
            lambda: self.x.equals(self.y), self._late_condition,
        )  # fmt: skip

    def _late_condition(self) -> E:
        return self.s > self.result() if self.random.random() < 0.3 else self.visible

    def result(self) -> E:
        return self.random.choice([*self.results, *self.results, self.slope, self.sink])

    def parameter(self) -> E:
        r = self.result()
        return self.pick(
            lambda: r, lambda: r, lambda: rsqrt(r * r + 1.0), lambda: log(absolute(r) + 1.0), lambda: 1.0 / (absolute(r) + 1.0),
            lambda: r * self.number(), lambda: r + self.result(), lambda: r * self.result(), lambda: tanh(r),
            lambda: maximum(r, 0.0), lambda: sqrt(absolute(r)), lambda: where(r.equals(NEVER), 0.0, r),
            lambda: where(r > 0.0, r, 1.0),
        )  # fmt: skip

    def score(self) -> E:
        s = self.s
        made = self.pick(
            lambda: s, lambda: s * self.number(), lambda: s + self.y, lambda: 3.0 * tanh(s), lambda: s * self.slope,
            lambda: s - self.slope * self._distance(), lambda: where(self.condition(), s, -1e4), lambda: s + self.sink,
            lambda: maximum(s, self.number()), lambda: s * self.x, lambda: -absolute(s), lambda: s * s * -0.5,
        )  # fmt: skip
        return where(self.condition(), made, NEVER) if self.random.random() < 0.4 else made

    def _distance(self) -> E:
        return self.row.to(self.dtype) - self.column.to(self.dtype)

    def atom(self) -> E:
        return self.random.choice([self.x, self.y, self.x, self.y, self.s, self.column.to(self.dtype)])

    def factor(self) -> E:
        return self.pick(
            lambda: exp(self.score()), lambda: exp(self.score() - self.result()), lambda: exp(self.score() - self.parameter()),
            lambda: self.atom() - self.parameter(), lambda: (self.atom() - self.parameter()) ** float(self.random.randint(1, 3)),
            lambda: where(self.condition(), self.atom(), 0.0), lambda: where(self.condition(), self.atom(), self.parameter()),
            self.atom, self.atom, self.parameter, lambda: self.condition().to(self.dtype), lambda: absolute(self.atom()),
            lambda: self.atom() / self.parameter(), lambda: tanh(self.atom()) * self.parameter(),
            lambda: absolute(self.atom() - self.result()), lambda: maximum(self.atom(), self.number()),
            lambda: minimum(self.atom(), self.atom()), lambda: self.atom().to(f32).to(self.dtype),
            lambda: sqrt(absolute(self.atom()) + 1.0), lambda: log(absolute(self.atom()) + 1.0) - self.result(),
            lambda: self.atom() * self.slope + self.sink,
        )  # fmt: skip

    def body(self) -> E:
        made = self.factor()
        for _ in range(self.random.choice((0, 0, 1, 1, 2, 3))):
            other = self.factor()
            made = self.pick(lambda a=made, b=other: a * b, lambda a=made, b=other: a * b, lambda a=made, b=other: a + b,
                             lambda a=made, b=other: a - b)  # fmt: skip
        return where(self.condition(), made, 0.0) if self.random.random() < 0.15 else made

    def reduction(self) -> E:
        first = not self.results
        return self.pick(
            lambda: self.to.max(self.score() if first or self.random.random() < 0.7 else self.score() - self.result()),
            lambda: self.to.sum(self.body() * 0.0625), lambda: self.to.sum(self.body()), lambda: self.to.sum(self.body()),
            lambda: self.to.sum(self.body()), lambda: self.to.min(self.atom()), lambda: self.to.map(self.parameter()),
            lambda: self.to.max(absolute(self.atom())), lambda: self.to.sum(exp(self.score() - self.result())),
        )  # fmt: skip

    def drawn(self) -> Formulas:
        """Draw one to five reductions."""
        for _ in range(self.random.randint(1, 5)):
            self.results.append(self.reduction())
        return self.to


@dataclass(frozen=True)
class CascadeCase:
    """Reductions of one seed."""

    seed: int
    names: tuple[str, ...]
    region: Region

    def arrays(self, number: int) -> list[Numbers]:
        """Data: [extent, rows] for what varies, [1, rows] for what does not; masks may leave nothing of a row."""
        source = np.random.default_rng([self.seed, number])
        extent = int(source.choice((1, 2, 7, 16, 33, 60)))
        size = float(source.choice((1.0, 1.0, 3.0, 30.0)))
        shape, fixed = (extent, ROWS), (1, ROWS)
        share = source.choice((0.0, 0.3, 0.7, 1.0), (1, ROWS), p=(0.15, 0.25, 0.4, 0.2))
        made = {
            "s": source.normal(size=shape) * size, "x": source.normal(size=shape), "y": source.normal(size=shape) + 0.5,
            "visible": source.random(shape) < share, "j": np.broadcast_to(np.arange(extent)[:, None], shape),
            "slope": source.random(fixed), "sink": source.normal(size=fixed),
            "i": source.integers(-1, extent + 1, fixed),
        }  # fmt: skip
        return [made[name] for name in self.names]


def cascade_case_of(seed: int, dtype: DType = f64) -> CascadeCase:
    """The reductions of `seed`."""
    to = CascadeWriter(random.Random(seed), dtype).drawn()
    return CascadeCase(seed, tuple(to.names), to.region())


def check_cascade(case: CascadeCase, datasets: int = 2) -> Outcome:
    """Derive the loop and compare it with the reductions one after the other; refused with a reason is no failure."""
    try:
        cascade = derive(case.region)
    except NotSeparable as reason:
        return Outcome("refused", reason.reason)
    except Exception as error:  # noqa: BLE001 - a finding
        return Outcome("fails", f"{type(error).__name__}: {error}")
    skipped = True
    for number in range(datasets):
        arrays = case.arrays(number)
        extent = len(arrays[0])
        cuts = sorted(np.random.default_rng(number).choice(np.arange(1, extent), min(3, extent - 1), replace=False)) \
            if extent > 1 else []  # fmt: skip
        wanted = disturbed_reductions(case.region, arrays, None)
        runs = [disturbed_reductions(case.region, arrays, np.random.default_rng(n)) for n in range(_SAMPLES)]
        for how in ("sequential", "tree", "reversed"):
            found = compute(cascade, arrays, [int(cut) for cut in cuts], how)
            sound = np.ones(ROWS, np.bool_)
            for place, made in enumerate(found):
                assert made is not None
                sound &= _is_sound(case.region.reductions[place - 1].kind, wanted[place - 1][0]) if place else True
                wrong, known = _wrong(wanted[place], [run[place] for run in runs], np.broadcast_to(made, (ROWS,)))
                skipped &= not known
                wrong &= sound
                if wrong.any():
                    row = int(np.argmax(wrong))
                    detail = f"data {number}, {how}, r{place}[{row}]: {wanted[place][0][row]!r}, here {np.broadcast_to(made, (ROWS,))[row]!r}"
                    return Outcome("differs", f"{detail}\n{cascade.describe(case.names)}")
    return Outcome("skipped" if skipped else "agrees")


Result = tuple[Numbers, Numbers]
"""A result, and the size of what was added up for it."""


def _wrong(wanted: Result, runs: Sequence[Result], found: Numbers) -> tuple[Numbers, bool]:
    """Where a result is off by more than disturbed runs are, and whether any is known at all."""
    value, size = wanted
    others = np.stack([run[0] for run in runs])
    steady = np.isfinite(value) & np.all(np.isfinite(others), axis=0) & (size < 1e12)
    with np.errstate(all="ignore"):
        spread = np.max(np.abs(others - value), axis=0)
        steady &= spread <= 1e-4 * (np.abs(value) + size)
        far = ~(np.abs(found - value) <= 100 * spread + 10 * _RELATIVE * size + 1e-200)
    return steady & far, bool(steady.any())


def _is_sound(kind: str, value: Numbers) -> Numbers:
    """Where later results can be told: a maximum of nothing may be infinite, any other result is a number."""
    return np.isfinite(value) | ((kind in ("max", "min")) & ~np.isnan(value))


def _sum(values: Numbers) -> Numbers:
    return values.sum(axis=0)


_REDUCED: Final[dict[str, Callable[[Numbers], Numbers]]] = {
    "sum": _sum, "map": _sum, "max": lambda values: values.max(axis=0), "min": lambda values: values.min(axis=0),
}  # fmt: skip


def disturbed_reductions(region: Region, arrays: Sequence[Numbers], source: np.random.Generator | None) -> list[Result]:
    """The results of a region as it is written, where every sum is off a little (not without a source)."""
    extent = len(arrays[0])
    results: list[Result] = []
    with np.errstate(all="ignore"):
        for reduction in region.reductions:
            known = [*arrays, *(each[None] for each, _ in results)]
            length = 1 if reduction.kind == "map" else extent
            values: Numbers = np.broadcast_to(evaluate(reduction.body, known), (length, ROWS)).astype(np.float64)
            terms = np.broadcast_to(evaluate(magnitude(reduction.body), known), (length, ROWS)).astype(np.float64)
            size: Numbers = terms.sum(axis=0)
            made = _REDUCED[reduction.kind](values)
            if source is not None:
                noise: Numbers = source.uniform(-1, 1, made.shape) * _RELATIVE
                largest = size if reduction.kind in ("sum", "map") else np.abs(made)
                made = made + np.where(np.isfinite(largest), largest, 0) * noise
            results.append((made, size))
    return results


def magnitude(body: Expr) -> Expr:
    """An expression for the size of what an expression adds up: x - x is twice |x|, whose digits bound its error."""
    if not isinstance(body, Apply) or not body.dtype.is_float:
        return body if not body.dtype.is_float else apply("abs", body)
    if body.opcode in ("add", "sub", "mul"):
        left, right = map(magnitude, body.operands)
        return apply("mul" if body.opcode == "mul" else "add", left, right)
    if body.opcode == "neg":
        return magnitude(body.operands[0])
    if body.opcode == "select":
        condition, *sides = body.operands
        return apply("select", condition, *map(magnitude, sides))
    return apply("abs", body)


# -- as graphs ----------------------------------------------------------------------------------------------------


def graph_of_cascade(case: CascadeCase, extent: int, rows: int) -> Graph:
    """The reductions as a graph, whose scores `s` are a product, and the last of which weighs columns."""
    region, builder = case.region, GraphBuilder()
    dtype = region.atoms[0]
    inputs: list[Value] = []

    def given(kind: DType, shape: tuple[int, ...], name: str) -> Value:
        inputs.append(Value(Tensor(kind, shape), name))
        return inputs[-1]

    values: list[tuple[Value, tuple[int, ...]]] = []
    for number, name in enumerate(case.names):
        kind = region.atoms[number]
        if name == "s":
            q, k = given(dtype, (rows, 5), "q"), given(dtype, (extent, 5), "k")
            values.append((builder.contract(q, k, ((0, 2), (1, 2)), (0, 1)), (0, 1)))
        elif name in "ij":
            values.append((builder.iota(rows if name == "i" else extent), (0,) if name == "i" else (1,)))
        elif number in region.invariant:
            values.append((given(kind, (rows,), name), (0,)))
        else:
            along = (1,) if name == "y" else (0, 1)
            values.append((given(kind, (extent,) if name == "y" else (rows, extent), name), along))
    made_of: list[tuple[Value, Value]] = []
    for reduction in region.reductions:
        shape, places = ((rows,), (0,)) if reduction.kind == "map" else ((rows, extent), (0, 1))
        used = arguments(reduction.body)
        renamed = {number: Argument(place, [*region.atoms, *(each.body.dtype for each in region.reductions)][number])
                   for place, number in enumerate(used)}  # fmt: skip
        operands = [values[number] for number in used]
        body = builder.map(substitute(reduction.body, renamed), [value for value, _ in operands],
                           [[places.index(axis) for axis in axes] for _, axes in operands], shape)  # fmt: skip
        made = body if reduction.kind == "map" else builder.reduce(body, (1,), reduction.kind)
        values.append((made, (0,)))
        made_of.append((body, made))
    body, made = made_of[-1]
    outputs = [made]
    if region.reductions[-1].kind == "sum":
        outputs.append(builder.contract(body, given(dtype, (extent, 3), "v"), ((0, 1), (1, 2)), (0, 2)))
    return builder.finish("cascade", inputs, outputs)


def check_emitted(seed: int, target: str) -> Outcome:
    """Compare the kernels of a cascade with the oracle, on a graph of f32 (rarely f64)."""
    source = random.Random(seed)
    case = cascade_case_of(seed, source.choice((f32, f32, f32, f64)))
    extent, rows = source.choice((3, 16, 33, 64, 100, 257)), source.choice((1, 2, 17, 64, 130))
    graph = graph_of_cascade(case, extent, rows)
    numbers = np.random.default_rng(seed)
    given = [numbers.random(kind.type.shape) < 0.7 if kind.type.dtype == boolean
             else numbers.normal(size=kind.type.shape).astype(kind.type.dtype.numpy) for kind in graph.inputs]  # fmt: skip
    return check_built(graph, given, target)
