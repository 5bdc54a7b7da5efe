"""`tessera.check_adjoint`: derivatives of functions on arrays, compared with finite differences."""

import functools
from collections.abc import Callable

from tessera.core.errors.base import TesseraError
from tessera.core.errors.call_site import at_call
from tessera.graphs.function import GraphFunction
from tessera.graphs.structure import flatten
from tessera.lowering.autodiff import check
from tessera.lowering.autodiff.check import AdjointReport
from tessera.runtime.arrays.host import as_array
from tessera.runtime.interpret.graph import evaluate


def check_adjoint(
    function: Callable[..., object], *primals: object, tolerance: float | None = None, directions: int = 3
) -> AdjointReport:
    """Compare the derivative of a function on arrays with finite differences at `primals`, on the oracle.

    function: made of operators, or an operator of one's own (`op.custom`); primals: its arguments, arrays on the host,
      also where it has kinks: what differs from one side of one to the other is allowed
    tolerance: the greatest difference, in units of the greater of 1 and the quotient.  Without it 1e-5, in f64
      whatever the arrays hold, or 5e-3 where functions of the host take shorter floats
    directions: random directions and cotangents to compare along, the same ones in every call

    Returns how far each input is off, and how far from linear in the cotangents.  Raises WrongAdjoint with the operator
    that is wrong, NotDifferentiable for one without a derivative.
    """
    leaves: list[object] = []
    flatten(primals, leaves)
    try:
        captured = GraphFunction(function).graph_for(*primals)
        arrays = [as_array(leaf, "an argument") for leaf in (*leaves, *captured.captured)]
        fast = functools.partial(evaluate, blas=True)
        return check.check_adjoint(captured.graph, arrays, fast, {}, tolerance, directions)
    except TesseraError as mistake:
        raise at_call(mistake) from None
