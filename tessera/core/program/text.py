"""Print a `Program`, for people and for golden tests; one way, and deterministic."""

from tessera.core.program.expressions import to_text as expression_text
from tessera.core.program.program import Attribute, Block, Op, Program, Value


def to_text(program: Program) -> str:
    """The whole kernel, one operation a line, values named after the user's variables."""
    names = _ValueNames()
    parameters = ", ".join(
        f"{names.of(p.value)}: {'mut ' if p.mutable else ''}{p.value.type}" for p in program.parameters
    )
    head = [f"kernel {program.name}({parameters})"]
    head += [f"  group {program.group}"] if program.group else []
    bounds = [" ".join(map(expression_text, bounds)) for bounds in (program.domain.extents, *program.domain.axes)]
    head += [f"  domain {program.domain.kind} {' x '.join(filter(None, bounds))}".rstrip()]
    return "\n".join([*head, *_block(program.body, names, 1)]) + "\n"


class _ValueNames:
    """Gives each value a unique name: the user's where there is one, with a number when it is taken."""

    def __init__(self) -> None:
        self._names: dict[Value, str] = {}
        self._taken: dict[str, int] = {}

    def of(self, value: Value) -> str:
        if value not in self._names:
            number = self._taken.get(value.name, 0)
            self._taken[value.name] = number + 1
            tail = str(number) if number or not value.name else ""
            self._names[value] = f"%{value.name}{'_' if value.name and tail else ''}{tail}"
        return self._names[value]


def _block(block: Block, names: _ValueNames, depth: int) -> list[str]:
    lines: list[str] = []
    for op in block.ops:
        lines.append("  " * depth + _op(op, names))
        for region in op.regions:
            arguments = ", ".join(f"{names.of(a)}: {a.type}" for a in region.arguments)
            lines.append("  " * depth + f"{{ {arguments}".rstrip())
            lines += _block(region, names, depth + 1)
            lines.append("  " * depth + "}")
    return lines


def _op(op: Op, names: _ValueNames) -> str:
    results = ", ".join(map(names.of, op.results))
    operands = ", ".join(map(names.of, op.operands))
    attributes = " ".join(f"{k}={_attribute(v)}" for k, v in op.attributes.items() if v not in ("", None, ()))
    types = ", ".join(str(r.type) for r in op.results)
    text = f"{results} = {op.opcode}" if results else op.opcode
    text += f" {operands}" if operands else ""
    text += f" [{attributes}]" if attributes else ""
    return text + (f" : {types}" if types else "")


def _attribute(value: Attribute) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)
