"""A Program as records: the first stage of a compilation, which gives every operation its number."""

from collections.abc import Mapping

from tessera.core.program.program import Attribute, Block, Op, Program, Value
from tessera.core.record import KERNEL, AttributeData, OpRecord, ValueRecord, Verbatim, argument_id, result_id

ROOT = "kernel"
"""The name of the operation that all others are inside of."""


def records_of_program(program: Program) -> tuple[OpRecord, ...]:
    """Return the operations of a Program, outer before inner; the kernel itself is the first."""
    reader = _ProgramReader()
    parameters = tuple(
        reader.define(parameter.value, argument_id(KERNEL, 0, number))
        for number, parameter in enumerate(program.parameters)
    )
    options = {name: _data(value) for name, value in program.options.items()}
    attributes: Mapping[str, AttributeData] = {"sym_name": program.name, **options}
    reader.records.append(OpRecord(KERNEL, ROOT, arguments=(parameters,), attributes=attributes, spans=(program.span,)))
    reader.block(program.body, KERNEL, 0)
    return tuple(reader.records)


class _ProgramReader:
    """Numbers the operations as `Block.walk` goes over them."""

    def __init__(self) -> None:
        self.records: list[OpRecord] = []
        self._values: dict[Value, str] = {}

    def block(self, block: Block, parent: str, region: int) -> None:
        """Read the operations of a block."""
        for op in block.ops:
            self._operation(op, parent, region)

    def _operation(self, op: Op, parent: str, region: int) -> None:
        number = len(self.records) - 1  # the kernel is the first
        identity = str(number)
        operands = tuple(self._values[value] for value in op.operands)
        results = tuple(self.define(value, result_id(identity, n)) for n, value in enumerate(op.results))
        arguments = tuple(
            tuple(self.define(value, argument_id(identity, r, n)) for n, value in enumerate(inner.arguments))
            for r, inner in enumerate(op.regions)
        )
        attributes = {name: _data(value) for name, value in op.attributes.items()}
        self.records.append(OpRecord(
            identity, op.opcode, parent, region, operands, results, arguments, attributes, (op.span,), (number,)
        ))  # fmt: skip
        for r, inner in enumerate(op.regions):
            self.block(inner, identity, r)

    def define(self, value: Value, identity: str) -> ValueRecord:
        """Give a value its identity."""
        self._values[value] = identity
        return ValueRecord(identity, str(value.type), value.name.lstrip("$"))


def _data(value: Attribute) -> AttributeData:
    if isinstance(value, tuple):
        return tuple(_data(item) for item in value)
    return Verbatim("none") if value is None else value
