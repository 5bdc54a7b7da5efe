"""Kernels as objects: calls, grids, plans, targets, options."""

# The names of shapes in kernels are bound at launch, and the language reads the bodies, not Python.
# pyright: reportUndefinedVariable=false, reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportGeneralTypeIssues=false, reportInvalidTypeForm=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportAttributeAccessIssue=false

import inspect
import warnings
from contextlib import nullcontext
from importlib.util import find_spec

import ml_dtypes
import numpy as np
import pytest

import tessera
from support.fake_cuda import FakeDriver, install
from tessera import ceil_div, f32, kernel, launch, mut, tensor, tile
from tessera.api.decorator import decorate
from tessera.core.errors.catalog import (
    ArgumentCount,
    ArgumentType,
    BadGrid,
    BadKernelOption,
    BadStream,
    BadTileIR,
    CudaFailure,
    ExtentMismatch,
    LossyStore,
    NoImplementation,
    NotAnArray,
    ReadOnlyArray,
    UnknownLevel,
)
from tessera.core.settings import overridden
from tessera.kernels.kernel import Kernel
from tessera.kernels.options import Options, read_options
from tessera.runtime.binding.grid import Grid
from tessera.session.compiled import IrText

N = 300
FACTOR = 3.0


@kernel
def scale(x: "f32[n]", y: "mut[f32[n]]", alpha: f32 = 2.0):
    """Multiply by a number."""
    i = tile.linear_id()
    if i < n:
        y[i] = alpha * x[i]


@kernel
def triple(X: tensor[f32], Out: tensor[f32]):
    i = launch.thread_id()
    if i < X.shape[0]:
        Out[i] = FACTOR * X[i]


@kernel
def double_any(X, Out, k):
    i = launch.thread_id()
    if i < X.shape[0]:
        Out[i] = X[i] * k


@kernel(tile=(64,), shared=1024)
def block_sums(x: "f32[n]", out: "mut[f32[grid_groups]]"):
    smem = tessera.tshared.alloc[f32](64)
    i = tile.linear_id()
    g = tessera.group_linear_id()
    if g * 64 + i < n:
        smem[i] = x[g * 64 + i]
    else:
        smem[i] = 0.0
    tessera.tbarrier()
    if i == 0:
        out[g] = tessera.reduce_sum(smem)


@kernel
def product(A: "f16[m, k]", B: "f16[k, n]", C: "mut[f32[m, n]]"):
    for i in tile.range(m, step=256):
        for j in tile.range(n, step=256):
            total = tile.zeros((256, 256), f32)
            for l in tile.range(k, step=32):
                total += tile.dot(A[i : i + 256, l : l + 32], B[l : l + 32, j : j + 256])
            C[i : i + 256, j : j + 256] = total


@kernel
def rows(A: "f32[m, 32]", Out: "mut[f32[m, 32]]"):
    Out[:] = tile.softmax(A[:, :], axis=-1)


@kernel
def declared(x: "f32[n]", y: "mut[f32[n]]"): ...


X = np.arange(N, dtype=np.float32)


def zeros() -> np.ndarray:
    return np.zeros(N, np.float32)


@pytest.fixture(params=["cpu", "interpret"])
def target(request: pytest.FixtureRequest):
    with overridden(target=request.param):
        yield request.param


@pytest.mark.usefixtures("target")
def test_call():
    y = zeros()
    assert scale(X, y, 3.0) is None
    np.testing.assert_array_equal(y, 3 * X)


@pytest.mark.usefixtures("target")
def test_keywords_and_defaults():
    y = zeros()
    scale(y=y, x=X)
    np.testing.assert_array_equal(y, 2 * X)
    scale(X, y, alpha=5)
    np.testing.assert_array_equal(y, 5 * X)


@pytest.mark.usefixtures("target")
def test_grids():
    for run in (
        launch.grid(blocks=(ceil_div(N, 256),), threads=(256,))(triple),
        triple[(2,), (256,)],
        triple[2, 256],
        triple[512],
    ):
        y = zeros()
        run(X, y)
        np.testing.assert_array_equal(y, 3 * X)
    y = zeros()
    triple[1, 100](X, Out=y)
    np.testing.assert_array_equal(y[:100], 3 * X[:100])
    assert not y[100:].any()


