"""Functions whose parameters declare extents as symbols: captured and planned once, and run for every extent.

    @graph.module("scores")
    def scores(q: "f32[n, 64]", k: "f32[m, 64]"):
        return op.softmax(q @ k.T)

The graph is captured with symbols for `n` and `m`, and all passes work on these.  What they decide by an extent, such
as `n <= 16384` or `n % 128 == 0`, is a condition of the plan.  Extents that fulfil the conditions of a plan take it,
with their numbers in it: operation for operation the plan that they would get by themselves.  Others get another one.
"""

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import unwrap
from itertools import starmap
from types import FunctionType
from typing import Final, TypeAlias

from tessera.core.base.dtypes import BY_NAME
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.extents import SMALLEST, Symbols
from tessera.core.graph.graph import Graph, Tensor
from tessera.core.graph.graph_key import graph_key
from tessera.core.graph.substitute_extents import Substitution
from tessera.core.graph.text import to_text
from tessera.core.graph.verify import verify
from tessera.core.schedule.text import plan_text
from tessera.graphs.executable import Executable
from tessera.graphs.planning.plan_choice import PlannedGraph
from tessera.graphs.structure import Structure
from tessera.kernels.options import Options
from tessera.session.session import Session

_ARRAY: Final = re.compile(r"(\w+)\[([^\]@]*)\]")
_MOST: Final = 32
"""Plans that are kept of one function and one kind of arguments: sets of conditions."""


@dataclass(frozen=True, slots=True)
class ArrayOf:
    """The declaration of a parameter: a dtype, and extents that are numbers or names of symbols."""

    dtype: str
    extents: tuple[int | str, ...]


Declared: TypeAlias = Sequence[tuple[str, ArrayOf | None]]
"""The name of each array, and what its parameter declares, if it does."""
Capture: TypeAlias = Callable[[Sequence[Tensor]], tuple[Graph, Structure] | None]
"""Returns the graph of a function for arrays of some types, and the structure of what it returns.

None for a function that closes over arrays.
"""


def declared_arrays(function: Callable[..., object]) -> Mapping[str, ArrayOf]:
    """Return the parameters that declare an array as text, `x: "f32[n, 64]"`, where one has a symbol."""
    function = unwrap(function)
    if not isinstance(function, FunctionType):
        return {}
    found: dict[str, ArrayOf] = {}
    for name, annotation in function.__annotations__.items():
        read = _ARRAY.fullmatch(annotation.strip()) if isinstance(annotation, str) and name != "return" else None
        if read is None or read[1] not in BY_NAME:
            continue
        words = [word.strip() for word in read[2].split(",") if word.strip()]
        if all(word.isdigit() or word.isidentifier() for word in words):
            found[name] = ArrayOf(read[1], tuple(int(word) if word.isdigit() else word for word in words))
    return found if any(isinstance(each, str) for array in found.values() for each in array.extents) else {}


def bound(declared: Declared, types: Sequence[Tensor]) -> Mapping[str, int]:
    """Return the values of the symbols for arrays of some types.

    declared: the name of each array, and what its parameter declares, if it does
    Raises OperandMismatch for arrays that are not as declared.
    """
    found: dict[str, tuple[int, str]] = {}
    for (name, array), kind in zip(declared, types, strict=True):
        if array is None:
            continue
        if kind.dtype.name != array.dtype or len(kind.shape) != len(array.extents):
            wanted = f"{array.dtype}[{', '.join(map(str, array.extents))}]"
            raise OperandMismatch(f"{name} is {kind}, and is declared as {wanted}")
        for wished, size in zip(array.extents, kind.shape, strict=True):
            if isinstance(wished, int) and wished != size:
                raise OperandMismatch(f"{name} is {kind}, and is declared with an extent of {wished}")
            if isinstance(wished, str) and found.setdefault(wished, (size, name))[0] != size:
                before, other = found[wished]
                raise OperandMismatch(f"{wished} is {before} in {other} and {size} in {name}")
    return {symbol: size for symbol, (size, _) in found.items()}


def symbolic_types(
    declared: Declared, types: Sequence[Tensor], values: Sequence[int], names: Sequence[str]
) -> list[Tensor]:
    """Return types with values for the symbols that their parameters declare."""
    extents = dict(zip(names, values, strict=True))

    def made(declaration: tuple[str, ArrayOf | None], kind: Tensor) -> Tensor:
        array = declaration[1]
        if array is None:
            return kind
        return Tensor(kind.dtype, tuple(extents[each] if isinstance(each, str) else each for each in array.extents))

    return list(starmap(made, zip(declared, types, strict=True)))


