"""Index launches: the documents' blocks with values, collectives that are inserted, mistakes, and stops."""

import threading
from collections.abc import Generator
from types import ModuleType

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import DTypeLike, NDArray

import tessera
from support.documents import BLOCKS
from support.interrupts import ctrl_c_reaches
from tessera import dist, op
from tessera.api.source_module import run_cell
from tessera.core.base.interrupts import raise_if_stopped
from tessera.core.errors.catalog import (
    BadIndexLaunch,
    NoImplementation,
    NotStored,
    RegionConflict,
    UnevenShards,
)
from tessera.core.settings import overridden
from tessera.runtime.shards.fold_leaves import fold_leaves

TP_GEMM = BLOCKS["tp_gemm"].replace("C: mut f32[M,N/tp]): ...", "C: mut f32[M,N/tp]):\n    C[:] = A @ B")
DEFINED, LAUNCHED = TP_GEMM.split("\n\n")


@pytest.fixture(params=["interpret", "cpu"], autouse=True)
def target(request: pytest.FixtureRequest) -> Generator[str]:
    """Run each test on both targets."""
    with overridden(target=request.param):
        yield request.param


def cell(text: str, **given: object) -> ModuleType:
    """Run a block with the names that the document has defined before it."""
    module = ModuleType("document")
    vars(module).update(given)
    run_cell(text, vars(module), name=f"<{text[:20]!r}>")
    return module