@pytest.mark.usefixtures("target")
def test_groups_and_shared_memory():
    out = np.zeros(5, np.float32)
    block_sums(X, out)
    want = [X[i : i + 64].sum() for i in range(0, N, 64)]
    np.testing.assert_allclose(out, want)
    out[:] = 0
    block_sums[(2,), (64,)](X, out[:2])
    np.testing.assert_allclose(out, [*want[:2], 0, 0, 0])
    with pytest.raises(BadGrid):
        block_sums[(2,), (32,)](X, out)


@pytest.mark.usefixtures("target")
def test_extents_that_are_compiled_in():
    for count in (1, 3, 200):
        a = np.random.default_rng(count).standard_normal((count, 32)).astype(np.float32)
        out = np.zeros_like(a)
        rows(a, out)
        e = np.exp(a - a.max(axis=1, keepdims=True))
        np.testing.assert_allclose(out, e / e.sum(axis=1, keepdims=True), rtol=1e-5)


@pytest.mark.usefixtures("target")
@pytest.mark.parametrize(
    "dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, np.int64, np.int32, np.int8, np.uint8]
)
def test_unannotated_parameters_take_any_type(dtype: type):
    x = np.arange(20).astype(dtype)
    out = np.zeros_like(x)
    double_any(x, out, dtype(2))
    np.testing.assert_array_equal(out, x * dtype(2))


def test_a_number_types_an_unannotated_parameter_each_time():
    x, out = np.arange(4), np.zeros(4, np.int64)
    double_any(x, out, 3)
    assert list(out) == [0, 3, 6, 9]
    with pytest.raises(LossyStore):  # as in a fresh process: 2.5 is a float
        double_any(x, out, 2.5)
    y = np.zeros(4, np.float32)
    double_any(x.astype(np.float32), y, 2.5)
    assert list(y) == [0, 2.5, 5, 7.5]
    double_any(x, out, np.array(4))
    assert list(out) == [0, 4, 8, 12]


def test_strided_arrays():
    whole = np.zeros((N, 2), np.float32)
    triple(np.repeat(X, 2)[::2], whole[:, 1])
    np.testing.assert_array_equal(whole[:, 1], 3 * X)
    assert not whole[:, 0].any()


def test_arrays_with_and_without_gaps_have_their_own_code():
    y = zeros()
    triple(np.repeat(X, 2)[::2], y)
    strided = triple.last
    triple(X, y)
    contiguous = triple.last
    assert (strided.artifact.bindings[0].type.contiguous, contiguous.artifact.bindings[0].type.contiguous) == (
        False,
        True,
    )
    triple(np.repeat(X, 2)[::2], y)
    assert triple.last.entry is strided.entry


def test_one_compilation_serves_many_extents():
    y = zeros()
    scale(X, y, 1.0)
    first = scale.last
    scale(X[:7], y[:7], 1.0)
    scale(np.zeros(0, np.float32), np.zeros(0, np.float32), 1.0)
    assert scale.last.entry is first.entry


def test_a_changed_global_is_noticed(monkeypatch: pytest.MonkeyPatch):
    y = zeros()
    triple(X, y)
    monkeypatch.setitem(globals(), "FACTOR", 4.0)
    triple(X, y)
    np.testing.assert_array_equal(y, 4 * X)


def test_closures():
    def make(factor: float) -> Kernel:
        @kernel
        def times(X: tensor[f32], Out: tensor[f32]):
            i = launch.thread_id()
            if i < X.shape[0]:
                Out[i] = factor * X[i]

        return times

    y = zeros()
    make(7.0)(X, y)
    np.testing.assert_array_equal(y, 7 * X)
    make(8.0)(X, y)
    np.testing.assert_array_equal(y, 8 * X)


def test_mistakes_point_at_the_parameter():
    with pytest.raises(ArgumentCount, match="missing a required argument: 'y'") as caught:
        scale(X)
    assert "def scale" in str(caught.value)
    with pytest.raises(ArgumentCount, match="unexpected keyword argument 'beta'"):
        scale(X, X, beta=1)
    with pytest.raises(NotAnArray, match="y is a list; a kernel takes arrays and numbers") as caught:
        scale(X, [0.0])
    assert caught.value.hint == "pass np.asarray(y)"
    assert "^^^^" in str(caught.value)
    with pytest.raises(ArgumentType, match="y holds f32, and the array given holds f64"):
        scale(X, np.zeros(N))
    with pytest.raises(ExtentMismatch, match="x has n = 300 but y has n = 299"):
        scale(X, zeros()[1:])
    with pytest.raises(ArgumentType, match="complex128, which Tessera has no type for"):
        triple(np.zeros(3, complex), zeros())
    with pytest.raises(NotAnArray, match="k is 'two'"):
        double_any(X, zeros(), "two")


