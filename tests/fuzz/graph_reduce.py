"""Make a failing graph small: fewer outputs and steps, smaller extents, plainer arguments, as long as it fails alike."""

import math
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from fuzz.check import Outcome
from fuzz.graphs import GraphCase, Input, Step
from tessera import op
from tessera.core.base.dtypes import from_numpy
from tessera.core.errors.base import TesseraError
from tessera.core.graph.graph import Tensor
from tessera.graphs.trace import tracing
from tessera.graphs.tracer import Tracer

Check = Callable[[GraphCase], Outcome]


def reduced_graph(case: GraphCase, check: Check, seconds: float = 60.0) -> GraphCase:
    """The smallest graph that was found in time, which fails as `case` does."""
    end = time.monotonic() + seconds
    mistake = _alike(check(case))
    progress = True
    while progress and time.monotonic() < end:
        progress = False
        for candidate in smaller(case):
            if time.monotonic() > end:
                break
            if _traces(candidate) and _alike(check(candidate)) == mistake:
                case, progress = candidate, True
                break
    return case


def _alike(outcome: Outcome) -> str:
    """A failure without its numbers: what two failures have in common."""
    return outcome.kind if outcome.kind == "differs" else f"{outcome.kind} {re.sub('[0-9]+', 'N', outcome.detail)[:60]}"


def smaller(case: GraphCase) -> Iterator[GraphCase]:
    """The same graph with one thing less; large changes first."""
    for number in range(len(case.outputs)):
        if len(case.outputs) > 1:
            yield _swept(replace(case, outputs=case.outputs[:number] + case.outputs[number + 1 :]))
    types = _types(case)
    for number, step in reversed(list(enumerate(case.steps))):
        made = types.get(step.name)
        if made is not None:
            given = Input(f"y{number}", made.dtype.name, made.shape, values=case.inputs[0].values)
            yield _swept(_renamed(case, step.name, given))
            if len(case.outputs) == 1 and case.outputs[0] != step.name:
                yield _swept(replace(case, outputs=(step.name,)))
    for step in case.steps:
        for other in re.findall(r"[vxy]\d+", step.text):
            if types.get(other) and types.get(step.name) and types[other] == types[step.name]:
                steps = tuple(
                    Step(each.name, _named(each.text, step.name, other)) for each in case.steps if each != step
                )
                outputs = tuple(other if name == step.name else name for name in case.outputs)
                yield _swept(replace(case, steps=steps, outputs=outputs))
    yield from _extents(case)
    for number, each in enumerate(case.inputs):
        plain = [replace(each, view="plain"), replace(each, values="small"), replace(each, values="ordinary")]
        if each.dtype != "f32":
            plain.append(replace(each, dtype="f32"))
        for one in plain:
            if one != each and not (one.values == "ordinary" and each.values == "small"):
                yield replace(case, inputs=(*case.inputs[:number], one, *case.inputs[number + 1 :]))


def _renamed(case: GraphCase, name: str, given: Input) -> GraphCase:
    """An argument in the place of a step."""
    steps = tuple(Step(each.name, _named(each.text, name, given.name)) for each in case.steps if each.name != name)
    outputs = tuple(given.name if each == name else each for each in case.outputs)
    return replace(case, inputs=(*case.inputs, given), steps=steps, outputs=outputs)


def _named(text: str, old: str, new: str) -> str:
    return re.sub(rf"\b{old}\b", new, text)


def _extents(case: GraphCase) -> Iterator[GraphCase]:
    """A number that is an extent, smaller everywhere."""
    for size in sorted({size for each in case.inputs for size in each.shape if size > 1}, reverse=True):
        for other in sorted({1, 2, 3, size // 2, size - 1} - {0, size}):
            if other > size:
                continue
            inputs = tuple(
                replace(each, shape=tuple(other if n == size else n for n in each.shape)) for each in case.inputs
            )
            steps = tuple(
                Step(each.name, re.sub(rf"(?<![\w.]){size}(?![\w.])", str(other), each.text)) for each in case.steps
            )
            yield replace(case, inputs=inputs, steps=steps)
            yield replace(case, inputs=inputs)


def _swept(case: GraphCase) -> GraphCase:
    """Without steps and arguments that nothing uses."""
    steps = list(case.steps)
    for step in reversed(case.steps):
        later = " ".join([*(each.text for each in steps if each != step), *case.outputs])
        if not re.search(rf"\b{step.name}\b", later):
            steps.remove(step)
    used = " ".join([*(each.text for each in steps), *case.outputs])
    inputs = tuple(each for each in case.inputs if re.search(rf"\b{each.name}\b", used))
    return replace(case, steps=tuple(steps), inputs=inputs)


def _traced(case: GraphCase) -> dict[str, Tracer]:
    """The values of a graph by name, as tracers.  Raises what operators refuse."""
    with tracing() as trace:
        values: dict[str, Tracer] = {}
        for each in case.inputs:
            kind = from_numpy(each.make(case.seed).dtype)
            assert kind is not None
            values[each.name] = Tracer(trace, trace.input(Tensor(kind, each.shape), each.name))
        for step in case.steps:
            values[step.name] = eval(step.text, {"op": op, "math": math}, dict(values))
        return values


def _types(case: GraphCase) -> dict[str, Tensor]:
    return {name: made.value.type for name, made in _traced(case).items()}


def _traces(case: GraphCase) -> bool:
    try:
        values = _traced(case)
    except (TesseraError, ValueError, IndexError, ZeroDivisionError, TypeError):
        return False
    return all(isinstance(values.get(name), Tracer) for name in case.outputs)
