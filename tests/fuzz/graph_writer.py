"""Writes the statements of a random graph.

Each is tried on tracers as it is drawn, so that shapes and dtypes are known, and what operators refuse is left out.
"""

# Operators take arrays of any library, tracers among them, which their types cannot say.
# pyright: reportUnknownMemberType=false

import math
import random
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np

from fuzz.graphs import DTYPES, FLOATS, VIEWS, GraphCase, Input, Step
from tessera import op
from tessera.core.base.dtypes import from_numpy
from tessera.core.errors.base import TesseraError
from tessera.core.graph.graph import Node, Tensor
from tessera.core.graph.infer import labels_of
from tessera.graphs.trace import tracing
from tessera.graphs.tracer import Tracer

OFTEN: Final = ("f32",) * 6 + ("f64", "f16", "bf16", "bf16", "i32", "i64", "bool")
EXTENTS: Final = (1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 32, 33, 64, 100, 128, 257)
VALUES: Final = ("small", "small", "ordinary", "ordinary", "shifted", "special")
MOST: Final = 1 << 16
"""Elements of a value at most."""
MOST_WORK: Final = 1 << 23
"""Products that are added up, or elements that are moved, by one step at most."""
Kind: TypeAlias = "Callable[[GraphWriter], str]"
"""A kind of step: gives the text of an expression."""


class GraphWriter:
    """Writes statements over the values so far.  values: by name, as tracers of the graph so far."""

    def __init__(self, source: random.Random, seed: int, kinds: Sequence[tuple[Kind, int]]) -> None:
        self.random, self.seed, self.kinds = source, seed, kinds
        self.inputs: list[Input] = []
        self.steps: list[Step] = []
        self.values: dict[str, Tracer] = {}
        self.kind = source.choice(VALUES)
        self.dtype = source.choice(OFTEN)

    def drawn(self) -> GraphCase:
        """Draw inputs, steps and outputs."""
        with tracing() as self.trace:
            for _ in range(self.number(1, 3)):
                self.input(self.some_dtype(), self.shape(self.number(0, 3)))
            wanted = self.number(1, 9)
            for _ in range(wanted):
                self.step()
            return GraphCase(self.seed, tuple(self.inputs), tuple(self.steps), self.outputs())

    def outputs(self) -> tuple[str, ...]:
        """The last value, and perhaps others: what was computed on the way, what was given, one twice."""
        names = list(self.values)
        found = [self.steps[-1].name if self.steps else names[0]]
        while self.random.random() < 0.35:
            found.append(self.random.choice(names))
        return tuple(found)

    # -- choices -------------------------------------------------------------------------------------------------

    def number(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def pick(self, *options: str) -> str:
        return self.random.choice(options)

    def some_dtype(self) -> str:
        return self.dtype if self.random.random() < 0.7 else self.random.choice(OFTEN)

    def extent(self) -> int:
        return 0 if self.random.random() < 0.02 else self.random.choice(EXTENTS)

    def shape(self, rank: int) -> tuple[int, ...]:
        """A shape of few elements; often of extents that are there already."""
        known = [size for value in self.values.values() for size in value.shape]
        found = tuple(self.random.choice(known) if known and self.random.random() < 0.5 else self.extent()
                      for _ in range(rank))  # fmt: skip
        return found if math.prod(found) <= MOST // 4 else self.shape(rank)

    def input(self, dtype: str, shape: Sequence[int]) -> str:
        """A new argument."""
        name = f"x{len(self.inputs)}"
        view = self.random.choice(VIEWS)
        if view in ("column", "fortran", "overlapping") and len(shape) < 2:
            view = "plain"
        self.inputs.append(Input(name, dtype, tuple(shape), view, self.kind))
        kind = from_numpy(np.dtype(DTYPES[dtype]))
        assert kind is not None
        self.values[name] = Tracer(self.trace, self.trace.input(Tensor(kind, tuple(shape)), name))
        return name

    def value(self, holds: Callable[[Tracer], bool] = lambda _: True) -> str | None:
        """The name of a value, more likely a late one."""
        names = [name for name, value in self.values.items() if holds(value)]
        if not names:
            return None
        place = min(int(self.random.expovariate(0.5)), len(names) - 1)
        return names[-1 - place]

    def any(self) -> str:
        return self.value() or self.input(self.some_dtype(), ())

    def ranked(self, least: int, *, floating: bool = False) -> str:
        """A value of so many axes at least, made if there is none."""
        found = self.value(lambda v: v.ndim >= least and (v.dtype.is_float or not floating))
        dtype = self.some_dtype()
        return found or self.input(self.pick(*FLOATS) if floating and dtype not in FLOATS else dtype, self.shape(least))

    def floating(self) -> str:
        return self.value(lambda v: v.dtype.is_float) or self.input(self.pick(*FLOATS), self.shape(2))

    # -- steps ---------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Add one statement that operators take; several tries."""
        for _ in range(8):
            before = len(self.inputs)
            text = self.random.choices([kind for kind, _ in self.kinds], [weight for _, weight in self.kinds])[0](self)
            if self.add(text):
                return
            for each in self.inputs[before:]:
                del self.values[each.name]
                self.trace.inputs.pop()
            del self.inputs[before:]

    def add(self, text: str) -> bool:
        """Whether `text` is taken as a statement."""
        nodes = len(self.trace.builder.nodes)
        try:
            made = eval(text, {"op": op, "math": math}, dict(self.values))
        except TesseraError:
            del self.trace.builder.nodes[nodes:]
            return False
        large = [node for node in self.trace.builder.nodes[nodes:] if _work(node) > MOST_WORK]
        if not isinstance(made, Tracer) or made.size > MOST or large:
            del self.trace.builder.nodes[nodes:]
            return False
        name = f"v{len(self.steps)}"
        self.steps.append(Step(name, text))
        self.values[name] = made
        return True


def _work(node: Node) -> int:
    if node.op != "contract":
        return max(value.type.size for value in (*node.operands, *node.results))
    extents: dict[int, int] = {}
    for operand, labels in zip(node.operands, labels_of(node.attributes["labels"]), strict=True):
        extents.update(zip(labels, operand.type.shape, strict=True))
    return math.prod(extents.values())