class NotSymbolic(Exception):
    """A function that is captured and planned for each extent."""


@dataclass(frozen=True, eq=False)
class SymbolicPlan:
    """A graph with symbols and its plan, for all values that fulfil the symbols' conditions.

    returns: the structure of what the function returns
    """

    symbols: Symbols
    traced: Graph
    returns: Structure
    chosen: PlannedGraph

    @classmethod
    def of(
        cls, declared: Declared, types: Sequence[Tensor], values: Mapping[str, int], capture: Capture,
        algebra: frozenset[str],
    ) -> "SymbolicPlan | None":  # fmt: skip
        """Capture and plan a function with symbols, and compare it with that of other extents.

        None where the plan is for these values alone, or nearly so.  Raises NotSymbolic for graphs that hold graphs or
        calls, and where the graph or the plan is another one for other extents though no condition says so: of
        functions that loop over an extent or divide by one, for example.
        """
        symbols = Symbols(tuple(values), tuple(values.values()))
        captured = capture(symbolic_types(declared, types, symbols.extents, symbols.names))
        if captured is None or any(node.graphs or node.op in ("call", "collective") for node in captured[0].nodes):
            raise NotSymbolic
        traced, returns = captured
        verify(traced)
        made = cls(symbols, traced, returns, Executable(traced, algebra=algebra).chosen)
        symbols.close()
        others = symbols.another()
        if others is None or (found := made.at(others)) is None:
            return None
        again = capture(symbolic_types(declared, types, others, symbols.names))
        if again is None or graph_key(again[0]) != graph_key(found[0]):
            raise NotSymbolic
        planned = Executable(again[0], algebra=algebra).chosen
        same = planned.place == found[1].place and plan_text(planned.plan) == plan_text(found[1].plan)
        if not same or graph_key(planned.graph) != graph_key(found[1].graph):
            raise NotSymbolic
        return made

    def at(self, values: Sequence[int]) -> tuple[Graph, PlannedGraph] | None:
        """Return the graph and the plan with numbers for the symbols; None where a condition does not hold."""
        found = self.symbols.values(values)
        return None if found is None else Substitution(found)((self.traced, self.chosen))

    def text(self) -> str:
        """Return the conditions, the graph and the plan."""
        conditions = sorted({self.symbols.condition_text(each) for each in self.symbols.conditions})
        lines = [f"// for {', '.join(self.symbols.names)} >= 2 with", *(f"//   {each}" for each in conditions)]
        return "\n".join(lines) + "\n" + to_text(self.chosen.graph) + plan_text(self.chosen.plan)


class SymbolicExecutable(Executable):
    """Runs a graph that a plan with symbols became: nothing is planned for it.

    symbolic: that plan
    """

    def __init__(
        self, traced: Graph, planned: PlannedGraph, symbolic: SymbolicPlan, options: Options | None = None,
        home: Session | None = None, algebra: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        super().__init__(traced, options, home, algebra)
        self.symbolic, self._planned = symbolic, planned

    @cached_property
    def chosen(self) -> PlannedGraph:
        """The plan, with numbers for the symbols."""
        return self._planned


class SymbolicPlans:
    """The plans of one function, for arguments of any kind."""

    def __init__(self) -> None:
        self._plans: dict[Hashable, list[SymbolicPlan]] = {}
        self._refused: set[Hashable] = set()

    def found(
        self, kind: Hashable, declared: Declared, types: Sequence[Tensor], capture: Capture, algebra: frozenset[str]
    ) -> tuple[SymbolicPlan, Graph, PlannedGraph] | None:  # fmt: skip
        """Return a plan for arrays of some types, with its graph and plan for these.

        kind: of the arguments, but for the arrays' extents; algebra: what is permitted
        None for what is planned for each extent.  Raises OperandMismatch for arrays that are not as declared.
        """
        values = bound(declared, types)
        fixed = [
            tuple(None if array and isinstance(array.extents[axis], str) else size for axis, size in enumerate(t.shape))
            for (_, array), t in zip(declared, types, strict=True)
        ]
        key = (kind, tuple(fixed), tuple(each.dtype for each in types))
        given = tuple(values.values())
        if key in self._refused or not values or min(given) < SMALLEST:
            return None
        for each in self._plans.get(key, ()):
            if (known := each.at(given)) is not None:
                return each, *known
        try:
            made = SymbolicPlan.of(declared, types, values, capture, algebra)
        except NotSymbolic:
            self._refused.add(key)
            return None
        if made is None:
            return None
        self._plans[key] = [*self._plans.get(key, ())[-_MOST + 1 :], made]
        here = made.at(given)
        assert here is not None, "a plan is for what it was made for"
        return made, *here
