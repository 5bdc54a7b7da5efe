"""Steps that run bodies: slices and truth of arrays, memory that is used again, and kernels that are compiled once."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false

from operator import attrgetter

import ml_dtypes
import numpy as np
import pytest

import tessera
from support.operators import Array, close, drawn
from tessera import op
from tessera.core.base.dtypes import f32
from tessera.core.graph.graph import Node, Tensor, Value
from tessera.core.settings import overridden
from tessera.graphs.body_steps import LoopStep, arrays_of_body, copy_of, slice_of, truth
from tessera.graphs.executable import Executable
from tessera.graphs.execution.frames import Frame, Workspace
from tessera.graphs.execution.prepared import PreparedGraph
from tessera.graphs.execution.supply import LibrarySupply
from tessera.graphs.function import GraphFunction
from tessera.runtime.arrays.pointers import address
from tessera.runtime.interpret.graph import evaluate
from tessera.runtime.memory.operands import Operand, operand
from tessera.runtime.memory.owned import DeviceArray
from tessera.session.session import resolve_target


def prepared(function: Array, *arrays: Array) -> tuple[Executable, PreparedGraph]:
    executable = GraphFunction(function).executable_for(*arrays)
    return executable, executable.prepared(resolve_target("interpret"), (False,) * len(arrays), arrays)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, ml_dtypes.bfloat16])
def test_slices_are_views(dtype: Array):
    x = drawn((3, 2, 5), np.float32).astype(dtype)
    for number in range(3):
        part = slice_of(operand(x, "x"), number)
        np.testing.assert_array_equal(part.view, x[number])
        assert np.shares_memory(part.view, x[number])
    row = slice_of(operand(x[0, 0].copy(), "x"), 4)
    assert row.shape == ()
    assert row.view == x[0, 0, 4]


def test_truth_is_read_from_the_host():
    node = Node("branch", (), ())
    assert truth(operand(np.array(True), "p"), node)
    assert not truth(operand(np.array(False), "p"), node)


def test_copies_are_graphs():
    x = drawn((2, 3), np.float32)
    (made,) = evaluate(copy_of(Tensor(f32, (2, 3))), [x])
    np.testing.assert_array_equal(made, x)


class Counted(LibrarySupply):
    """Counts the arrays that it makes."""

    def __init__(self) -> None:
        super().__init__("counted", operand(np.empty(0, np.uint8), ""))
        self.made = 0

    def array(self, kind: Tensor, name: str = "") -> Operand[object]:
        self.made += 1
        return super().array(kind, name)


def test_memory_is_used_again_in_every_trip():
    """However many trips there are, arrays are allocated for two sets of carries and one set of the rest."""

    def run(x: Array, xs: Array) -> Array:
        return op.scan(lambda c, v: (op.tanh(c @ v + v.sum()), c.sum()), x, xs)

    counts: list[int] = []
    for trips in (2, 9):
        x, xs = drawn((8,), np.float32), drawn((trips, 8, 8), np.float32, low=-0.3, high=0.3)
        _, ready = prepared(run, x, xs)
        supply = Counted()
        workspace = Workspace(Frame(ready.plan, supply))
        last, sums = ready.run([operand(x, "x"), operand(xs, "xs")], workspace)
        counts.append(supply.made)
        state = x.astype(np.float64)
        for number, v in enumerate(xs):
            close(sums.view[number], state.sum(), 1e-4)
            state = np.tanh(state @ v + v.sum())
        close(last.view, state, 1e-4)
    assert counts[0] == counts[1]


def test_bodies_are_planned_and_compiled_once():
    x, xs = drawn((4,), np.float32), drawn((6, 4), np.float32)
    executable, ready = prepared(lambda x, xs: op.scan(lambda c, v: (c + v, None), x, xs)[0], x, xs)
    (step,) = ready.steps
    assert isinstance(step, LoopStep)
    (bodies,) = executable.bodies.values()
    assert step.body.prepared.plan is bodies[0].plan
    assert executable.prepared(resolve_target("interpret"), (False, False), (x, xs)) is ready
    assert [kernel.group for kernel in executable.kernels(resolve_target("interpret"))] == list(bodies[0].plan.groups)


def test_kernels_of_bodies_know_how_slices_lie():
    """Rows of 16 bytes begin at multiples of 16 bytes wherever they stand, rows of 12 bytes do not."""
    for width, fits in ((4, True), (3, False)):
        loop = Node(
            "loop", tuple(Value(Tensor(f32, shape)) for shape in ((width,), (5, width), (5, 2, width))),
            tuple(Value(Tensor(f32, shape)) for shape in ((width,), (5, width))),
            {"trips": 5, "constants": 0, "carried": 1, "reverse": False},
        )  # fmt: skip
        inputs, outputs = arrays_of_body(loop, 0)
        assert inputs == [(loop.operands[0], True), (loop.operands[1], fits), (loop.operands[2], width % 2 == 0)]
        assert outputs == [(loop.results[0], True), (loop.results[1], fits)]


@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_90a"])
def test_bodies_compile_for_gpus(target: str):
    """Recurrence, branch and while, forwards and backwards, in f32 and f16."""

    def f(w: Array, x: Array, xs: Array) -> Array:
        last, ys = op.scan(lambda h, v: (op.tanh(h @ w + v), h.sum()), x, xs)
        return op.cond(ys.sum() > 0, lambda: last * 2, lambda: last).sum()

    for dtype in (np.float32, np.float16):
        given = [drawn(shape, dtype) for shape in ((16, 16), (8, 16), (3, 8, 16))]
        for function in (f, tessera.grad(f, (0, 1, 2))):
            with overridden(target="interpret"):
                executable = GraphFunction(function).executable_for(*given)
            kernels = executable.kernels(resolve_target(target))
            inner = [body for bodies in executable.bodies.values() for body in bodies]
            assert len(kernels) >= len(inner)
            assert all(kernel.compiled is not None for kernel in kernels)


def test_slices_of_memory_on_a_device_are_addresses():
    """Nothing is copied, and nothing asked of the driver: a slice begins where the ones before it end."""
    memory = np.zeros((4, 3, 2), np.float32)
    start = memory.ctypes.data
    whole = operand(DeviceArray.over(start, memory.shape, memory.dtype, 0, memory), "x")
    assert whole.on_device
    for number in range(4):
        part = slice_of(whole, number)
        assert isinstance(part.value, DeviceArray)
        assert part.value.address == start + 24 * number
        assert part.shape == (3, 2)
        assert part.value.owner is whole.value
    number = slice_of(slice_of(slice_of(whole, 2), 1), 1)
    assert number.shape == ()
    assert address(number.view) == start + 4 * (2 * 6 + 1 * 2 + 1)


def test_outputs_that_lie_elsewhere_are_copied_to_their_places():
    """What a body returns of its inputs, behind a routine, or through a reshaped result, is in its place all the same."""
    double = op.custom(lambda x: np.asarray(x) * 2, shape=lambda x: x.shape, name="double")

    def run(x: Array, xs: Array) -> Array:
        def step(c: Array, v: Array) -> Array:
            return double(c), (v, double(v).reshape(3, 2), (v + c).reshape(6), c)

        return op.scan(step, x, xs)

    x, xs = drawn((2, 3), np.float32), drawn((3, 2, 3), np.float32)
    for target in ("interpret", "cpu"):
        with overridden(target=target):
            last, (same, twice, flat, carries) = GraphFunction(run)(x, xs)
        np.testing.assert_array_equal(last, 8 * x)
        np.testing.assert_array_equal(same, xs)
        np.testing.assert_array_equal(twice, (2 * xs).reshape(3, 3, 2))
        np.testing.assert_array_equal(carries, np.stack([x, 2 * x, 4 * x]))
        np.testing.assert_array_equal(flat, (xs + carries).reshape(3, 6))


def _everything(w: Array, h: Array, xs: Array) -> Array:
    """A scan of rows of 3, which are not 16 bytes, a while and a branch."""
    last, norms = op.scan(lambda c, x: (op.tanh(c @ w + x), (c, c.sum())), h, xs, reverse=True)
    halved = op.while_(lambda c: c.max() > 0.1, lambda c: c * 0.5, last)
    return op.cond(halved.sum() > 10, lambda: halved * 2, lambda: halved - 1), last, norms[0], norms[1]


@pytest.mark.parametrize("library", ["numpy", "torch", "cupy", "jax"])
def test_arrays_of_every_library_stay_where_they_are(library: str):
    arrays = drawn((3, 3), np.float32), drawn((3,), np.float32), drawn((5, 3), np.float32)
    module = pytest.importorskip(library)
    names = {"numpy": "asarray", "torch": "tensor", "cupy": "asarray", "jax": "numpy.asarray"}
    make = attrgetter(names[library])(module)
    given = [make(each) for each in arrays]
    if library == "torch" and module.cuda.is_available():
        given = [each.cuda() for each in given]
    captured = GraphFunction(_everything).graph_for(*arrays).graph
    wanted = evaluate(captured, arrays)
    for got, want in zip(GraphFunction(_everything)(*given), wanted, strict=True):
        assert type(got) is type(given[0])
        host = got.get() if library == "cupy" else got.cpu().numpy() if library == "torch" else got
        close(host, want, 1e-5)
    gradient = tessera.grad(lambda w, h, xs: op.scan(lambda c, x: (op.tanh(c @ w + x), None), h, xs)[0].sum(), (0, 2))
    for got, want in zip(gradient(*given), gradient(*arrays), strict=True):
        host = got.get() if library == "cupy" else got.cpu().numpy() if library == "torch" else got
        close(host, want, 1e-4)
