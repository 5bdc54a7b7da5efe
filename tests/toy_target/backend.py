"""Tile IR to the text of a Python function of a group's number and the kernel's arguments."""

from typing import Final

from tessera.core.artifact import Resources
from tessera.core.errors.catalog import NotAvailableYet
from tessera.core.listing import Line, Listing
from tessera.core.mlir import AnyOp, ir
from tessera.core.program.program import Program
from tessera.core.targets import Target
from tessera.core.tile.location import origins, spans
from tessera.lowering.base.backends import Backend
from tessera.lowering.base.ir_walk import kernel
from tessera.lowering.base.launch_grid import launch_rule
from tessera.lowering.base.target_code import TargetCode

_OPERATORS: Final = {
    "arith.addf": "+", "arith.subf": "-", "arith.mulf": "*", "arith.addi": "+", "arith.subi": "-", "arith.muli": "*",
}  # fmt: skip


def generate(module: ir.Module, program: Program, target: Target, observe: bool) -> TargetCode:
    """Print a kernel whose groups load, add, subtract, multiply and store tiles.

    Raises NotAvailableYet for any other operation.
    """
    function = kernel(module)
    block = function.regions[0].blocks[0]
    names: dict[ir.Value, str] = {}
    for parameter, argument in zip(program.parameters, block.arguments, strict=True):
        names[argument] = parameter.value.name
    lines = [Line(f"def {program.name}(group, {', '.join(names.values())}):")]
    for view in block.operations:
        op = view.operation
        text = _statement(op, names, target)
        if text:
            identities, places = origins(op.location)
            lines.append(Line("    " + text, places, identities))
    text = "\n".join(line.text for line in lines) + "\n"
    listings = (Listing("python", "", tuple(lines)),) if observe else ()
    rule = launch_rule(function, program, 1)
    return TargetCode(text.encode(), program.name, (), rule, Resources(), bounded=True, listings=listings)


def _statement(op: AnyOp, names: dict[ir.Value, str], target: Target) -> str:
    """One operation as a line of Python; its result gets a name."""
    operands = [names[value] for value in op.operands]
    if op.name == "func.return":
        return ""
    if op.name == "tessera.store":
        array, value, *starts = operands
        return f"{_tile(op, [array, *starts])} = {value}"
    if op.name == "tessera.load":
        value = _tile(op, operands)
    elif op.name == "tessera.id":
        value = "group"
    elif op.name == "arith.constant":
        value = _number(op.attributes["value"])
    elif op.name == "tensor.splat":
        value = operands[0]
    elif op.name in _OPERATORS:
        value = f" {_OPERATORS[op.name]} ".join(operands)
    else:
        where = next(iter(spans(op.location)))
        raise NotAvailableYet(f"the target {target.name} has no {op.name}", where, "use another target")
    names[op.results[0]] = name = f"v{len(names)}"
    return f"{name} = {value}"


def _number(constant: ir.Attribute) -> str:
    """A number, also of a tile that holds it everywhere, which NumPy makes of it."""
    if isinstance(constant, ir.DenseElementsAttr):
        constant = constant.get_splat_value()
    assert isinstance(constant, ir.IntegerAttr | ir.FloatAttr)
    return repr(constant.value)


def _tile(op: AnyOp, operands: list[str]) -> str:
    """The part of an array that an access is to; what sticks out of the array is cut off."""
    array, *starts = operands
    extents = list(ir.DenseI64ArrayAttr(op.attributes["extents"]))
    return f"{array}[{', '.join(f'{a}:{a}+{n}' for a, n in zip(starts, extents, strict=True))}]"


BACKEND: Final = Backend(generate)
