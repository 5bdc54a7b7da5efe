"""Sums, products and extremes of nothing: nodes whose result does not depend on what they read.

Over an axis without elements a sum is 0, the greatest is the least number there is, and the least the greatest.
"""

import math

import numpy as np

from tessera.core.base.dtypes import DType
from tessera.core.graph.expr import Literal
from tessera.core.graph.graph import Node
from tessera.core.graph.infer import numbers


def constant_of(node: Node) -> Literal | None:
    """Return the number that a contraction or a reduction over no elements gives everywhere, else None."""
    if node.op not in ("contract", "reduce"):
        return None
    if not _sums_nothing(node):
        return None
    dtype = node.result.type.dtype
    kind = str(node.attributes["kind"]) if node.op == "reduce" else "contract"
    return Literal(_number(kind, dtype), dtype)


def _sums_nothing(node: Node) -> bool:
    if node.op == "contract":
        return not all(operand.type.size for operand in node.operands)
    shape = node.operands[0].type.shape
    return any(shape[axis] == 0 for axis in numbers(node.attributes["axes"]))


def _number(kind: str, dtype: DType) -> float | int:
    if kind in ("sum", "contract"):
        if not dtype.is_float:
            return 0
        return -0.0 if kind == "sum" else 0.0  # the identity of a sum; contractions begin at 0
    if dtype.is_float:
        return -math.inf if kind == "max" else math.inf
    if not dtype.is_integer:  # truth values
        return int(kind == "min")
    limits = np.iinfo(dtype.numpy)
    return int(limits.min if kind == "max" else limits.max)
