"""Parameters with numerics: `x: Tensor["B", "D", fp6 @accum(fp32)]` makes codes of the array that is given."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType

from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.numerics import Numerics, TensorOf, declared_numerics
from tessera.graphs.scaled import Scaled, quantize
from tessera.graphs.trace import Trace, is_operand
from tessera.graphs.tracer import Tracer, as_tracer


def declared(function: Callable[..., object]) -> Mapping[str, object]:
    """Return the annotations of a function's parameters that declare numerics, by their names."""
    function = inspect.unwrap(function)
    if not isinstance(function, FunctionType):
        return {}
    found = {name: _evaluated(each, function) for name, each in inspect.get_annotations(function).items()}
    return {name: each for name, each in found.items() if name != "return" and declared_numerics(each) is not None}


def _evaluated(annotation: object, function: FunctionType) -> object:
    """Return an annotation that a cell keeps as text; without an @ there are no numerics in it."""
    if not isinstance(annotation, str) or "@" not in annotation:
        return annotation
    names = {**function.__globals__, "__builtins__": function.__builtins__}
    return eval(annotation, names)  # noqa: S307 - the user's own text, where Python would evaluate it


def as_declared(
    function: Callable[..., object], arguments: Sequence[object], keywords: Mapping[str, object], trace: Trace
) -> tuple[Sequence[object], Mapping[str, object]]:
    """Return a call's arguments with arrays as codes where their parameters declare it.  Raises OperandMismatch."""
    wanted = declared(function)
    if not wanted:
        return arguments, keywords
    bound = inspect.signature(inspect.unwrap(function)).bind(*arguments, **keywords)
    for name, annotation in wanted.items():
        if name in bound.arguments:
            bound.arguments[name] = stored(bound.arguments[name], annotation, name, trace)
    return bound.args, bound.kwargs


def stored(value: object, annotation: object, name: str, trace: Trace) -> object:
    """Return a value as an annotation declares it: codes of an array, or codes that are those already.

    Raises OperandMismatch for other codes, and another number of axes.
    """
    numerics = declared_numerics(annotation)
    if numerics is None or (not isinstance(value, Scaled | Tracer) and not is_operand(value)):
        return value
    check(value, annotation, numerics, name)
    return value if isinstance(value, Scaled) else quantize(as_tracer(value, trace), numerics)


def check(value: object, annotation: object, numerics: Numerics, name: str) -> None:
    """Raise OperandMismatch for a value that is not, and does not become, what an annotation declares."""
    shape = tuple(getattr(value, "shape", ()))
    if isinstance(annotation, TensorOf) and len(shape) != len(annotation.axes):
        names = ", ".join(map(str, annotation.axes))
        raise OperandMismatch(f"{name} has the shape {shape}, and is declared with the axes {names}")
    if isinstance(value, Scaled) and value.numerics != numerics:
        raise OperandMismatch(
            f"{name} is {value.numerics}, and is declared as {numerics}",
            hint="quantise it as it is declared, or declare what it is",
        )
