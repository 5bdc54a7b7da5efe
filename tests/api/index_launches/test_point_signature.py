"""What points see and may do, read from annotations, and which axes are summed over."""

from types import ModuleType

import tessera
from support.documents import BLOCKS
from tessera.api.index_launches.point_signature import (
    Extent,
    PointParameter,
    names_in_body,
    parameters_of,
    summed_over,
)

AXES = ("dp", "tp")


def module(text: str) -> ModuleType:
    return tessera.compile_source(text)


def parameters(kernel: str) -> tuple[PointParameter, ...]:
    return parameters_of(module(f"@kernel\n{kernel}").k, AXES)


def test_tp_gemm():
    found = parameters_of(module(BLOCKS["tp_gemm"].split("\n\n")[0]).tp_gemm, AXES)
    m, n = Extent("M"), Extent("N")
    assert found == (
        PointParameter("A", "read", (m, Extent("K", ("tp",)))),
        PointParameter("B", "read", (Extent("K", ("tp",)), n)),
        PointParameter("C", "update", (m, Extent("N", ("tp",)))),
    )
    assert summed_over(found, AXES) == {"C": ("tp",)}
    assert found[2].sees_whole("tp").extents == (m, n)


def test_axes_that_are_summed_over():
    for kernel, summed in (
        ("def k(A: f32[M, K], B: f32[K, N/tp], C: mut f32[M, N/tp]): ...", ()),
        ("def k(A: f32[M/tp, K], C: mut f32[M/tp]): ...", ()),
        ("def k(A: f32[M/dp, K/tp], C: mut f32[M/dp]): ...", ("tp",)),
        ("def k(A: f32[M/dp, K/tp], C: mut f32[1]): ...", ("dp", "tp")),
        ("def k(A: f32[K/dp/tp], C: mut f32[1]): ...", ("dp", "tp")),
        ("def k(A: f32[K/tp], B: f32[M/tp], C: mut f32[M/tp]): ...", ()),
    ):
        found = summed_over(parameters(kernel), AXES)
        assert found["C"] == summed, kernel


def test_privileges_of_kernels():
    assert [each.privilege for each in parameters("def k(A: f32[n/tp], B: mut f32[n/tp]):\n    B[:] = A\n")] == [
        "read",
        "write",
    ]
    for body in ("B[:] = A + B", "B[:] += A", "B[0:3] = A", "if True:\n        B[:] = A"):
        found = parameters(f"def k(A: f32[n/tp], B: mut f32[n/tp]):\n    {body}\n")
        assert [each.privilege for each in found] == ["read", "update"], body
    untyped = "def k(A, B, C):\n    i = tile.linear_id()\n    B[i] = A[i]\n    tile.store(C, index=i, value=1)\n"
    assert [each.privilege for each in parameters(untyped)] == ["read", "update", "update"]
    mma = "def k(A: tensor[f32], B, C):\n    for m, n, k in tile.mma(A, B, C, BM=128, BN=128, BK=32):\n        tile.mma_sync(m, n, k)\n"
    assert [each.privilege for each in parameters(mma)] == ["read", "read", "update"]


def test_annotations_in_other_spellings():
    (text,) = parameters("def k(A: 'mut f32[n/tp]'): ...")
    assert text == PointParameter("A", "update", (Extent("n", ("tp",)),))
    a, b = parameters('def k(A: Tensor["B", "D", f32], B: f32[n/tp]): ...')
    assert a.extents == (Extent("'B'"), Extent("'D'"))
    assert b.extents == (Extent("n", ("tp",)),)
    assert parameters("def k(A: f32[n/2], B: f32[n/tp]): ...")[0].extents == (Extent("n / 2"),)


def test_kernels_that_name_no_axis_see_their_shards():
    assert [each.extents for each in parameters("def k(x: f32[n], y: mut f32[n], a: f32): ...")] == [None] * 3


def test_functions_and_regions():
    step = module(BLOCKS["step"]).step
    assert parameters_of(step, AXES) == (
        PointParameter("W", "read"), PointParameter("X", "read"), PointParameter("Y", "reduce_sum"),
    )  # fmt: skip
    assert [each.writes for each in parameters_of(step, AXES)] == [False, False, True]

    def plain(a: object, b: object = 3) -> None: ...

    assert parameters_of(plain, AXES) == (PointParameter("a", "read"), PointParameter("b", "read"))


def test_names_in_bodies():
    kernel = module("@kernel\ndef k(A: f32[n/tp], B: mut f32[n/tp]):\n    B[:] = A * n\n").k
    assert names_in_body(kernel) == {"A", "B", "n"}
