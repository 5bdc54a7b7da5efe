"""Kernel types as MLIR types: each text parses to itself."""

import pytest

from tessera.core.base.dtypes import ALL, DType, bf16, boolean, f16, f32, u32
from tessera.core.mlir import ir
from tessera.core.program.types import Array, Scalar, Shared, Tile
from tessera.core.tile.spec import legal_type
from tessera.core.tile.types import like, mlir_type

EXPECTED = {
    Scalar(f32): "f32",
    Scalar(boolean): "i1",
    Scalar(u32): "i32",
    Tile(bf16, (4, 8)): "tensor<4x8xbf16>",
    Tile(boolean, (4,)): "tensor<4xi1>",
    Array(f32, ("n", 64)): "memref<?x64xf32>",
    Array(f32, ("n", "m"), contiguous=False): "memref<?x?xf32, strided<[?, ?]>>",
    Array(boolean, ("n",)): "memref<?xi8>",
    Array(f32, ()): "memref<f32>",
    Array(f32, (), contiguous=False): "memref<f32>",
    Shared(f16, (128, 32)): 'memref<128x32xf16, "shared">',
    Shared(boolean, (8,)): 'memref<8xi8, "shared">',
    Shared(f16, (128, 32), "xor"): 'memref<128x32xf16, "shared.xor">',
}


@pytest.mark.parametrize(("kind", "text"), EXPECTED.items(), ids=str)
def test_types(kind: Scalar | Tile | Array | Shared, text: str):
    assert mlir_type(kind) == text
    parsed = ir.Type.parse(text)
    assert str(parsed) == text
    assert legal_type(parsed)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_every_dtype_is_legal_everywhere(dtype: DType):
    for kind in (Scalar(dtype), Tile(dtype, (2,)), Array(dtype, ("n",)), Shared(dtype, (2,))):
        assert legal_type(ir.Type.parse(mlir_type(kind)))


def test_the_shape_of_one_type_with_the_element_of_another():
    assert like(Tile(f32, (4, 8)), "i1") == "tensor<4x8xi1>"
    assert like(Scalar(f32), "i1") == "i1"
