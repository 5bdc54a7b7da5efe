"""Find products that are compared: computed again they may differ in the last bit, which turns a comparison round.

The gradient of a maximum counts sum_j (s_ij == m_i), where m_i was found of one product's bits s_ij.
"""

from tessera.core.graph.expr import Apply, Expr, Literal, arguments, walk
from tessera.core.graph.graph import Graph, Node, Value


def is_compared(graph: Graph, value: Value, shape: tuple[int, ...]) -> bool:
    """Return whether a product that `value` is made of, element by element, is compared with a computed number.

    shape: of the value, and of such products
    A comparison with a constant has the same result but where the product is next to that constant.
    """
    derived = _products(graph, value, shape)
    stack = list(derived)
    while stack:
        for user in graph.users.get(stack.pop(), ()):
            if user.op == "map" and any(_compares(each, _numbers(user, derived)) for each in walk(user.expr)):
                return True
            if user.op in ("map", "view") and user.result not in derived and user.result.type.dtype.is_float:
                derived.add(user.result)
                stack.append(user.result)
    return False


def _products(graph: Graph, value: Value, shape: tuple[int, ...]) -> set[Value]:
    found: set[Value] = set()
    stack = [value]
    while stack:
        node = graph.producers.get(stack.pop())
        if node is not None and node.result.type.shape == shape:
            if node.op == "contract":
                found.add(node.result)
            elif node.op == "map":
                stack += node.operands
    return found


def _numbers(node: Node, derived: set[Value]) -> set[int]:
    return {number for number, operand in enumerate(node.operands) if operand in derived}


def _compares(expr: Expr, numbers: set[int]) -> bool:
    if not isinstance(expr, Apply) or expr.opcode != "cmp" or any(isinstance(each, Literal) for each in expr.operands):
        return False
    return any(numbers & set(arguments(each)) for each in expr.operands)
