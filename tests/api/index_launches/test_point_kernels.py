"""Kernels of points: what mesh axes stand for, and bodies that need what they cannot have."""

import pytest

import tessera
from tessera import dist
from tessera.api.index_launches.point_kernels import point_kernel
from tessera.api.index_launches.point_signature import parameters_of
from tessera.core.errors.catalog import BadIndexLaunch, UnevenShards
from tessera.core.placement.sharded_type import ShardedType


def made(text: str, partial: tuple[str, ...] = (), **types: str) -> tuple[tessera.Kernel, tessera.Kernel]:
    mesh = dist.Mesh("tp", range(4))
    kernel = tessera.compile_source(f"@kernel\n{text}").k
    seen = {name: ShardedType.parse(each).on(mesh) for name, each in types.items()}
    parameters = parameters_of(kernel, mesh.axes)
    found = point_kernel(kernel, parameters, mesh, seen, partial)
    assert point_kernel(kernel, parameters, mesh, seen, partial) is found  # made once
    return kernel, found


SCALED = "def k(A: f32[n/tp], B: mut f32[n/tp]):\n    B[:] = A * n\n"


def test_axes_have_their_extents_where_shards_are_even():
    assert made(SCALED, A="f32[8@tp]", B="f32[8@tp]")[1].options.constants == {"tp": 4}


def test_names_stand_for_what_a_point_has_where_they_are_not():
    text = "def k(A: f32[n/tp], B: mut f32[n/tp]):\n    B[:] = A\n"
    assert made(text, A="f32[7@tp]", B="f32[7@tp]")[1].options.constants == {"tp": 1}
    product = "def k(A: f32[M, K/tp], B: f32[K/tp, N], C: mut f32[M, N/tp]):\n    C[:] = A @ B\n"
    assert made(product, ("C",), A="f32[8, 8@tp]", C="f32[8, 8]")[1].options.constants == {"tp": 1}


def test_kernels_without_axes_stay():
    kernel, found = made("def k(A: f32[n], B: mut f32[n]):\n    B[:] = A\n", A="f32[7@tp]")
    assert found is kernel


def test_bodies_that_need_the_names():
    with pytest.raises(UnevenShards, match="k uses n, and the shards of A, B differ in length"):
        made(SCALED, A="f32[7@tp]", B="f32[7@tp]")
    product = "def k(A: f32[M, K/tp], B: f32[K/tp, N], C: mut f32[M, N/tp]):\n    C[:] = A @ B * K\n"
    with pytest.raises(BadIndexLaunch, match="k uses K, while its points hold partial sums") as raised:
        made(product, ("C",), A="f32[8, 8@tp]", C="f32[8, 8]")
    assert raised.value.hint == "use .shape of the arguments instead"
