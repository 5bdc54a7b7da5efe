"""Walking over Tile IR: where code and mistakes are said to come from."""

import pytest

from support.mlir import lowered, mlir_context
from support.product_programs import matrix_product
from tessera.core.base.source import NOWHERE, Span
from tessera.core.errors.catalog import NotOnCuda
from tessera.core.mlir import ir
from tessera.core.tile.location import spans
from tessera.lowering.base.emit import Emitter
from tessera.lowering.base.ir_walk import body, kernel
from tessera.lowering.base.visitor import at_operation, operations_of

__all__ = ["mlir_context"]

OWN = Span("other.py", 1, 1, 1, 5)


@pytest.fixture
def module() -> ir.Module:
    return lowered(matrix_product((16, 16, 16)))


def test_a_terminator_is_left_out(module: ir.Module):
    names = [str(op.name) for op in operations_of(body(kernel(module)))]
    assert "arith.constant" in names
    assert "func.return" not in names


@pytest.mark.parametrize("span", [NOWHERE, OWN], ids=["no place", "a place of its own"])
def test_a_mistake_is_at_the_operation_unless_it_knows_better(module: ir.Module, span: Span):
    op = next(op for op in operations_of(body(kernel(module))) if op.name == "scf.for")
    emit = Emitter(op.operation.block, op.operation.block.owner.operation.location)
    seen: list[ir.Location] = []

    def fail() -> None:
        with at_operation(emit, op):
            seen.append(emit.location)
            message = "not here"
            raise NotOnCuda(message, span)

    with pytest.raises(NotOnCuda) as caught:
        fail()
    assert seen == [op.location]
    assert caught.value.span == (next(iter(spans(op.location))) if span == NOWHERE else OWN)
    assert emit.location != op.location
