"""Hold the values of loops at one point of a kernel: an index is a position, a carried value a function."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tessera.core.program.program import Value
from tessera.lowering.raising.positions import AffinePosition
from tessera.lowering.raising.terms import Element

At = tuple[AffinePosition, ...]
Binding = Callable[[At], Element]


@dataclass(frozen=True, eq=False)
class LoopScope:
    """Bindings inside of others.

    known: elements that were worked out here; loops: the scopes of loops inside, by what they were made for
    """

    bindings: Mapping[Value, Binding]
    parent: "LoopScope | None" = None
    known: dict[tuple[Value, At], Element] = field(default_factory=dict[tuple[Value, At], Element])

    def find(self, value: Value) -> Binding | None:
        """Return the binding of a value, if it has one."""
        scope: LoopScope | None = self
        while scope is not None:
            if value in scope.bindings:
                return scope.bindings[value]
            scope = scope.parent
        return None


def constant(element: Element) -> Binding:
    """Bind a value that is the same everywhere."""
    return lambda _: element
