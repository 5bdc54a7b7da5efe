"""Writing operations by name."""

import pytest

from support.mlir import defining_op, function, parse
from tessera.core.mlir import ir
from tessera.lowering.base.emit import Emitter
from tessera.lowering.base.ir_walk import body, kernel, operations

pytestmark = pytest.mark.usefixtures("mlir")


@pytest.fixture
def module() -> ir.Module:
    return parse(function("return", "%a: f32"))


def names(module: ir.Module) -> list[str]:
    return [op.operation.name for op in body(kernel(module)).operations]


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (7, "i64", "7 : i64"), (-1, "i8", "-1 : i8"), (1, "i1", "true"), (3, "index", "3 : index"),
        (0.5, "f16", "5.000000e-01 : f16"), (2, "vector<4xi32>", "dense<2> : vector<4xi32>"),
        (1.5, "tensor<2x2xbf16>", "dense<1.500000e+00> : tensor<2x2xbf16>"),
    ],
)  # fmt: skip
def test_constants(module: ir.Module, value: float, kind: str, text: str):
    emit = Emitter.before(operations(module, "func.return")[0])
    assert str(defining_op(emit.constant(value, kind)).attributes["value"]) == text


def test_operations_go_before_the_given_one_with_its_location(module: ir.Module):
    (last,) = operations(module, "func.return")
    emit = Emitter.before(last)
    argument = body(kernel(module)).arguments[0]
    total = emit.value("arith.addf", [argument, argument], "f32")
    assert names(module) == ["arith.addf", "func.return"]
    assert defining_op(total).location == last.location


def test_blocks_and_locations_change_for_a_while(module: ir.Module):
    (last,) = operations(module, "func.return")
    emit = Emitter.before(last)
    condition = emit.constant(1, "i1")
    branch = emit.create("scf.if", [condition], regions=2)
    elsewhere = ir.Location.file("cell.py", 3, 1)
    with emit.at(branch.regions[0].blocks.append()), emit.located(elsewhere):
        inside = emit.constant(1, "i64")
        emit.create("scf.yield")
    after = emit.constant(2, "i64")
    assert defining_op(inside).location == elsewhere
    assert defining_op(after).location == last.location
    assert names(module) == ["arith.constant", "scf.if", "arith.constant", "func.return"]
    assert module.operation.verify()


def test_types_and_attributes_are_parsed_once(module: ir.Module):
    emit = Emitter.before(operations(module, "func.return")[0])
    assert emit.type("vector<4xf32>") is emit.type("vector<4xf32>")
    assert emit.attribute("4 : i64") is emit.attribute("4 : i64")
    kind = ir.F32Type.get()
    assert emit.type(kind) is kind


def test_operations_go_to_the_start_of_a_block_for_a_while(module: ir.Module):
    emit = Emitter.before(operations(module, "func.return")[0])
    emit.constant(1, "i64")
    with emit.at_start(body(kernel(module))):
        emit.constant(2.0, "f32")
    emit.constant(3, "i64")
    values = [str(op.attributes["value"]) for op in operations(module, "arith.constant")]
    assert values == ["2.000000e+00 : f32", "1 : i64", "3 : i64"]
