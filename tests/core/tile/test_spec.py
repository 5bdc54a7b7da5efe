"""The table of what may stand in Tile IR."""

import pytest

from support.mlir import function, parse
from tessera.core.errors.catalog import CompilerCrash
from tessera.core.mlir import ir
from tessera.core.tile.spec import check_tile_ir, legal_type


@pytest.mark.parametrize(
    "text", ["index", "vector<4xf32>", "tensor<?xf32>", "tensor<f32>", "i128", 'memref<?xf32, "shared">',
             "memref<4xf32, 3>", "memref<4xi1>", "complex<f32>"],
)  # fmt: skip
def test_illegal_types(text: str):
    assert not legal_type(ir.Type.parse(text))


def test_legal_operations_pass():
    check_tile_ir(parse(function("%s = arith.addf %a, %a : f32\nreturn", "%a: f32")), "test")


def test_a_foreign_operation_is_named_with_its_place():
    module = parse(function('%s = arith.index_cast %a : i64 to index loc("cell.py":7:2)\nreturn', "%a: i64"))
    with pytest.raises(CompilerCrash, match=r"test: the operation arith\.index_cast is not legal") as caught:
        check_tile_ir(module, "test")
    assert (caught.value.span.line, caught.value.span.column) == (7, 2)


def test_a_foreign_type_is_named():
    module = parse(
        function("%s = tensor.splat %a : vector<4xf32>\nreturn", "%a: f32").replace(
            "tensor.splat %a : vector<4xf32>", "arith.constant dense<0.0> : vector<4xf32>"
        )
    )
    with pytest.raises(CompilerCrash, match="the type vector<4xf32> is not legal"):
        check_tile_ir(module, "test")
