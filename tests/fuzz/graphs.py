"""Graphs of operators as text: the statements of a function on arrays, and its arguments."""

# Operators take arrays of any library, tracers among them, which their types cannot say.
# pyright: reportUnknownMemberType=false

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np

from fuzz.arrays import numbers, viewed
from tessera import op
from tessera.core.graph.graph import Graph
from tessera.graphs.function import GraphFunction

DTYPES: Final[dict[str, Any]] = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i64": np.int64,
    "i32": np.int32, "i8": np.int8, "u8": np.uint8, "bool": np.bool_,
}  # fmt: skip
FLOATS: Final = ("f32", "f64", "f16", "bf16")
VIEWS: Final = ("plain",) * 6 + ("offset", "step", "reversed", "fortran", "column", "repeated", "overlapping")


@dataclass(frozen=True)
class Input:
    """One argument: `view` says how it lies in memory, `values` what it holds (see `fuzz.arrays`)."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    view: str = "plain"
    values: str = "small"

    def make(self, seed: int) -> np.ndarray:
        """A fresh array, the same each time."""
        source = np.random.default_rng([seed, *self.name.encode()])
        return viewed(self.view if self.shape else "plain", self.shape, lambda wanted: self._numbers(wanted, source))

    def _numbers(self, shape: tuple[int, ...], source: np.random.Generator) -> np.ndarray:
        kind = DTYPES[self.dtype]
        if self.dtype == "bool":
            return source.random(shape) < 0.6 if shape else np.array(source.random() < 0.6)
        if self.values == "small":
            return np.asarray(source.integers(0 if self.dtype == "u8" else -3, 4, shape)).astype(kind)
        if self.dtype not in FLOATS:
            low, high = {"i8": (-99, 100), "u8": (0, 200)}.get(self.dtype, (-9, 100))
            return np.asarray(source.integers(low, high, shape)).astype(kind)
        if self.values in ("ordinary", "shifted"):  # a mean far from 0 shows what cancels
            return np.asarray(source.normal(size=shape) + (30 if self.values == "shifted" else 0)).astype(kind)
        some = np.asarray(source.normal(size=shape)).astype(kind)
        rare = numbers(self.dtype, "special", shape, source)
        with np.errstate(all="ignore"):  # what is huge overflows here or there: that says nothing
            chosen = (source.random(shape) < 0.05) & ~(np.isfinite(rare) & (np.abs(rare) > 99))
        return np.where(chosen, rare, some).astype(kind)


@dataclass(frozen=True)
class Step:
    """One statement: `name = text`."""

    name: str
    text: str


@dataclass(frozen=True)
class GraphCase:
    """A function on arrays: what it takes, its statements, and the names that it returns."""

    seed: int
    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]

    @property
    def text(self) -> str:
        """The function."""
        lines = [f"def f({', '.join(each.name for each in self.inputs)}):"]
        lines += [f"    {step.name} = {step.text}" for step in self.steps]
        return "\n".join([*lines, f"    return {', '.join(self.outputs)},"]) + "\n"

    def function(self) -> Callable[..., Any]:
        """The function as an object."""
        names: dict[str, Any] = {"op": op, "math": math}
        exec(compile(self.text, "<fuzz>", "exec"), names)
        return names["f"]

    def captured(self) -> tuple[GraphFunction[..., Any], Graph]:
        """The function on arrays, and its graph as it was captured."""
        made: GraphFunction[..., Any] = GraphFunction(self.function(), "fuzzed")
        return made, made.graph_for(*self.arguments()).graph

    def arguments(self) -> list[np.ndarray]:
        """Fresh arguments, the same ones each time."""
        return [each.make(self.seed) for each in self.inputs]

    def script(self) -> str:
        """Python that runs it (with `tests` on the path)."""
        given = [f"    {each!r},\n" for each in self.inputs]
        return (
            f"from tessera import graph, op\nfrom fuzz.graphs import Input\n\n{self.text}\n"
            f"inputs = (\n{''.join(given)})\nprint(graph.module('f')(f)(*[each.make({self.seed}) for each in inputs]))\n"
        )