def test_a_mistake_leaves_the_kernel_usable():
    y = zeros()
    for bad in (lambda: scale(X, y[:3]), lambda: scale(X), lambda: scale(X, None)):
        with pytest.raises(tessera.TesseraError):
            bad()
        assert not y.any()
    scale(X, y, 2.0)
    np.testing.assert_array_equal(y, 2 * X)


def test_read_only_outputs():
    y = zeros()
    y.flags.writeable = False
    with pytest.raises(ReadOnlyArray):
        scale(X, y)


def test_what_can_only_be_copied_is_no_output():
    class Copying:
        def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
            return X.copy()

    y = zeros()
    scale(Copying(), y, 2.0)
    np.testing.assert_array_equal(y, 2 * X)
    with pytest.raises(NotAnArray, match="gives no view of its memory"):
        scale(X, Copying(), 2.0)


def test_a_declaration_cannot_be_called():
    with pytest.raises(NoImplementation, match="declared is only declared"):
        declared(X, zeros())


def test_metadata():
    assert scale.__name__ == "scale"
    assert scale.__doc__ == "Multiply by a number."
    assert repr(scale) == "<kernel scale(x, y, alpha)>"
    assert list(inspect.signature(scale).parameters) == ["x", "y", "alpha"]
    assert scale.__wrapped__.__name__ == "scale"
    scale(X, zeros())
    assert repr(scale.last) == "<compiled scale for cpu: x: array<nxf32>, y: mut array<nxf32>, alpha: f32; 1 group>"


def test_inspect_ir():
    text = scale.inspect_ir("tile")
    assert isinstance(text, IrText)
    assert "tessera.id lane" in text
    line = next(line for line in text.listing.lines if "tessera.write" in line.text)
    assert scale.source.source.line(line.spans[0].line).strip() == "y[i] = alpha * x[i]"
    assert "define" in scale.inspect_ir("llvm")


@pytest.mark.parametrize("given", [3, b"module {}", ["module {}"]])
def test_tile_ir_to_compile_from_is_text(given: object):
    with pytest.raises(BadTileIR, match="from_ir is Tile IR as text") as caught:
        scale.compile(X, zeros(), 3.0, from_ir=given)  # pyright: ignore[reportArgumentType] - the mistake
    assert "compile(...).mlir(stage)" in caught.value.hint


def test_inspect_without_a_call():
    @kernel
    def fresh(x: "f32[n]", y: "mut[f32[n, 4]]", k: "i32"):
        i = launch.thread_id()
        if i < n:
            y[i, 0] = x[i]

    assert "tessera.write" in fresh.inspect_ir()
    assert fresh.compile().levels == ("source", "tile", "target", "llvm", "asm")

    @kernel
    def vague(x, y: "mut[f32[n]]"):
        y[0] = x[0]

    with pytest.raises(UnknownLevel, match="x's annotation alone does not say what to compile for") as caught:
        vague.inspect_ir()
    assert caught.value.hint == "call it first, or compile it for arguments: vague.compile(x, y)"
    assert "tessera.write" in vague.inspect_ir("tile", X, zeros())

    @kernel
    def fixed(A: "f32[m, k]", Out: "mut[f32[m, k]]"):
        Out[:] = tile.softmax(A[:, :], axis=-1)

    with pytest.raises(UnknownLevel, match="does not say what to compile for"):
        fixed.inspect_ir()


def test_unknown_levels():
    with pytest.raises(UnknownLevel, match="'tiles' is no level of a kernel compiled for cpu") as caught:
        scale.inspect_ir("tiles")
    assert caught.value.hint == "choose one of source, tile, target, llvm, asm"
    with pytest.raises(UnknownLevel, match="'tile' has no stage 'nothing'"):
        scale.inspect_ir("tile", stage="nothing")
    assert "func" in scale.inspect_ir("tile", stage="to-tile")


def _missing_gpu() -> bool:
    return find_spec("cuda") is None or find_spec("cupy") is None


