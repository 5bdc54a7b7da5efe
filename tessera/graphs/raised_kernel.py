"""`raise_kernel`: a kernel as a function of graphs, which returns what the kernel writes."""

from typing import Any, cast

from tessera.core.errors.catalog import CannotRaise
from tessera.graphs.function import GraphFunction
from tessera.graphs.raised import apply_kernel
from tessera.kernels.kernel import Configured, Kernel

Written = Any  # an array, or a tuple of arrays, of the library that the arguments are of


def raise_kernel(kernel: Kernel | Configured) -> GraphFunction[..., Written]:
    """Return a kernel as a graph: `raise_kernel(k)(x, y)` takes what `k` takes and returns the arrays that it writes.

    The arguments stay as they are.  One array is returned as it is, several are a tuple in the order of the parameters;
    numbers are part of the graph.  It is captured, inspected, differentiated and compiled like any other graph, and
    compared with the interpreter on random arrays when it is captured.
    Raises CannotRaise, when called, for a kernel that is no mathematics of its arguments: a `while` that values end,
    lanes that exchange values, shared memory, an element that is written at a computed index or from several points.
    """
    wanted, grid = (kernel.kernel, kernel.grid) if isinstance(kernel, Configured) else (kernel, None)
    if not isinstance(cast("object", wanted), Kernel):
        raise CannotRaise(f"{wanted!r} is no kernel", hint="pass a function under @kernel")

    def function(*arguments: object, **keywords: object) -> Written:
        results = list(apply_kernel(wanted, wanted.ordered(arguments, keywords), grid).values())
        return results[0] if len(results) == 1 else tuple(results)

    function.__doc__ = wanted.function.__doc__
    return GraphFunction(function, wanted.source.name)
