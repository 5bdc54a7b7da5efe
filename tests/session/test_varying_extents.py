"""Kernels called with many lengths: which are compiled as numbers, which share code, and what they compute."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

import itertools
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

import tessera
from tessera import graph, op
from tessera.core.base.reductions import tree_sum
from tessera.core.errors.catalog import SharedOverflow
from tessera.core.program.program import Program
from tessera.core.program.text import to_text
from tessera.core.program.types import Array
from tessera.core.settings import overridden
from tessera.core.targets import Target
from tessera.kernels.kernel import Kernel
from tessera.session.compiled import Compiled
from tessera.session.session import Session, resolve_target, session
from tessera.session.varying_extents import FREQUENT, UntilFrequent, VaryingExtents

SOURCE = """
@kernel
def sums(x: f32[r, n], y: mut f32[r]):
    for i in tile.range(r):
        y[i] = tile.sum(tile.abs(x[i, :]))

@kernel
def means(x: f32[r, n], y: mut f32[r]):
    for i in tile.range(r):
        y[i] = tile.sum(x[i, :]) * (1.0 / n)

@kernel
def products(x: f32[r, n], y: mut f32[r, r]):
    y[:, :] = tile.dot(x[:, :], tile.transpose(x[:, :]))
"""
_NUMBERS = itertools.count(1)
CPU = resolve_target("cpu")


@pytest.fixture(autouse=True)
def two_exact() -> Iterator[None]:
    with overridden(exact_extents=2):
        yield


@pytest.fixture
def module() -> ModuleType:
    """Kernels of their own for each test, at lines of their own."""
    return tessera.compile_source("\n" * next(_NUMBERS) + SOURCE)


def array(width: int, rows: int = 3) -> np.ndarray:
    return np.random.default_rng(width).standard_normal((rows, width)).astype(np.float32)


def called(kernel: Kernel, width: int, rows: int = 3) -> Compiled:
    x = array(width, rows)
    y = np.zeros(rows, np.float32)
    kernel(x, y)
    assert np.array_equal(y, tree_sum(abs(x), axis=1))
    assert kernel.last is not None
    return kernel.last


def test_lengths_after_the_second_share_code(module: ModuleType):
    compiled = [called(module.sums, width) for width in (37, 61, 75, 89, 128, 129, 200)]
    assert [each.shared for each in compiled] == [False, False, True, True, True, True, True]
    codes = [each.artifact.code for each in compiled]
    assert codes[2] is codes[3] is codes[4]
    assert codes[5] is codes[6]
    assert codes[4] is not codes[5]


def test_lengths_that_came_first_stay_exact(module: ModuleType):
    for width in (37, 61, 75):
        called(module.sums, width)
    assert not called(module.sums, 37).shared
    assert not called(module.sums, 61, rows=5).shared


def test_other_rows_are_no_other_length(module: ModuleType):
    assert not any(called(module.sums, 40, rows).shared for rows in range(1, 9))  # `r` is a symbol


def test_a_launch_checks_the_length_that_it_was_made_for(module: ModuleType):
    for width in (37, 61, 75):
        called(module.sums, width)
    kind = module.sums.last.artifact.bindings[0].type
    assert isinstance(kind, Array)
    assert kind.shape == ("r", 75)
    called(module.sums, 200)  # by the fast path first, whose bucket is too short


def test_what_has_the_length_in_its_numbers_is_compiled_for_each(module: ModuleType):
    for width in (37, 61, 75, 89):
        x = array(width)
        y = np.zeros(3, np.float32)
        module.means(x, y)
        assert np.allclose(y, x.mean(1), atol=1e-6)
        assert not module.means.last.shared


def test_products_keep_their_extents(module: ModuleType):
    for width in (16, 32, 48, 64):
        x = array(width, rows=16)
        y = np.zeros((16, 16), np.float32)
        module.products(x, y)
        assert np.allclose(y, x @ x.T, atol=1e-4)
        assert not module.products.last.shared


def test_frequent_lengths_get_code_of_their_own(module: ModuleType):
    for width in (37, 61):
        called(module.sums, width)
    x, y = array(75), np.zeros(3, np.float32)
    for _ in range(FREQUENT + 2):
        module.sums(x, y)
    assert not called(module.sums, 75).shared
    assert called(module.sums, 76).shared


def test_large_arrays_count_for_many_calls(module: ModuleType):
    for width in (37, 61):
        called(module.sums, width)
    x, y, shared = array(75, rows=60_000), np.zeros(60_000, np.float32), list[bool]()
    for _ in range(5):
        module.sums(x, y)  # 18 MB: counts for 18 calls
        shared.append(module.sums.last.shared)
    assert shared == [True, True, True, True, False]


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def test_graphs_share_code():
    f = graph.module("scores")(lambda x: op.softmax(x * 2.0))
    bits: list[np.ndarray] = []
    kernels = []
    for width in (37, 61, 75, 89, 95):
        x = array(width)
        bits.append(np.asarray(f(x)))
        assert np.allclose(bits[-1], softmax(2 * x), rtol=1e-5, atol=1e-7)
        (kernel,) = f.executable_for(x).kernels(CPU)
        kernels.append(kernel.compiled)
    assert [each.shared for each in kernels] == [False, False, True, True, True]
    assert kernels[2].artifact.code is kernels[4].artifact.code
    with overridden(exact_extents=100):
        alone = graph.module("scores")(lambda x: op.softmax(x * 2.0))
        assert np.asarray(alone(array(89))).tobytes() == bits[3].tobytes()


def test_graphs_that_are_called_often_get_kernels_of_their_own():
    f = graph.module("often")(lambda x: op.softmax(x * 3.0))
    for width in (37, 61):
        f(array(width))
    x = array(75)
    first = np.asarray(f(x))
    executable = f.executable_for(x)
    assert executable.kernels(CPU)[0].compiled.shared
    for _ in range(FREQUENT):
        assert np.asarray(f(x)).tobytes() == first.tobytes()
    assert not executable.kernels(CPU)[0].compiled.shared


def test_loops_in_graphs_share_code_and_get_their_own():
    def steps(x):
        return op.scan(lambda carry, _: (op.softmax(carry * 2.0), None), x, None, length=3)[0]

    f = graph.module("looped")(steps)
    for width in (37, 61, 75, 89):
        x = array(width)
        wanted = x
        for _ in range(3):
            wanted = softmax(2 * wanted)
        assert np.allclose(np.asarray(f(x)), wanted, rtol=1e-5, atol=1e-6)
    executable = f.executable_for(array(89))
    assert any(kernel.compiled.shared for kernel in executable.kernels(CPU))
    for _ in range(FREQUENT):
        f(array(89))
    assert not any(kernel.compiled.shared for kernel in executable.kernels(CPU))


def test_a_bucket_that_the_compiler_refuses_is_compiled_exactly(module: ModuleType, monkeypatch: pytest.MonkeyPatch):
    fetch = Session._fetch

    def refusing(self: Session, key: str, program: Program, target: Target, observe: bool):
        if any(isinstance(p.value.type, Array) and "n" in p.value.type.shape for p in program.parameters):
            raise SharedOverflow("it does not fit")
        return fetch(self, key, program, target, observe)

    monkeypatch.setattr(Session, "_fetch", refusing)
    compiled = [called(module.sums, width) for width in (37, 61, 75, 89)]
    assert not any(each.shared for each in compiled)


def test_listings_show_the_code_that_runs(module: ModuleType):
    for width in (37, 61, 75):
        called(module.sums, width)
    assert "tile<128xf32>" in str(module.sums.inspect_ir("tile"))


def test_an_exact_compilation_is_had_for_the_asking(module: ModuleType):
    for width in (37, 61, 75):
        called(module.sums, width)
    program = module.sums.last.program
    assert session().compile(program, CPU).shared
    assert not session().compile(program, CPU, exact=True).shared


def test_what_is_compiled_for_arguments_is_exact(module: ModuleType):
    for width in (37, 61, 75):
        called(module.sums, width)
    compiled = module.sums.compile(array(75), np.zeros(3, np.float32))
    assert not compiled.shared
    assert "tile<75xf32>" in to_text(compiled.program)


def test_lengths_that_lie_otherwise_are_told_apart(module: ModuleType):
    gpu = resolve_target("cuda:sm_90a")
    varying = VaryingExtents()
    opened: list[bool] = []
    for width in (64, 61, 128, 75, 256, 77):  # every second one begins its rows at multiples of 16 bytes
        described = module.sums.described((array(width), np.zeros(3, np.float32)), gpu)
        program, _ = module.sums._specializer.program(described)
        opened.append(varying.opened(program, gpu) is not None)
    assert opened == [False, False, False, False, True, True]


def test_counting_ends_with_the_closure_or_with_many_calls():
    unchanged = UntilFrequent(counts=True)
    assert [unchanged() for _ in range(FREQUENT)] == [True] * (FREQUENT - 1) + [False]
    assert unchanged.frequent
    unchanged = UntilFrequent(counts=True)
    unchanged.weigh(31 << 20, on_gpu=False)
    assert [unchanged(), unchanged()] == [True, False]
    unchanged.weigh(31 << 20, on_gpu=True)
    assert unchanged.weight == 1
    assert not UntilFrequent(lambda: False)()


def test_few_families_are_remembered(module: ModuleType):
    varying = VaryingExtents()
    program = module.sums.program((array(37), np.zeros(3, np.float32)))
    assert varying.opened(program, CPU) is None
    assert varying.opened(program, CPU) is None