def drawn(*shape: int, dtype: DTypeLike = np.float32, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def put(values: NDArray[np.generic], layout: object, mesh: dist.Mesh, name: str) -> dist.Tensor:
    x = dist.tensor(values.shape, layout, mesh, values.dtype, name)  # pyright: ignore[reportArgumentType]
    x[...] = values
    return x


COLUMNS, ROWS = dist.ShardSpec("col", "tp"), dist.ShardSpec("row", "tp")


@pytest.mark.parametrize("shape", [(36, 72, 18), (20, 70, 31)], ids=str)
@pytest.mark.parametrize("layout", [COLUMNS, ROWS, None], ids=["columns", "rows", "whole"])
def test_tp_gemm_of_the_documents(layout: object, shape: tuple[int, int, int]):
    m, k, n = shape
    mesh = dist.mesh(axes=("dp", "tp", "pp"), devices=range(72), shape=(4, 9, 2))
    a, b = drawn(m, k, dtype=np.float16), drawn(k, n, dtype=np.float16, seed=1)
    c = dist.tensor((m, n), layout, mesh, "f32", "C")  # pyright: ignore[reportArgumentType]
    given = {"A": put(a, COLUMNS, mesh, "A"), "B": put(b, ROWS, mesh, "B"), "C": c}
    cell(f"{DEFINED}\n\n{LAUNCHED}", tessera=tessera, **given)
    got = np.asarray(c)
    np.testing.assert_allclose(got, a.astype(np.float64) @ b.astype(np.float64), atol=1e-5 * k)
    # Points have partial sums, and these are folded in leaf order.
    leaves = [np.zeros((m, n), np.float32) for _ in range(9)]
    kernel = cell("@kernel\ndef gemm(A: f16[M,K], B: f16[K,N], C: mut f32[M,N]):\n    C[:] = A @ B\n").gemm
    for number, leaf in enumerate(leaves):
        kernel(given["A"].parts("tp")[number], given["B"].parts("tp")[number], leaf)
    np.testing.assert_array_equal(got, fold_leaves(leaves))


def test_tp_gemm_says_which_collectives_were_inserted(target: str):
    mesh = dist.Mesh("tp", range(9))
    gemm = cell(DEFINED).tp_gemm
    a, b = (
        put(drawn(18, 36, dtype=np.float16), COLUMNS, mesh, "A"),
        put(drawn(36, 18, dtype=np.float16), ROWS, mesh, "B"),
    )
    c = dist.tensor((18, 18), COLUMNS, mesh, "f32", "C")
    launch = tessera.index_launch(axis="tp")(gemm)
    assert repr(launch) == "<tp_gemm launched over tp>"
    report = launch(a, b, c)  # the tensors themselves are the same as their parts
    assert repr(report).splitlines() == [
        "tp_gemm: 9 points along tp on simulated devices",
        "C: f32[18, 18]{sum: tp} -> f32[18, 18@tp]",
        "  reduce_scatter over tp -> f32[18, 18@tp], 1.1 KiB a device, 24.8 us",
        "1 step, 10.1 KiB received by 9 devices, 24.8 us estimated",
    ]
    first = np.asarray(c)
    # A whole, where the annotation has a shard: nothing is moved.  B cut by columns, where it has rows: an exchange.
    moved = launch(put(np.asarray(a), None, mesh, "A"), put(np.asarray(b), COLUMNS, mesh, "B"), c)
    assert [(name, step.kind) for name, plan in moved.collectives for step in plan.steps] == [
        ("A", "slice"), ("B", "all_to_all"), ("C", "reduce_scatter"),
    ]  # fmt: skip
    np.testing.assert_array_equal(np.asarray(c), first)


def test_parameters_that_are_whole_are_gathered():
    mesh = dist.Mesh("tp", range(4))
    gemm = cell("@kernel\ndef gemm(A: f16[M, K], B: f16[K, N/tp], C: mut f32[M, N/tp]):\n    C[:] = A @ B\n").gemm
    a, b = drawn(8, 12, dtype=np.float16), drawn(12, 8, dtype=np.float16, seed=1)
    c = dist.tensor((8, 8), COLUMNS, mesh, "f32", "C")
    report = tessera.index_launch("tp")(gemm)(put(a, COLUMNS, mesh, "A"), put(b, COLUMNS, mesh, "B"), c)
    assert [(name, step.kind) for name, plan in report.collectives for step in plan.steps] == [("A", "all_gather")]
    np.testing.assert_allclose(np.asarray(c), a.astype(np.float64) @ b.astype(np.float64), atol=1e-4)


def test_what_is_added_to_counts_once():
    mesh = dist.Mesh("tp", range(4))
    text = "@kernel\ndef add(A: f32[M, K/tp], B: f32[K/tp, N], C: mut f32[M, N]):\n    C[:] += A @ B\n"
    a, b, c = drawn(5, 12), drawn(12, 7, seed=1), drawn(5, 7, seed=2)
    for layout in (None, COLUMNS, ROWS):
        out = put(c, layout, mesh, "C")
        tessera.index_launch("tp")(cell(text).add)(put(a, COLUMNS, mesh, "A"), put(b, ROWS, mesh, "B"), out)
        np.testing.assert_allclose(np.asarray(out), c + a.astype(np.float64) @ b, atol=1e-5)


def test_kernels_of_lanes_and_scalars():
    mesh = dist.Mesh("tp", range(3))
    saxpy = cell(BLOCKS["saxpy"]).saxpy
    for n in (1, 2, 100):
        x, y = drawn(n), drawn(n, seed=1)
        out = put(y, dist.Block("tp"), mesh, "y")
        tessera.index_launch("tp")(saxpy)(put(x, dist.Block("tp"), mesh, "x"), out, 0.5)
        np.testing.assert_array_equal(np.asarray(out), np.float32(0.5) * x + y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", [(6, 4, 16), (7, 5, 9), (1, 3, 8)], ids=str)
def test_norm_layer_of_the_documents(shape: tuple[int, int, int], dtype: DTypeLike):
    tessera.dist.Mesh(("dp", "tp"), range(6), (3, 2))
    b, s, dm = shape
    text = BLOCKS["domain"].replace('dtype="bf16"', "dtype=dtype")
    found = cell(text, tessera=tessera, B=b, S=s, Dm=dm, dtype=np.dtype(dtype))
    x = drawn(b, s, dm, dtype=dtype)
    found.X[...] = x
    y = tessera.array.from_domain(found.D, dtype=np.dtype(dtype), distribution=found.dist)
    report = tessera.index_launch(("dp", "tp"))(found.norm_layer)(found.X.parts("dp", "tp"), y.parts("dp", "tp"))
    assert (report.points, report.collectives) == (6, [])
    want = np.empty_like(x)
    found.norm_layer(x, want)
    np.testing.assert_array_equal(np.asarray(y), want)
    wide = x.astype(np.float64)
    tolerance = 0.02 if np.dtype(dtype).itemsize == 2 else 1e-5
    np.testing.assert_allclose(
        want.astype(np.float64),
        wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6),
        rtol=tolerance,
        atol=tolerance,
    )


def test_step_of_the_documents():
    step = cell(BLOCKS["step"]).step
    mesh = dist.Mesh(("dp", "tp"), range(6), (2, 3))
    w, x, y = drawn(12, 8), drawn(9, 12, seed=1), drawn(9, 8, seed=2)
    given = put(w, ROWS, mesh, "W"), put(x, dist.ShardSpec(("row", "col"), ("dp", "tp")), mesh, "X")
    for layout in (dist.ShardSpec("row", "dp"), dist.ShardSpec(("row", "col"), ("dp", "tp"))):
        out = put(y, layout, mesh, "Y")
        if layout.partition == ("row",):
            report = tessera.index_launch("tp")(step)(*given, out)
            assert [step.kind for _, plan in report.collectives for step in plan.steps] == ["all_reduce"]
            np.testing.assert_allclose(np.asarray(out), y + x.astype(np.float64) @ w, atol=1e-5)
            fresh = dist.tensor(y.shape, layout, mesh, "f32", "Z")  # symbolic: the sum alone
            tessera.index_launch("tp")(step)(*given, fresh)
            np.testing.assert_allclose(np.asarray(fresh), x.astype(np.float64) @ w, atol=1e-5)


def test_sums_have_the_same_bits_for_every_number_of_points_that_holds_whole_leaves():
    """12 leaves of a sum, each a point: on 12 devices, and as partial sums that were folded before."""
    leaves = [drawn(4, 4, seed=seed) for seed in range(12)]
    mesh = dist.Mesh("tp", range(12))

    add = cell("@jit\ndef add(X: Region[read], Y: Region[reduce_sum]):\n    Y += X.reshape(4, 4)\n").add
    x = put(np.stack(leaves), dist.ShardSpec(0, "tp"), mesh, "X")
    y = dist.tensor((4, 4), None, mesh, "f32", "Y")
    tessera.index_launch("tp")(add)(x, y)
    np.testing.assert_array_equal(np.asarray(y), fold_leaves(leaves))


def test_any_function_is_launched_with_numpy_shards():
    mesh = dist.Mesh("tp", range(5))
    x = put(drawn(11, 2), ROWS, mesh, "x")
    meeting = threading.Barrier(5, timeout=30)

    def point(part: NDArray[np.float32], scale: float = 1.0) -> float:
        meeting.wait()  # all of them run at once
        with pytest.raises(ValueError, match="read-only"):
            part[...] = 0
        return float(part.sum()) * scale

    report = tessera.index_launch("tp")(point)(x, scale=2.0)
    assert report.results == [float(part.sum()) * 2 for part in x.parts("tp")]


def test_a_function_may_write_a_part_of_what_it_may_write():
    """Elements that it leaves alone keep their values, and it sees them, as with arrays of NumPy."""
    mesh = dist.Mesh(axes="tp", devices=range(4))
    x = dist.array(np.arange(8.0).reshape(8, 1) + np.arange(3.0), dist.Block("tp"), mesh)
    want = np.asarray(x)
    want[::2] = 10 * want[1::2]

    def point(x: np.ndarray) -> None:
        x[0] = 10 * x[1]

    point.__annotations__ = {"x": tessera.Region[tessera.write]}
    tessera.index_launch("tp")(point)(x)
    np.testing.assert_array_equal(np.asarray(x), want)


def test_each_shard_is_computed_once():
    """Along axes that neither the launch nor an argument knows, devices hold the same."""
    mesh = dist.Mesh(("dp", "tp"), range(12), (4, 3))
    calls: list[int] = []

    def point(part: NDArray[np.float32]) -> None:
        calls.append(part.size)

    tessera.index_launch("tp")(point)(put(drawn(9), dist.Block("tp"), mesh, "x"))
    assert calls == [3, 3, 3]


def test_two_writers_are_refused_by_name():
    norm = cell(BLOCKS["domain"][BLOCKS["domain"].index("@jit") :]).norm_layer
    mesh = dist.Mesh(("dp", "tp"), range(4), (2, 2))
    x = put(drawn(8, 6), ROWS, mesh, "X")
    y = dist.tensor((8, 6), dist.ShardSpec("row", "dp"), mesh, "f32", "Y")
    with pytest.raises(RegionConflict) as raised:
        tessera.index_launch(axis="tp")(norm)(x.parts("tp"), y)
    line = raised.value.span.line
    assert str(raised.value).splitlines() == [
        "TSR-E606 points conflict: points tp=0 and tp=1 both write all that they see of Y, f32[8@dp, 6]",
        f"  --> {__file__}, line {line}, column 9",
        f'{line:>4} |         tessera.index_launch(axis="tp")(norm)(x.parts("tp"), y)',
        f"     |         {'^' * 55}",
        "  try: cut it over tp; where points add to it, annotate it Region[reduce_sum]",
    ]
    assert not y.stored


def test_one_tensor_as_two_arguments():
    mesh = dist.Mesh("tp", range(2))
    both = cell("@kernel\ndef both(A: mut f32[n/tp], B: mut f32[n/tp]):\n    A[:] = A + 1\n    B[:] = B + 1\n").both
    shift = cell("@kernel\ndef shift(A: f32[n], B: mut f32[n/tp]):\n    B[:] = A[0:1] + B\n").shift
    norm = cell("@jit\ndef norm(X: Region[read], Y: Region[write]):\n    Y[:] = X + 1\n").norm
    x = put(drawn(8), dist.Block("tp"), mesh, "x")
    before = np.asarray(x)
    with pytest.raises(RegionConflict, match=r"A, f32\[8@tp\], and B are one tensor: each point writes it twice"):
        tessera.index_launch("tp")(both)(x, x)
    with pytest.raises(RegionConflict, match="a point reads through A what another one writes through B"):
        tessera.index_launch("tp")(shift)(x, x)
    np.testing.assert_array_equal(np.asarray(x), before)
    tessera.index_launch("tp")(norm)(x, x)  # each point its own shard
    np.testing.assert_array_equal(np.asarray(x), before + 1)


def test_a_point_that_fails_leaves_nothing_half_written():
    mesh = dist.Mesh("tp", range(4))
    x, y = put(drawn(8), dist.Block("tp"), mesh, "x"), put(drawn(8, seed=1), dist.Block("tp"), mesh, "y")
    before = np.asarray(y)

    def point(X: NDArray[np.float32], Y: NDArray[np.float32]) -> None:
        Y[...] = X
        if np.array_equal(X, x.parts("tp")[2]):
            raise ZeroDivisionError("point 2")

    point.__annotations__.update(X=tessera.Region[tessera.read], Y=tessera.Region[tessera.write])
    with pytest.raises(ZeroDivisionError, match="point 2"):
        tessera.index_launch("tp")(point)(x, y)
    np.testing.assert_array_equal(np.asarray(y), before)


def test_ctrl_c_stops_all_points():
    mesh = dist.Mesh("tp", range(4))
    stopped: list[int] = []
    with ctrl_c_reaches() as send:
        begun = threading.Barrier(4, action=send, timeout=60)

        def point(part: NDArray[np.float32]) -> None:
            try:
                begun.wait()
                while True:
                    raise_if_stopped()
            except KeyboardInterrupt:
                stopped.append(part.size)
                raise

        with pytest.raises(KeyboardInterrupt):
            tessera.index_launch("tp")(point)(put(drawn(8), dist.Block("tp"), mesh, "x"))
    assert stopped == [2, 2, 2, 2]


def test_mistakes():
    mesh, other = dist.Mesh(("dp", "tp"), range(4), (2, 2)), dist.Mesh("tp", range(2))
    x, y = put(drawn(8), dist.Block("tp"), mesh, "x"), put(drawn(8), dist.Block("tp"), other, "y")
    gemm = cell(DEFINED).tp_gemm
    with pytest.raises(BadIndexLaunch, match="no argument of <lambda> lies on a mesh") as raised:
        tessera.index_launch("tp")(lambda a: None)(drawn(3))
    assert raised.value.hint == 'give tensors: X = dist.tensor(...), then X.parts("tp")'
    assert raised.value.span.file == __file__
    with pytest.raises(BadIndexLaunch, match="lie on several meshes"):
        tessera.index_launch("tp")(lambda a, b: None)(x, y)
    with pytest.raises(BadIndexLaunch, match="missing a required argument"):
        tessera.index_launch("tp")(gemm)(x)
    with pytest.raises(BadIndexLaunch, match="A has 2 dimensions, and x has 1"):
        tessera.index_launch("tp")(gemm)(x, x, x)
    with pytest.raises(BadIndexLaunch, match="parts along dp, in a launch over tp"):
        tessera.index_launch("tp")(lambda a: None)(x.parts("dp"))
    with pytest.raises(BadIndexLaunch, match="A is cut by tp, and the launch is over dp") as raised:
        tessera.index_launch("dp")(cell("@kernel\ndef k(A: f32[n/tp]): ...\n").k)(x)
    assert raised.value.hint == 'launch over both: index_launch(axis=("dp", "tp"))'
    with pytest.raises(NotStored, match="nothing is stored in z"):
        tessera.index_launch("tp")(lambda a: None)(dist.tensor((4,), None, mesh, name="z"))
    written = cell("@kernel\ndef k(A: f32[n/tp], B: mut f32[n/tp]):\n    B[:] = A\n").k
    with pytest.raises(BadIndexLaunch, match="B is written by 2 points, and is a ndarray that lies on no mesh"):
        tessera.index_launch("tp")(written)(x, drawn(4))


def test_launches_in_a_captured_graph(target: str):
    """Each launch of the graph computes from what the tensors hold then, mistakes included."""
    mesh = dist.Mesh("tp", range(3))
    x, y = put(drawn(7), dist.Block("tp"), mesh, "x"), dist.tensor((7,), dist.Block("tp"), mesh, name="y")
    double = cell("@kernel\ndef double(x: f32[n], y: mut f32[n]):\n    y[:] = 2 * x\n").double
    over = tessera.index_launch("tp")
    with tessera.graph.capture() as graph:
        over(double)(x, y)
        report = over(cell("@jit\ndef total(y: Region[read]):\n    return op.sum(y)\n", op=op).total)(y)
    assert not y.stored
    assert graph.kernels == ("double", "total")
    for scale in (1, 2):
        x[...] = drawn(7) * scale
        tessera.graph.launch(graph)
        np.testing.assert_array_equal(np.asarray(y), 2 * scale * drawn(7))
        np.testing.assert_allclose(
            np.sum([np.asarray(each) for each in report.results]), 2 * scale * drawn(7).sum(), rtol=1e-5
        )
    with tessera.graph.capture(), pytest.raises(BadIndexLaunch, match="no argument of double lies on a mesh"):
        over(double)(drawn(7), drawn(7))


def test_a_kernel_that_is_only_declared():
    mesh = dist.Mesh("tp", range(2))
    declared = cell(BLOCKS["tp_gemm"].split("\n\n")[0]).tp_gemm
    a, b = put(drawn(4, 4, dtype=np.float16), COLUMNS, mesh, "A"), put(drawn(4, 4, dtype=np.float16), ROWS, mesh, "B")
    with pytest.raises(NoImplementation, match="tp_gemm"):
        tessera.index_launch("tp")(declared)(a, b, dist.tensor((4, 4), COLUMNS, mesh))


def test_extents_that_do_not_divide_where_the_body_needs_them():
    mesh = dist.Mesh("tp", range(2))
    uses = cell("@kernel\ndef k(A: f32[n/tp], B: mut f32[n/tp]):\n    B[:] = A * n\n").k
    even, odd = drawn(8), drawn(7)
    out = dist.tensor((8,), dist.Block("tp"), mesh, name="B")
    tessera.index_launch("tp")(uses)(put(even, dist.Block("tp"), mesh, "A"), out)
    np.testing.assert_array_equal(np.asarray(out), even * 8)  # n is all of it
    with pytest.raises(UnevenShards, match="k uses n, and the shards of A, B differ in length") as raised:
        tessera.index_launch("tp")(uses)(
            put(odd, dist.Block("tp"), mesh, "A"), dist.tensor((7,), dist.Block("tp"), mesh)
        )
    assert raised.value.hint == "give extents that the mesh divides, or use .shape of the arguments instead"


def test_a_point_that_fails_says_which_one_it_is():
    x = put(drawn(8), ROWS, dist.Mesh(("dp", "tp"), range(4), shape=(2, 2)), "x")

    def divided(a: NDArray[np.float32]) -> float:
        if a[0] != x.parts("tp")[0][0]:
            raise ZeroDivisionError("nothing")
        return 1.0

    with pytest.raises(ZeroDivisionError) as raised:
        tessera.index_launch(axis="tp")(divided)(x)
    assert raised.value.__notes__ == ["in point tp=1 of divided, on sim:1"]


@pytest.mark.parametrize("always", [True, False])
def test_collectives_inside_of_points_are_refused(always: bool):
    """A point has its own shard alone; a collective that some points skip would wait for ever elsewhere."""
    mesh = dist.Mesh(("dp", "tp"), range(4), shape=(2, 2))
    x, y = put(drawn(8, 3), ROWS, mesh, "x"), put(np.zeros((8, 3), np.float32), ROWS, mesh, "y")

    def summed(a: NDArray[np.float32], b: NDArray[np.float32]) -> None:
        b[:] = op.all_reduce(list(a), axis="tp") if always or a[0, 0] == x.parts("tp")[1][0, 0] else a

    summed.__annotations__.update(a=tessera.Region[tessera.read], b=tessera.Region[tessera.write])
    with pytest.raises(
        BadIndexLaunch, match=r"a point has no values of other points: op\.all_reduce in point tp=\d of summed"
    ) as raised:
        tessera.index_launch(axis="tp")(summed)(x, y)
    assert "Region[reduce_sum]" in str(raised.value)
    np.testing.assert_array_equal(np.asarray(y), 0)
    assert str(op.all_reduce(x, axis="tp").type) == "f32[4, 3]"  # outside of points it goes on
