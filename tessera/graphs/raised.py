"""Kernels as graphs: raised for the types of a call, compared with the interpreter, and captured like operators."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from tessera.core.base.dtypes import DType, f64
from tessera.core.base.source import NOWHERE, Note
from tessera.core.errors.catalog import CannotRaise
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Number
from tessera.core.graph.graph import Graph, Tensor, Value
from tessera.core.program.program import Program
from tessera.core.program.types import Array
from tessera.graphs.trace import current_trace, is_operand, trace_of
from tessera.graphs.tracer import Tracer, as_tracer
from tessera.kernels.kernel import Kernel
from tessera.lowering.raising.positions import NotAffine
from tessera.lowering.raising.raise_program import Launch, raise_program
from tessera.lowering.raising.refusals import CUSTOM, NotRaised
from tessera.runtime.binding.grid import Grid
from tessera.runtime.interpret.geometry import launch_geometry
from tessera.runtime.interpret.graph import evaluate
from tessera.runtime.interpret.run import run

AnyArray = NDArray[np.generic]
Argument = Tensor | Number
"""The type of an array or of a traced number, or a number that is part of the program."""

_SMALL: Final = 6
"""The extents of the arrays that a raised kernel is compared on, about."""
_FEW: Final = 1 << 12
"""Elements up to which it is also compared on the extents that it is raised for."""
_TOLERANCE: Final = {64: 1e-9, 32: 3e-4, 16: 3e-2, 8: 3e-1}
"""How far floats may be from the kernel's, relative to the largest: sums may have another order."""


@dataclass(frozen=True, slots=True)
class RaisedProgram:
    """A raised kernel: a graph whose inputs are the tensors among the arguments, and the parameters it returns."""

    graph: Graph
    outputs: tuple[int, ...]
    program: Program
    launch: Launch


def raised(kernel: Kernel, arguments: Sequence[Argument], grid: Grid | None = None) -> RaisedProgram:
    """Raise a kernel for arguments like these, and compare it with the interpreter.

    Raises CannotRaise, with the line that stands in the way.
    """
    made = _raised(kernel, arguments, grid)
    for number, shapes in enumerate(_trials(made.program, arguments)):
        trial = made if shapes == [_shape(a) for a in arguments] else _raised(kernel, _with(arguments, shapes), grid)
        _compare(trial, _with(arguments, shapes), np.random.default_rng(number), positive=bool(number % 2))
    return made


def _raised(kernel: Kernel, arguments: Sequence[Argument], grid: Grid | None) -> RaisedProgram:
    program = kernel.program(tuple(_example(each) for each in arguments))
    symbols = _symbols(program, arguments)
    builder = GraphBuilder()
    named = zip(program.parameters, arguments, strict=True)
    given = [Value(each, parameter.name) if isinstance(each, Tensor) else each for parameter, each in named]
    inputs = [each for each in given if isinstance(each, Value)]
    blocks, threads = (None, None) if grid is None else (grid.blocks, grid.threads)
    try:
        geometry = launch_geometry(program, blocks, threads, symbols)
    except ValueError as wrong:
        refused = CannotRaise(str(wrong), program.span, "write kernel[grid, block]")
        raise refused.with_source(program.source) from None
    launch = Launch(geometry.grid, geometry.group, symbols)
    try:
        outputs = raise_program(program, given, launch, builder)
    except NotRaised as reason:
        span = reason.span if reason.span != NOWHERE else program.span
        raise CannotRaise(f"{program.name}: {reason.reason}", span, reason.hint).with_source(program.source) from None
    except NotAffine:
        message = f"{program.name}: an index mixes lanes, loops and tiles in a way that has no closed form"
        raise CannotRaise(message, program.span, CUSTOM).with_source(program.source) from None
    graph = builder.finish(program.name, inputs, list(outputs.values()), program.source, program.span)
    return RaisedProgram(graph, tuple(outputs), program, launch)


def _example(argument: Argument) -> object:
    """Return a value of the type that kernels are specialised by; what it holds does not matter."""
    if not isinstance(argument, Tensor):
        return argument
    return np.zeros(argument.shape, argument.dtype.numpy) if argument.shape else argument.dtype.numpy.type(0)


def _symbols(program: Program, arguments: Sequence[Argument]) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for symbol in program.symbols:
        argument = arguments[symbol.parameter]
        assert isinstance(argument, Tensor)
        found[symbol.name] = argument.shape[symbol.axis] * symbol.scale
    return found


def _shape(argument: Argument) -> tuple[int, ...]:
    return argument.shape if isinstance(argument, Tensor) else ()


def _with(arguments: Sequence[Argument], shapes: Sequence[tuple[int, ...]]) -> list[Argument]:
    pairs = zip(arguments, shapes, strict=True)
    return [Tensor(each.dtype, shape) if isinstance(each, Tensor) else each for each, shape in pairs]


