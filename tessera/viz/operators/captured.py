"""The subject of views of operator graphs: a function of operators, captured for some arguments."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import FunctionType
from typing import TypeAlias, cast

from tessera.api.jit import Jit
from tessera.core.graph.graph import Graph, Node
from tessera.core.schedule.plan import Group, Plan
from tessera.core.stage import Stage
from tessera.core.targets import CPU, Target
from tessera.graphs.executable import Executable
from tessera.graphs.execution.prepared import GroupKernel
from tessera.graphs.function import GraphFunction
from tessera.graphs.structure import flatten
from tessera.kernels.target_choice import chosen_target
from tessera.session.session import resolve_target
from tessera.viz.base.selection import group_of
from tessera.viz.base.subjects import wrong
from tessera.viz.operators.records import Ancestry, BodyPlan, graph_listing, identity, plan_listing

Capturable: TypeAlias = Callable[..., object]
"""What views of operator graphs take: what `@graph.module`, `@jit` and `tessera.grad` make, or a plain function."""


@dataclass(frozen=True, eq=False)
class CapturedGraph:
    """A captured function.

    arguments: the examples that were given, none where the last call is shown
    leaves: the arrays of its graph's inputs for these
    """

    name: str
    executable: Executable
    arguments: tuple[object, ...] = ()
    leaves: tuple[object, ...] = ()

    @property
    def plan(self) -> Plan:
        """The kernels that compute it."""
        return self.executable.plan

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The graph in all its states, as it is scheduled last."""
        return (*(graph for _, graph in self.executable.states), self.plan.graph)

    @property
    def selection(self) -> str:
        """The selection that all views of the function share."""
        return group_of(self.name, self.executable.traced.source)

    @cached_property
    def ancestry(self) -> Ancestry:
        """The captured nodes that each node was made of."""
        return Ancestry(self.graphs)

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """Level `graph` after each pass, and level `schedule`."""
        made = [graph_listing(graph, name, self.ancestry) for name, graph in self.executable.states]
        made.append(plan_listing(self.plan, "schedule-fuse", self.ancestry, self.bodies))
        return tuple(Stage(each.level, each.stage, None, each, each.records) for each in made)

    @cached_property
    def bodies(self) -> tuple[BodyPlan, ...]:
        """The plans of the bodies of loops and branches, those of bodies in bodies after what holds them."""
        return tuple(_bodies(self.executable, "", ()))

    @property
    def rows_aligned(self) -> tuple[bool, ...]:
        """Tell which arguments have rows of multiples of 16 bytes; arrays as libraries allocate them begin at such."""
        types = [value.type for value in self.executable.graph.inputs]
        return tuple(bool(kind.shape) and kind.shape[-1] * kind.dtype.numpy.itemsize % 16 == 0 for kind in types)

    def target(self, name: str = "") -> Target:
        """Return the target that a call runs on, or the one of that name; the CPU's for the interpreter."""
        found = resolve_target(name) if name else chosen_target(self.executable.options, self.arguments)
        return found if found.kind.backend else resolve_target(CPU.name)

    def kernel(self, group: Group, target: Target) -> GroupKernel:
        """Return the kernel of a group, compiled for a target."""
        return next(each for each in self.executable.kernels(target) if each.group is group)


def _bodies(executable: Executable, path: str, nodes: tuple[Node, ...]) -> Iterator[BodyPlan]:
    for node, bodies in executable.bodies.items():
        for number, body in enumerate(bodies):
            name = f"{path}{node.op} {identity(node)}{f'.{number}' if len(bodies) > 1 else ''}"
            yield BodyPlan(name, (*nodes, node), body.plan)
            yield from _bodies(body, f"{name} ", (*nodes, node))


def is_capturable(x: object) -> bool:
    """Return whether `x` is a captured function, or a plain one that may be captured."""
    return isinstance(x, GraphFunction | Jit | FunctionType)


def captured(x: object, arguments: Sequence[object], view: str) -> CapturedGraph:
    """Return a function captured for arguments like these; without any, as it was last called.

    view: the function that asks, for the message
    Raises NothingToShow for what is no function of operators, NotCalledYet, and the mistakes of operators.
    """
    if isinstance(x, Jit):
        x = cast("Jit[..., object]", x).function
    if isinstance(x, FunctionType) and arguments:
        x = GraphFunction(x)
    if not isinstance(x, GraphFunction):
        raise wrong(view, "a function of operators", x, f"give what @graph.module makes: {view}(f, x, y)")
    function = cast("GraphFunction[..., object]", x)
    leaves: list[object] = []
    if arguments:
        flatten(tuple(arguments), leaves)
        leaves += function.graph_for(*arguments).captured
    return CapturedGraph(function.name, function.executable_for(*arguments), tuple(arguments), tuple(leaves))
