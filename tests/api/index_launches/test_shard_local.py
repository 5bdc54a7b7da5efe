"""Functions of operators called with tensors on a mesh: the documents' blocks, results as tensors, what is refused."""

from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray

import tessera
from support.documents import BLOCKS
from tessera import dist, op
from tessera.api.index_launches.launch import LaunchReport
from tessera.api.source_module import run_cell
from tessera.core.errors.catalog import BadIndexLaunch


def cell(text: str, **given: object) -> ModuleType:
    module = ModuleType("document")
    vars(module).update(given)
    run_cell(text, vars(module), name="<cell>")
    return module


def drawn(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def put(values: NDArray[np.float32], *axes: str | None, cyclic: bool = False) -> dist.Tensor:
    x = dist.tensor(values.shape, (dist.Cyclic if cyclic else dist.Block)(axes))
    x[...] = values
    return x


@pytest.fixture(autouse=True)
def mesh() -> dist.Mesh:
    return dist.Mesh(("dp", "tp"), range(6), (3, 2))


@pytest.mark.parametrize("shape", [(6, 4, 16), (7, 5, 9), (3, 2, 3)], ids=str)
def test_the_blocks_of_the_documents(shape: tuple[int, int, int]):
    b, s, dm = shape
    found = cell(BLOCKS["domain"], tessera=tessera, B=b, S=s, Dm=dm)
    assert str(found.X.type) == f"bf16[{b}@dp, {s}@tp, {dm}]"
    x = drawn(*shape).astype(found.X.dtype)
    found.X[...] = x
    y = tessera.array.from_domain(found.D, dtype="bf16", distribution=found.dist)
    report = found.norm_layer(found.X, y)
    assert isinstance(report, LaunchReport)
    assert (report.axes, report.points, report.collectives) == (("dp", "tp"), 6, [])
    want = np.empty_like(x)
    found.norm_layer(x, want)
    np.testing.assert_array_equal(np.asarray(y), want)


def test_step_adds_the_products_of_the_shards():
    step = cell(BLOCKS["step"]).step
    w, x, y = drawn(5, 3), drawn(9, 5, seed=1), drawn(9, 3, seed=2)
    out = put(y, "dp")
    step(put(w), put(x, "dp"), out)
    np.testing.assert_allclose(np.asarray(out), y + x.astype(np.float64) @ w, atol=1e-5)


def test_results_are_tensors():
    both = cell("@jit\ndef both(x, w):\n    h = op.matmul(x, w)\n    return h, op.softmax(h).T\n", op=op).both
    x, w = drawn(9, 5), drawn(5, 4, seed=1)
    h, p = both(put(x, "dp"), w)
    assert (str(h.type), str(p.type)) == ("f32[9@dp, 4]", "f32[4, 9@dp]")
    want_h, want_p = both(x, w)
    np.testing.assert_array_equal(np.asarray(h), want_h)
    np.testing.assert_array_equal(np.asarray(p), want_p)
    one = cell("@jit\ndef one(x):\n    return x * 2\n").one
    np.testing.assert_array_equal(np.asarray(one(put(x, "dp", "tp"))), x * 2)


def test_what_a_point_lacks_is_refused_at_its_line():
    norm = cell(BLOCKS["domain"][BLOCKS["domain"].index("@jit") :]).norm_layer
    x = put(drawn(6, 4), None, "tp")
    y = dist.tensor((6, 4), dist.Block((None, "tp")), name="Y")
    with pytest.raises(BadIndexLaunch) as raised:
        norm(x, y)
    text = str(raised.value).splitlines()
    assert text[0].startswith("TSR-E607 cannot be launched over a mesh: rmsnorm")
    assert text[0].endswith("sums or reduces along a dimension that is cut by tp")
    assert text[1:4] == [
        "  --> <cell>, line 3, column 12",
        "   3 |     Y[:] = rmsnorm_safe(X)",
        "     |            ^^^^^^^^^^^^^^^",
    ]
    assert text[4].startswith("  try: bring it together first: X = dist.reshard(X, ...)")
    assert not y.stored


Cuts = tuple[tuple[str | None, ...], tuple[str | None, ...]]
CARRIED = pytest.mark.parametrize(
    ("body", "axes", "message"),
    [
        ("op.matmul(a, b)", (("dp",), (None, "tp")), None),
        ("op.matmul(a, b)", ((None, "dp"), ("dp",)), "matmul.* sums or reduces along a dimension that is cut by dp"),
        (
            "op.matmul(a, b)",
            ((None, "dp"), ()),
            "matmul.* meets elements that are cut by dp, and others that are whole",
        ),
        ("a + b", (("dp",), ("tp",)), "meets elements that are cut by dp, and others that are cut by tp"),
        ("a[:2] + b[:2]", (("dp",), ("dp",)), "moves elements along a dimension that is cut by dp"),
        (
            "a.reshape(a.shape[1] ** 2) + b.reshape(b.shape[1] ** 2)",
            (("dp",), ("dp",)),
            "moves elements along a dimension that is cut by dp",
        ),
        ("op.concat([a, b], axis=1)", (("dp",), ("dp",)), None),
        ("op.concat([a, b], axis=0)", (("dp",), ("dp",)), "mixes elements of several shards"),
        (
            "op.cumsum(a, axis=0) + b",
            (("dp",), ("dp",)),
            "cumsum meets elements that are whole, and others that are cut by dp",
        ),
        ("a * (1.0 / a.shape[0]) + b", (("dp",), ("dp",)), "f uses the extent of a dimension that is cut as a number"),
        ("a * (1.0 / a.shape[1]) + b", (("dp",), ("dp",)), None),
        ("op.sum(a, axis=1)[:, None] + b", (("dp",), ("dp",)), None),
    ],
)


@CARRIED
def test_what_is_carried_through(body: str, axes: Cuts, message: str | None):
    """Cyclic shards, which graphs do not take: each point has its own, and needs no other."""
    f = cell(f"@jit\ndef f(a, b):\n    return {body}\n", op=op).f
    a, b = drawn(7, 7), drawn(7, 7, seed=1)
    given = put(a, *axes[0], cyclic=True), put(b, *axes[1], cyclic=True)
    if message is None:
        np.testing.assert_array_equal(np.asarray(f(*given)), f(a, b))
        return
    with pytest.raises(BadIndexLaunch, match=rf"^[^\n]*(?:{message})"):
        f(*given)


@pytest.mark.parametrize("extent", [6, 7])
@CARRIED
def test_blocks_are_a_graph(body: str, axes: Cuts, message: str | None, extent: int):
    """What points lack is brought to them by collectives, as under `graph.module`."""
    del message
    f = cell(f"@jit\ndef f(a, b):\n    return {body}\n", op=op).f
    a, b = drawn(extent, extent), drawn(extent, extent, seed=1)
    np.testing.assert_allclose(np.asarray(f(put(a, *axes[0]), put(b, *axes[1]))), f(a, b), rtol=1e-5, atol=1e-5)


def test_a_result_that_is_cut_otherwise_than_its_place():
    norm = cell(BLOCKS["domain"][BLOCKS["domain"].index("@jit") :]).norm_layer
    y = dist.tensor((6, 4), dist.Block("tp"), name="Y")
    with pytest.raises(
        BadIndexLaunch, match=r"Y is f32\[6@tp, 4\], and what is written to it is f32\[6@dp, 4\]"
    ) as raised:
        norm(put(drawn(6, 4), "dp"), y)
    assert raised.value.hint == "declare Y so, or reshard the others"
