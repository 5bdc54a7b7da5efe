"""Operations, blocks and whole kernels, as immutable data in structured SSA form.

`spec.py` beside this file is the table of every opcode: operands, attributes, results and effects.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tessera.core.base.source import NOWHERE, Source, Span
from tessera.core.program.expressions import Expression
from tessera.core.program.types import Array, Type

UNKNOWN_SOURCE: Final = Source("<unknown>", "")

Attribute = int | float | bool | str | None | tuple["Attribute", ...]


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """One SSA value.  Identity is the object; `name` is a hint for printing (the user's variable)."""

    type: Type
    name: str = ""
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """One operation: `opcode` names a row of the table in `spec.py`."""

    opcode: str
    operands: tuple[Value, ...] = ()
    results: tuple[Value, ...] = ()
    attributes: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])
    regions: tuple["Block", ...] = ()
    span: Span = NOWHERE

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A straight list of operations; the last one of a region's block is a `yield`."""

    arguments: tuple[Value, ...] = ()
    ops: tuple[Op, ...] = ()

    def walk(self) -> Iterator[Op]:
        """Every operation, outer before inner, in program order."""
        for op in self.ops:
            yield op
            for region in op.regions:
                yield from region.walk()


@dataclass(frozen=True, slots=True, eq=False)
class Parameter:
    """One parameter: `value.type` is an `Array` or a `Scalar`; `mutable` arrays may be written."""

    name: str
    value: Value
    mutable: bool = False
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True)
class Symbol:
    """A shape name: bound at launch from axis `axis` of parameter `parameter`, times `scale`.

    `K/tp` with tp = 2 in an annotation binds K to twice the extent that is found.
    """

    name: str
    parameter: int
    axis: int
    scale: int = 1


@dataclass(frozen=True, slots=True)
class Domain:
    """How many lanes `kernel(args)` launches when the user gives no grid.

    `kind` is "lanes" (one a point: the largest of `extents`; empty when it cannot be derived and a grid must be
    given), "groups" (the largest of `extents` is the number of groups) or "single" (no lane or group id is used: one
    group, whose independent tile ranges are spread over groups).
    `axes` is not empty where lanes lie along several axes: along each the largest of its bounds, empty as above.
    """

    kind: str
    extents: tuple[Expression, ...] = ()
    axes: tuple[tuple[Expression, ...], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Workspace:
    """Memory that a kernel has while it runs, in which one phase leaves what another one needs.

    value: the array; its extents are numbers, or symbols of its own
    extents: what they are, as expressions of the kernel's symbols
    """

    value: Value
    extents: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A kernel for one set of argument types.

    group: lanes a group along each axis when the kernel says `tile[...]`, else None (one group: the whole domain)
    chosen: the kernel does not say, but has lanes along several axes: the frontend chose `group`
    shared_limit: bytes from `shared(...)`, else None
    symbols: every shape symbol, first binding first
    options: schedule options (from the user or the tuner), e.g. `{"lanes": 256}`
    workspaces: memory that each launch needs; given: that of the last parameters, which the launcher gives
    same_extents: pairs of (parameter, axis) that it is built for the same extents of, although no annotation says so
    """

    name: str
    parameters: tuple[Parameter, ...]
    body: Block
    symbols: tuple[Symbol, ...]
    domain: Domain
    group: tuple[int, ...] | None = None
    shared_limit: int | None = None
    options: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])
    source: Source = UNKNOWN_SOURCE
    span: Span = NOWHERE
    chosen: bool = False
    workspaces: tuple[Workspace, ...] = ()
    given: tuple[Workspace, ...] = ()
    same_extents: tuple[tuple[tuple[int, int], tuple[int, int]], ...] = ()

    def with_workspaces(self) -> "Program":
        """Return the program with its workspaces as further parameters, last, that the launcher supplies (`given`)."""
        if not self.workspaces:
            return self
        parameters, symbols = list(self.parameters), list(self.symbols)
        for space in self.workspaces:
            kind = space.value.type
            names = kind.shape if isinstance(kind, Array) else ()
            symbols += [Symbol(n, len(parameters), axis) for axis, n in enumerate(names) if isinstance(n, str)]
            parameters.append(Parameter(space.value.name, space.value, True, space.value.span))
        given = (*self.given, *self.workspaces)
        return replace(self, parameters=tuple(parameters), symbols=tuple(symbols), workspaces=(), given=given)


def find(block: Block, wanted: Callable[[Op], bool]) -> Op | None:
    """The first operation, in program order, for which `wanted` holds."""
    return next((op for op in block.walk() if wanted(op)), None)
