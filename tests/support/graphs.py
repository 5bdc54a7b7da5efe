"""Graphs in tests: drawn at random, run by every target that needs no GPU, and compared with the oracle bit for bit."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from hypothesis import strategies as st

from support.gradients import Make, graph_of
from support.targets import RUNNABLE
from tessera.core.base.dtypes import DType, bf16, boolean, f16, f32, f64, i32, i64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, Literal, apply
from tessera.core.graph.expr import cast as cast_expr
from tessera.core.graph.graph import Graph, Tensor, Value
from tessera.core.graph.index_maps import IndexMap, window
from tessera.core.graph.verify import verify
from tessera.core.schedule.plan import Group, Plan
from tessera.core.targets import generation
from tessera.graphs.executable import Executable
from tessera.graphs.steps import steps_of
from tessera.kernels.options import Options
from tessera.lowering.schedule.emit.to_program import to_program
from tessera.lowering.schedule.plan_graph import plan_graph
from tessera.performance.machine_kind import MachineKind
from tessera.runtime.interpret.graph import evaluate
from tessera.runtime.interpret.rounding import Numbers
from tessera.session.session import resolve_target, session

DTYPES: Final = (f32, f64, i32, i64, boolean, f16, bf16)
COMPUTED: Final = (f32, f64, i32, i64)
"""The dtypes of arithmetic; shorter floats are held, moved and multiplied by contractions."""


def small_integers(tensors: Sequence[Tensor], seed: int = 0) -> list[Numbers]:
    """Return random arrays of integers of -3 to 3 (0 and 1 for bool): sums and products of them are exact."""
    rng = np.random.default_rng(seed)
    return [
        rng.integers(*((0, 2) if tensor.dtype == boolean else (-3, 4)), tensor.shape).astype(tensor.dtype.numpy)
        for tensor in tensors
    ]


def normals(tensors: Sequence[Tensor], seed: int = 0) -> list[Numbers]:
    """Return normal floats; integers and bools as `small_integers` has them."""
    rng = np.random.default_rng(seed)
    return [
        np.asarray(rng.normal(size=tensor.shape)).astype(tensor.dtype.numpy)
        if tensor.dtype.is_float
        else small_integers([tensor], seed)[0]
        for tensor in tensors
    ]


def assert_same_bits(found: object, wanted: Numbers) -> None:
    """Compare dtypes, shapes and every bit, but for those of NaNs."""
    array = np.asarray(found)
    assert (array.dtype, array.shape) == (wanted.dtype, wanted.shape)
    wide = wanted.dtype.kind not in "biuf"
    a, b = (array.astype(np.float32), wanted.astype(np.float32)) if wide else (array, wanted)
    np.testing.assert_array_equal(a, b)
    if a.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(a) & ~np.isnan(a), np.signbit(b) & ~np.isnan(b))


def run(built: Graph, arrays: Sequence[Numbers], target: str) -> tuple[object, ...]:
    """Return the outputs of a graph on one target."""
    return Executable(built, Options(target=target))(*arrays)


def check(built: Graph, arrays: Sequence[Numbers] | None = None, *, targets: Sequence[str] = RUNNABLE) -> None:
    """Run a graph on small integers, for which every target has the oracle's bits."""
    arrays = small_integers([value.type for value in built.inputs]) if arrays is None else arrays
    wanted = evaluate(built, arrays)
    for target in targets:
        for found, each in zip(run(built, arrays, target), wanted, strict=True):
            assert_same_bits(found, each)


def close(built: Graph, arrays: Sequence[Numbers], tolerance: float, *, targets: Sequence[str] = RUNNABLE) -> None:
    """Compare the outputs of a graph with the oracle's, relatively to the greatest of each."""
    wanted = evaluate(built, arrays)
    for target in targets:
        for found, each in zip(run(built, arrays, target), wanted, strict=True):
            scale = max(1.0, float(np.max(np.abs(each.astype(np.float64)), initial=0.0)))
            np.testing.assert_allclose(
                np.asarray(found).astype(np.float64), each.astype(np.float64), rtol=tolerance, atol=tolerance * scale
            )


def planned(make: Make, *inputs: tuple[DType, tuple[int, ...]]) -> Plan:
    """Return the kernels of a graph that is taken as it is."""
    return plan_graph(graph_of(make, *inputs))