def _trials(program: Program, arguments: Sequence[Argument]) -> list[list[tuple[int, ...]]]:
    """Return extents to compare on: small ones, equal where those given are, and those given where they are few."""
    given = [_shape(argument) for argument in arguments]
    kept = {symbol.name for symbol in program.symbols if symbol.scale != 1}
    free: set[int] = set()
    fixed: set[int] = set()
    for parameter, shape in zip(program.parameters, given, strict=True):
        kind = parameter.value.type
        for name, extent in zip(kind.shape if isinstance(kind, Array) else (), shape, strict=True):
            (free if isinstance(name, str) and name not in kept else fixed).add(extent)
    found: list[list[tuple[int, ...]]] = []
    for least in (_SMALL, _SMALL // 2):
        sizes = {extent: min(extent, least + n) for n, extent in enumerate(sorted(free - fixed))}
        trial = [tuple(sizes.get(extent, extent) for extent in shape) for shape in given]
        found += [trial] if trial not in found else []
    if given not in found and sum(int(np.prod(shape)) for shape in given) <= _FEW:
        found.append(given)
    return found


def _compare(made: RaisedProgram, arguments: Sequence[Argument], rng: np.random.Generator, *, positive: bool) -> None:
    """Compare a raised kernel with the interpreter on random arrays.  Raises CannotRaise where they differ."""
    values = [_random(each, rng, positive=positive) if isinstance(each, Tensor) else each for each in arguments]
    found = evaluate(made.graph, [np.array(v) for v, a in zip(values, arguments, strict=True) if isinstance(a, Tensor)])
    launched = [v.copy() if isinstance(v, np.ndarray) and v.ndim else _number(v) for v in values]
    launch = made.launch
    run(made.program, launched, symbols=launch.symbols, grid=_grid(made), group=_group(made))
    for number, result in zip(made.outputs, found, strict=True):
        wanted = cast("AnyArray", launched[number])
        parameter = made.program.parameters[number]
        kind = parameter.value.type
        assert isinstance(kind, Array)
        wrong = _differing(np.asarray(result), wanted, kind.dtype)
        if wrong is not None:
            raise CannotRaise(
                f"{made.program.name}: {parameter.name}{list(wrong)} of the graph is {np.asarray(result)[wrong]}, and "
                f"the kernel writes {wanted[wrong]}", parameter.span, CUSTOM,
                [Note("the result may depend on the order in which lanes run", made.program.span)],
            ).with_source(made.program.source)  # fmt: skip


def _number(value: object) -> Number:
    return cast("Number", value.item() if isinstance(value, np.ndarray | np.generic) else value)


def _grid(made: RaisedProgram) -> tuple[int, ...] | None:
    kind = made.program.domain.kind
    return made.launch.grid if made.program.group is not None or kind == "groups" else made.launch.group


def _group(made: RaisedProgram) -> tuple[int, ...] | None:
    kind = made.program.domain.kind
    return made.launch.group if made.program.group is not None or kind == "groups" else None


def _random(kind: Tensor, rng: np.random.Generator, *, positive: bool) -> AnyArray:
    if kind.dtype.is_float:
        numbers = rng.uniform(0.5, 1.5, kind.shape) if positive else rng.standard_normal(kind.shape)
        return np.asarray(numbers).astype(kind.dtype.numpy)
    low = 0 if positive or kind.dtype.numpy.kind in "ub" else -1
    return np.asarray(rng.integers(low, 5, kind.shape)).astype(kind.dtype.numpy)


def _differing(found: AnyArray, wanted: AnyArray, dtype: DType) -> tuple[int, ...] | None:
    """Return the index of the first element that is too far from what is wanted."""
    if not dtype.is_float:
        wrong = found != wanted
    else:
        a, b = found.astype(f64.numpy), wanted.astype(f64.numpy)
        finite = np.abs(b[np.isfinite(b)])
        bound = _TOLERANCE[dtype.bits] * max(1.0, float(finite.max(initial=0.0)))
        wrong = ~np.isclose(a, b, rtol=_TOLERANCE[dtype.bits], atol=bound, equal_nan=True)
    return tuple(int(n) for n in np.argwhere(wrong)[0]) if wrong.any() else None


def traced_arguments(values: Sequence[object]) -> list[Tracer | Number]:
    """Return a launch's arguments as values of the graph that is being captured, and numbers."""
    traced = (isinstance(value, Tracer) or is_operand(value) for value in values)
    return [as_tracer(v) if held else cast("Number", v) for v, held in zip(values, traced, strict=True)]


def apply_kernel(kernel: Kernel, values: Sequence[object], grid: Grid | None) -> dict[int, Tracer]:
    """Append a kernel to the graph that is being captured; return the arrays it writes, by parameter."""
    trace = trace_of()
    arguments = traced_arguments(values)
    types = [each.value.type if isinstance(each, Tracer) else each for each in arguments]
    made = raised(kernel, types, grid)
    with trace.operator(made.program.name):
        inputs = [each.value for each in arguments if isinstance(each, Tracer)]
        outputs = trace.builder.inline(made.graph, inputs)
    return {number: Tracer(trace, value) for number, value in zip(made.outputs, outputs, strict=True)}


def capture_launch(kernel: object, values: Sequence[object], grid: Grid | None) -> bool:
    """Take a launch on values of a graph into that graph: what the kernel writes takes the place of what it held.

    Raises CannotRaise for an output that is no value of the graph, and for one array that is given twice and written.
    """
    trace = current_trace()
    if trace is None or not trace.takes_launches or not any(isinstance(value, Tracer) for value in values):
        return False
    assert isinstance(kernel, Kernel)
    written = apply_kernel(kernel, values, grid)
    names = list(inspect.signature(kernel.function).parameters)
    for number in written:
        target, name = values[number], names[number]
        if not isinstance(target, Tracer):
            raise CannotRaise(
                f"{kernel.source.name} writes {name}, an array outside of the graph",
                hint="make it in the graph: op.full(0.0, shape)",
            )
        if sum(each is target or getattr(each, "value", None) is target.value for each in values) > 1:
            raise CannotRaise(
                f"{kernel.source.name} is given one array twice, and writes it as {name}",
                hint="give it an array of its own: op.full(0.0, shape)",
            )
    for number, result in written.items():
        cast("Tracer", values[number]).value = result.value
    return True