def test_cuda_can_be_inspected_without_a_gpu():
    assert ".visible .entry" in scale.inspect_ir("ptx")
    with pytest.raises(CudaFailure) if _missing_gpu() else nullcontext():
        decorate(scale, Options(target="cuda"))(X, zeros())


def test_what_lacks_registers_is_warned_of_and_a_search_is_not(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tessera.lowering.cuda.resources.spill_note", lambda artifact: f"{artifact.name} spills")
    x = zeros()
    with pytest.warns(RuntimeWarning, match="scale spills") as caught:
        scale.compile(x, x, 2.0, target="cuda:sm_80")
    assert caught[0].filename == __file__
    scale.compile_quietly(x, x, 2.0, target="cuda:sm_80")
    scale.compile(x, x, 2.0)  # for the CPU


def test_a_product_that_misses_the_tensor_cores_is_warned_of_with_its_line():
    kernel = product.variant(num_warps=4)
    arrays = [np.zeros((256, 256), np.float16), np.zeros((256, 256), np.float16), np.zeros((256, 256), np.float32)]
    line = next(op.span.line for op in kernel.program(tuple(arrays)).body.walk() if op.opcode == "dot")
    assert "tile.dot" in product.source.source.line(line)
    with pytest.warns(RuntimeWarning, match=rf"line {line}\): the product has no tensor cores on sm_80") as caught:
        kernel.compile(*arrays, target="cuda:sm_80")
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel.compile_quietly(*arrays, target="cuda:sm_80")


def test_an_option_that_does_not_fit_a_kernel_is_a_mistake_at_the_product():
    arrays = [np.zeros((256, 256), np.float16), np.zeros((256, 256), np.float16), np.zeros((256, 256), np.float32)]
    with pytest.raises(BadKernelOption, match="have warp_columns=1, not 2") as caught:
        product.variant(warp_columns=2, num_warps=16).compile(*arrays, target="cuda:sm_90a")
    assert caught.value.span.line > 1
    with pytest.raises(BadKernelOption, match="warp_columns=3 is not one of"):
        product.variant(warp_columns=3)


def test_targets_of_a_kernel():
    y = zeros()
    interpreted = decorate(scale, Options(target="interpret"))
    interpreted(X, y, 2.0)
    np.testing.assert_array_equal(y, 2 * X)
    assert interpreted.last is None
    assert "tessera.id" in interpreted.inspect_ir("tile")


def test_the_sanitizer_finds_a_race():
    @kernel(tile=(64,), sanitize=True)
    def racy(x: "f32[n]", out: "mut[f32[n]]"):
        smem = tessera.tshared.alloc[f32](64)
        i = tile.linear_id()
        smem[i] = x[i]
        out[i] = smem[63 - i]

    with pytest.raises(tessera.TesseraError, match=r"TSR-E5\d\d"):
        racy(np.ones(64, np.float32), np.zeros(64, np.float32))


def test_what_is_no_stream_is_refused():
    with pytest.raises(BadStream):
        scale[1, 2, "fast"]
    with pytest.raises(BadGrid):
        scale[1, 2, 3, 4]
    with pytest.raises(BadStream):
        scale[1, 2].on(2.5)
    with pytest.raises(BadStream):
        scale.on(scale)
    assert scale.on(None).stream is None


def test_bad_grid():
    with pytest.raises(BadGrid):
        scale["4"]


def test_options_are_read():
    options = read_options({"tile": 64, "shared": 8 * tessera.KiB, "space": {"BM": [1, 2], "flag": True}})
    assert options == Options(tile=(64,), shared=8192, space={"BM": (1, 2), "flag": (True,)})
    assert read_options({"target": "cuda:sm_80"}).target == "cuda:sm_80"


def test_constants_go_before_globals():
    y = zeros()
    triple.variant(FACTOR=10.0)(X, y)
    np.testing.assert_array_equal(y, 10 * X)


def test_plans_survive_a_change_of_settings():
    y = zeros()
    scale(X, y, 2.0)
    with overridden(target="interpret"):
        scale(X, y, 3.0)
        np.testing.assert_array_equal(y, 3 * X)
        assert scale.last is None
    scale(X, y, 4.0)
    np.testing.assert_array_equal(y, 4 * X)
    assert scale.last is not None


def test_launch_spelled_out():
    y = zeros()
    triple.launch((X, y), grid=Grid((1,), (10,)))
    np.testing.assert_array_equal(y[:10], 3 * X[:10])
    assert not y[10:].any()


assert mut is tessera.mut


@pytest.mark.parametrize(("width", "copied"), [(64, False), (60, True)])
def test_a_gpu_that_is_only_looked_at_has_the_aligned_rows_of_the_call(width: int, copied: bool):
    """Rows that end at multiples of 16 bytes are not copied before each launch, though the CPU does not ask."""
    module = tessera.compile_source("""
@kernel
def product(a: f16[m, k], b: f16[n, k], c: mut f32[m, n]):
    for i in tile.range(m, step=64):
        for j in tile.range(n, step=64):
            total = tile.zeros((64, 64))
            for q in tile.range(k, step=64):
                total += tile.dot(a[i:i+64, q:q+64], b[j:j+64, q:q+64].T)
            c[i:i+64, j:j+64] = total
""")
    assert not module.product.compile(target="cuda:sm_90a").resources().notes
    arrays = (np.ones((64, width), np.float16), np.ones((64, width), np.float16), np.ones((64, 64), np.float32))
    module.product(*arrays)
    after_the_call = module.product.compile(target="cuda:sm_90a").resources()
    assert after_the_call == module.product.compile(*arrays, target="cuda:sm_90a").resources()
    assert bool(after_the_call.notes) == copied


def test_arrays_decide_what_a_kernel_runs_on(monkeypatch: pytest.MonkeyPatch):
    fake = install(monkeypatch, FakeDriver(2))
    host = np.zeros(N, np.float32)
    far = fake.device_array(host, device=1)
    assert scale.target_for((host, host)).name == "cpu"
    assert str(scale.target_for((host, far))) == "cuda:sm_90a"
    assert [c.target.name for c in (scale.compile(host, host), scale.compile(far, far))] == ["cpu", "cuda"]
    assert ".target sm_90a" in scale.inspect_ir("ptx", far, far)
    with overridden(target="cuda_tile"):
        assert str(scale.target_for((far, far))) == "cuda_tile:sm_90"
    with overridden(target="cuda:sm_80"):  # named, so it is that one
        assert str(scale.target_for((far, far))) == "cuda:sm_80"
    with overridden(target="interpret"):
        assert scale.target_for((far, far)).name == "interpret"
    fake.run = False
    scale(far, far)
    assert str(scale.target_for()) == "cuda:sm_90a"  # what the last call ran on
    assert scale.compile().target.name == "cuda"
    scale(host, host.copy())
    assert scale.compile().target.name == "cpu"
    named = Kernel(scale.function, read_options({"target": "cpu"}))
    assert named.target_for((far, far)).name == "cpu"


def test_the_same_constants_give_the_same_variant(monkeypatch: pytest.MonkeyPatch):
    ten = triple.variant(FACTOR=10.0)
    monkeypatch.setattr("tessera.kernels.kernel.check_constants", None)  # it walks the kernel's text: once is enough
    assert triple.variant(FACTOR=10.0) is ten
    monkeypatch.undo()
    assert triple.variant(FACTOR=np.float64(10.0)) is ten
    zeros = [triple.variant(FACTOR=value) for value in (0, 0.0, -0.0, False)]
    assert [repr(zero.options.constants["FACTOR"]) for zero in zeros] == ["0", "0.0", "-0.0", "False"]
    assert triple.variant(FACTOR=-0.0) is zeros[2]


def test_the_same_values_give_the_same_variant():
    kernel = tessera.compile_source("""
@kernel
def k(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=STEP):
        y[t:t+STEP] = x[t:t+STEP]
""").k
    assert kernel.variant(STEP=32) is kernel.variant(STEP=32)
    assert kernel.variant(STEP=32) is not kernel.variant(STEP=64)
    assert kernel.variant(STEP=1) is not kernel.variant(STEP=True)


def test_edited_ir_runs_in_place_of_the_kernels_own():
    y = zeros()
    scale(X, y, 3.0)
    text = scale.compile(X, y, 3.0).mlir()
    edited = scale.with_ir(text.replace("arith.mulf", "arith.addf", 1))
    edited(X, y, 3.0)
    np.testing.assert_array_equal(y, X + np.float32(3.0))
    scale(X, y, 3.0)
    np.testing.assert_array_equal(y, X * np.float32(3.0))