def only(plan: Plan) -> Group:
    """Return the only kernel of a plan."""
    (group,) = plan.groups
    return group


def compiled_for_hopper(built: Graph) -> list[str]:
    """Compile every kernel of a graph to PTX for sm_90a, as if all arrays lay at multiples of 16 bytes."""
    executable, target = Executable(built), resolve_target("cuda:sm_90a")
    machine = MachineKind(generation(target.arch), None, target.kind.tile_elements)
    texts: list[str] = []
    for group in executable.plan.groups:
        steps = steps_of(group, machine)
        aligned = dict.fromkeys([*group.inputs, *group.outputs], True)
        program = to_program(group, steps.blocks, steps.options, built.source, aligned).program
        texts.append(session().compile(program, target).ir("ptx"))
    return texts


# Random graphs


class GraphDrawer:
    """Draws a graph node by node.  pool: the values so far"""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.builder = GraphBuilder()
        shapes = st.lists(st.sampled_from((1, 2, 3, 4, 5, 8, 17)), max_size=3).map(tuple)
        shapes = shapes | st.lists(st.sampled_from((0, 1, 3)), min_size=1, max_size=2).map(tuple)
        kinds = draw(st.lists(st.tuples(st.sampled_from(DTYPES), shapes), min_size=1, max_size=3))
        self.inputs = [Value(Tensor(dtype, shape), f"x{n}") for n, (dtype, shape) in enumerate(kinds)]
        self.pool: list[Value] = list(self.inputs)

    def drawn(self) -> Graph:
        """Draw up to 14 steps, and one to three outputs."""
        often = (self._map, self._reduce, self._contract) * 2
        steps = (*often, self._cast, self._broadcast, self._reshape, self._transpose, self._window, self._concat,
                 self._gather, self._scatter, self._iota)  # fmt: skip
        for _ in range(self.draw(st.integers(1, 14))):
            made = self.draw(st.sampled_from(steps))()
            if made is not None and made.type.size <= 4096:
                self.pool.append(made)
        outputs = self.draw(st.lists(st.sampled_from(self.pool), min_size=1, max_size=3))
        built = self.builder.finish("random", self.inputs, outputs)
        verify(built)
        return built

    def _value(self, holds: Callable[[Value], bool] = lambda _: True) -> Value | None:
        fitting = [value for value in self.pool if holds(value)]
        return fitting[-1 - self.draw(st.integers(0, len(fitting) - 1))] if fitting else None

    def _computed(self) -> Value | None:
        value = self._value()
        if value is None or value.type.dtype in COMPUTED:
            return value
        return self.builder.cast(value, self.draw(st.sampled_from(COMPUTED)))

    def _map(self) -> Value | None:
        x = self._computed()
        if x is None:
            return None
        y = self._value(lambda v: v.type.dtype == x.type.dtype and _fits(v, x)) or x
        opcode = self.draw(st.sampled_from(("add", "sub", "mul", "min", "max", "select")))
        if opcode != "select":
            return self.builder.binary(opcode, x, y)
        dtype = x.type.dtype
        a, b = Argument(0, dtype), Argument(1, dtype)
        test = apply("cmp", a, Literal(0.0 if dtype.is_float else 0, dtype), predicate="lt")
        return self.builder.elementwise(apply("select", test, b, apply("neg", a)), [x, y])

    def _cast(self) -> Value | None:
        x = self._value()
        return x and self.builder.elementwise(
            cast_expr(Argument(0, x.type.dtype), self.draw(st.sampled_from(DTYPES))), [x]
        )

    def _broadcast(self) -> Value | None:
        x = self._value(lambda v: len(v.type.shape) < 3)
        if x is None:
            return None
        place = self.draw(st.integers(0, len(x.type.shape)))
        extent = self.draw(st.sampled_from((1, 2, 3)))
        shape = (*x.type.shape[:place], extent, *x.type.shape[place:])
        return self.builder.broadcast(x, [axis for axis in range(len(shape)) if axis != place], shape)

    def _reshape(self) -> Value | None:
        x = self._value()
        if x is None:
            return None
        size, shape = x.type.size, list[int]()
        while size > 1 and len(shape) < 3:
            factors = [each for each in range(1, size + 1) if size % each == 0]
            shape.append(self.draw(st.sampled_from(factors)))
            size //= shape[-1]
        shape.append(size)
        return self.builder.reshape(x, shape)

    def _transpose(self) -> Value | None:
        x = self._value(lambda v: len(v.type.shape) > 1)
        return x and self.builder.transpose(x, self.draw(st.permutations(range(len(x.type.shape)))))

    def _window(self) -> Value | None:
        x = self._value(lambda v: len(v.type.shape) > 0)
        return x and self.builder.view(x, self.draw(windows(x.type.shape)))

    def _reduce(self) -> Value | None:
        kind = self.draw(st.sampled_from(("sum", "max", "min")))
        x = self._computed() if kind == "sum" else self._value(lambda v: v.type.dtype in (*COMPUTED, boolean))
        if x is None:
            return None
        rank = len(x.type.shape)
        axes = self.draw(st.sets(st.integers(0, rank - 1), min_size=1)) if rank else set[int]()
        return self.builder.reduce(x, axes, kind)

    def _contract(self) -> Value | None:
        x = self._value(lambda v: v.type.dtype != boolean and len(v.type.shape) > 0 and v.type.dtype != i64)
        y = x and self._value(lambda v: v.type.dtype == x.type.dtype and bool(set(v.type.shape) & set(x.type.shape)))
        if x is None or y is None:
            return None
        left = tuple(range(len(x.type.shape)))
        free = list(left)
        right: list[int] = []
        for number, extent in enumerate(y.type.shape):
            same = [label for label in free if x.type.shape[label] == extent]
            label = self.draw(st.sampled_from([*same, 10 + number]))
            free = [each for each in free if each != label]
            right.append(label)
        both = list(dict.fromkeys([*left, *right]))
        result = self.draw(st.permutations([label for label in both if label not in right or label not in left]))
        kept = [label for label in both if label in right and label in left and self.draw(st.booleans())]
        return self.builder.contract(x, y, (left, tuple(right)), (*kept, *result))

    def _concat(self) -> Value | None:
        x = self._value(lambda v: len(v.type.shape) > 0)
        if x is None:
            return None
        axis = self.draw(st.integers(0, len(x.type.shape) - 1))
        rest = _without(x, axis)
        y = self._value(lambda v: v.type.dtype == x.type.dtype and len(v.type.shape) == len(x.type.shape)
                        and _without(v, axis) == rest)  # fmt: skip
        return self.builder.concat([x, y or x, x][: self.draw(st.integers(2, 3))], axis)

    def _indices(self) -> Value | None:
        return self._value(lambda v: v.type.dtype in (i32, i64) and len(v.type.shape) < 3)

    def _gather(self) -> Value | None:
        table, index = self._value(lambda v: len(v.type.shape) > 0), self._indices()
        if table is None or index is None:
            return None
        return self.builder.gather(table, index, self.draw(st.integers(0, len(table.type.shape) - 1)))

    def _scatter(self) -> Value | None:
        index = self._indices()
        if index is None:
            return None
        rank = len(index.type.shape)
        values = self._value(lambda v: v.type.dtype in COMPUTED and v.type.shape[:rank] == index.type.shape)
        return values and self.builder.scatter_add(index, values, self.draw(st.integers(1, 5)), 0)

    def _iota(self) -> Value:
        return self.builder.iota(self.draw(st.integers(1, 5)))


def _fits(v: Value, x: Value) -> bool:
    pairs = zip(reversed(v.type.shape), reversed(x.type.shape), strict=False)
    return all(a == b or 1 in (a, b) for a, b in pairs)


def _without(value: Value, axis: int) -> tuple[int, ...]:
    return (*value.type.shape[:axis], *value.type.shape[axis + 1 :])


@st.composite
def windows(draw: st.DrawFn, shape: Sequence[int]) -> IndexMap:
    """Views of some elements along each axis, also backwards, steps apart, and from outside."""
    starts = [draw(st.integers(-1, max(size - 1, 0))) for size in shape]
    steps = [draw(st.sampled_from((1, 1, 2, -1))) for _ in shape]
    extents = [draw(st.integers(0 if size == 0 else 1, size + 2)) for size in shape]
    return window(shape, starts, steps, extents)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Small graphs of every primitive that kernels exist for."""
    return GraphDrawer(draw).drawn()
