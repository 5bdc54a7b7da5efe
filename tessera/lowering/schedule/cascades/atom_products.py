"""Expressions over atoms taken apart: products by the axes of their parts, divisions by rows."""

from collections.abc import Callable

from tessera.core.graph.expr import Apply, Expr, Literal, apply, arguments, walk


def divided_once(body: Expr, wide: set[int]) -> Expr:
    """Return an expression that divides rows once instead of each of their columns: x / y is x * (1 / y)."""
    done: dict[Expr, Expr] = {}
    for each in walk(body):
        if not isinstance(each, Apply):
            done[each] = each
            continue
        operands = tuple([done[operand] for operand in each.operands])
        if (
            each.opcode == "div"
            and wide & set(arguments(each.operands[0]))
            and not wide & set(arguments(each.operands[1]))
        ):
            inverse = apply("div", Literal(1.0, each.dtype), operands[1])
            done[each] = apply("mul", operands[0], inverse)
        else:
            done[each] = Apply(each.opcode, operands, each.dtype, each.predicate)
    return done[body]


def parted(body: Expr, has_columns: Callable[[int], bool]) -> tuple[Expr | None, Expr | None]:
    """Return a product as the part without columns and the part with them; None for a part that is 1."""
    rows: Expr | None = None
    columns: Expr | None = None
    stack = [body]
    while stack:
        each = stack.pop()
        if isinstance(each, Apply) and each.opcode == "mul":
            stack += reversed(each.operands)
        elif isinstance(each, Literal) and each.value == 1:
            continue
        elif any(has_columns(number) for number in arguments(each)):
            columns = each if columns is None else apply("mul", columns, each)
        else:
            rows = each if rows is None else apply("mul", rows, each)
    return rows, columns
