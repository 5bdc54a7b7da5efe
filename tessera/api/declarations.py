"""Declarations that act: `x: Tensor["B", "D", fp6 @accum(fp32)]` in a cell makes codes of the array `x`."""

from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.numerics import declared_numerics
from tessera.graphs.declared import check
from tessera.graphs.scaled import Scaled
from tessera.graphs.trace import is_operand
from tessera.ops import op


def store_declared(value: object, annotation: object, name: str) -> object:
    """Return an array as an annotation declares it: codes and scales of numbers; codes that are those already.

    Raises OperandMismatch for other codes, for another number of axes, and for what is no array.
    """
    numerics = declared_numerics(annotation)
    if numerics is None:
        return value
    if not isinstance(value, Scaled) and not is_operand(value):
        raise at_call(OperandMismatch(f"{name} is declared as {numerics}, and is no array: {value!r}"))
    try:
        check(value, annotation, numerics, name)
    except OperandMismatch as mistake:
        raise at_call(mistake) from None
    return value if isinstance(value, Scaled) else op.quantize(value, numerics)
