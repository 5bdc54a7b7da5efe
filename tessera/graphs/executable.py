"""A planned graph made ready for a target: compiled kernels, and how their arrays are passed on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from tessera.core.graph.graph import Graph, Value
from tessera.core.schedule.plan import CALL, Group, Plan
from tessera.core.settings import Settings, current
from tessera.core.targets import Target, generation
from tessera.graphs.host_steps import RoutineStep
from tessera.graphs.plan_choice import PlannedGraph, cheapest_plan
from tessera.graphs.steps import steps_of
from tessera.kernels.options import Options
from tessera.kernels.target_choice import chosen_target, target_at_hand
from tessera.lowering.graph.expand_calls import expand_calls
from tessera.lowering.graph.expand_random import expand_random
from tessera.lowering.graph.explain import Alternatives, explain
from tessera.lowering.graph.rewrite import Rewritten, rewrite
from tessera.lowering.graph.simplify import simplify
from tessera.lowering.graph.split_reductions import RULE as SPLIT_RULE
from tessera.lowering.schedule.emit.to_program import Lowered, arguments_of, to_program
from tessera.performance.machine_kind import MachineKind
from tessera.runtime.arrays.host import rows_aligned
from tessera.runtime.arrays.interop import is_jax
from tessera.runtime.arrays.pointers import address
from tessera.runtime.driver.driver import driver
from tessera.runtime.launch.launchers import Launcher, Loadable, runtime_of
from tessera.runtime.launch.on_stream import record_launch
from tessera.runtime.memory.operands import Operand, as_result, empty, operand, packed
from tessera.runtime.memory.owned import DeviceArray, to_device
from tessera.runtime.streams.graph_capture import recording
from tessera.session.compiled import Compiled
from tessera.session.session import Session, session


@dataclass(frozen=True, slots=True, eq=False)
class GroupKernel:
    """One group's kernel for a target.  compiled: None for the target `interpret`."""

    group: Group
    lowered: Lowered
    compiled: Compiled | None


@dataclass(frozen=True, slots=True, eq=False)
class Ready:
    """A kernel that can be launched."""

    kernel: GroupKernel
    launcher: Launcher


Step: TypeAlias = Ready | RoutineStep


class Executable:
    """Runs a graph on arrays of its inputs' types, on one target.

    traced: as it was captured; graph: after the passes on graphs
    algebra: the classes of rewrites that are permitted, beyond those that keep every bit
    """

    def __init__(
        self, traced: Graph, options: Options | None = None, home: Session | None = None,
        algebra: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        self.traced, self.algebra = traced, algebra
        self.options = options or Options()
        self._session = home or session()
        self._kernels: dict[tuple[Target, tuple[bool, ...], Settings], tuple[Step, ...]] = {}

    @cached_property
    def simplified(self) -> Graph:
        """The graph without what changes no bit and costs nothing to leave out."""
        return simplify(expand_random(expand_calls(self.traced)))

    @cached_property
    def rewritten(self) -> Rewritten:
        """The cheapest graphs that permitted rules make of it."""
        return rewrite(self.simplified, self.algebra)

    @cached_property
    def chosen(self) -> PlannedGraph:
        """The rewritten graph whose kernels cost least, and these."""
        return cheapest_plan(self.rewritten.candidates)

    @cached_property
    def alternatives(self) -> Alternatives:
        """Rewritten graphs that were chosen and rejected, with prices; computed when asked for."""
        return explain(self.simplified, self.algebra, self.chosen.place)

    @cached_property
    def states(self) -> tuple[tuple[str, Graph], ...]:
        """The graph as it was captured, and after each pass that was needed, with the name of the pass."""
        candidates, last = self.rewritten.candidates, self.graph
        found = [("graph-simplify", self.simplified)]
        if self.chosen.place < len(candidates) - 1:
            found.append(("graph-rewrite", candidates[self.chosen.place]))
        if any(node.origin.rule == SPLIT_RULE for node in last.nodes):
            found.append(("graph-split-reductions", last))
        return (("capture", self.traced), *found[:-1], (found[-1][0], last))

    @property
    def graph(self) -> Graph:
        """The graph after all passes."""
        return self.chosen.graph

    @property
    def plan(self) -> Plan:
        """The kernels that compute it; the same for every target."""
        return self.chosen.plan

    def __call__(self, *arrays: object) -> tuple[object, ...]:
        """Return the outputs for arrays of the inputs' types, in the library of the first one (without any: NumPy)."""
        named = zip(arrays, self.graph.inputs, strict=True)
        inputs = [packed(operand(array, value.name or "an input")) for array, value in named]
        target = chosen_target(self.options, arrays)
        aligned = tuple(self._aligned(each) for each in inputs) if target.kind.on_gpu else (False,) * len(inputs)
        kernels = self._ready(target, aligned, arrays)
        if target.kind.on_gpu and recording() is None and all(isinstance(each.value, np.ndarray) for each in inputs):
            return self._run_from_host(kernels, inputs)
        if any(each.on_device and is_jax(each.value) for each in inputs):
            return self._run_for_jax(kernels, inputs)
        return self._run(kernels, inputs)

    @staticmethod
    def _aligned(array: Operand[object]) -> bool:
        return array.contiguous and rows_aligned(array.view)

    def kernels(self, target: Target, aligned: Sequence[bool] | None = None) -> tuple[GroupKernel, ...]:
        """Return the kernels compiled for a target with an architecture, without loading them.

        aligned: whether each input begins and ends its rows at multiples of 16 bytes; None: all do
        """
        known = dict(zip(self.graph.inputs, aligned or [True] * len(self.graph.inputs), strict=False))
        inside = {value: True for group in self.plan.groups for value in group.outputs}
        lies = {**known, **inside} if target.kind.on_gpu else {}
        return tuple(self._compile(group, target, lies) for group in self.plan.groups if group.kind != CALL)

    def _ready(self, target: Target, aligned: tuple[bool, ...], arrays: Sequence[object]) -> tuple[Step, ...]:
        key = (target, aligned, current())
        found = self._kernels.get(key)
        if found is None:
            at_hand = target_at_hand(self.options, target, arrays) if target.kind.backend else target
            compiled = self.kernels(at_hand, aligned)
            launched = map(Ready, compiled, self._loaded(compiled, at_hand))
            found = tuple(
                RoutineStep(group, self.graph.source) if group.kind == CALL else next(launched)
                for group in self.plan.groups
            )
            self._kernels[key] = found
        return found

    @cached_property
    def _last_used(self) -> list[tuple[Value, ...]]:
        return _last_uses(self.plan.groups, self.graph.outputs)

    def _compile(self, group: Group, target: Target, aligned: Mapping[Value, bool]) -> GroupKernel:
        kind = target.kind
        machine = MachineKind(generation(target.arch) if kind.on_gpu else None, None, kind.tile_elements)
        steps = steps_of(group, machine)
        options = {**steps.options, "fast": True} if "approximate" in self.algebra else steps.options
        lowered = to_program(group, steps.blocks, options, self.graph.source, aligned)
        compiled = self._session.compile(lowered.program, target) if kind.backend else None
        return GroupKernel(group, lowered, compiled)

    def _loaded(self, kernels: Sequence[GroupKernel], target: Target) -> list[Launcher]:
        return [self._load(kernel, target) for kernel in kernels]

    def _load(self, kernel: GroupKernel, target: Target) -> Launcher:
        compiled = kernel.compiled
        made = Loadable(
            kernel.lowered.program, compiled.artifacts if compiled is not None else (),
            compiled.workspaces if compiled is not None else (), (object,) * len(kernel.lowered.arguments),
            phased=compiled is not None and bool(compiled.phases), sanitize=self.options.sanitize,
        )  # fmt: skip
        return runtime_of(target.kind).load(made)

    def _run_from_host(self, steps: Sequence[Step], inputs: Sequence[Operand[object]]) -> tuple[object, ...]:
        """Run on a GPU from and to NumPy's arrays: what passes between the kernels stays on the device."""
        device = driver().device()

        def allocate(value: Value) -> Operand[object]:
            return operand(DeviceArray(value.type.shape, value.type.dtype.numpy, device), value.name)

        copies: list[Operand[object]] = [operand(to_device(each.view, device), each.name) for each in inputs]
        made = self._launch(steps, copies, allocate)
        return tuple(each.value.get() for each in made if isinstance(each.value, DeviceArray))

    def _run_for_jax(self, steps: Sequence[Step], inputs: Sequence[Operand[object]]) -> tuple[object, ...]:
        """Run on JAX's arrays on a GPU.  JAX gives no views of its arrays: only what is returned is its own."""
        like = next(each for each in inputs if each.on_device)
        device = driver().device_of(address(like.view)) if like.view.size else driver().device()
        roots = {self._root(value): value for value in self.graph.outputs}
        returned: dict[Value, object] = {}

        def placed(array: Operand[object]) -> Operand[object]:
            return operand(
                DeviceArray.over(address(array.view), array.shape, array.view.dtype, device, array.value), array.name
            )

        def allocate(value: Value) -> Operand[object]:
            kind = value.type.dtype
            if value not in roots:
                return operand(DeviceArray(value.type.shape, kind.numpy, device), value.name)
            made = empty(like, roots[value].type.shape, kind)
            returned[roots[value]] = made.value
            return operand(placed(made).reshaped(value.type.shape), value.name)

        self._launch(steps, [placed(each) for each in inputs], allocate)
        with driver().inside(device):
            driver().wait(0)  # JAX has streams of its own
        given = dict(zip(self.graph.inputs, inputs, strict=True))
        return tuple(
            returned[value] if value in returned else given[self._root(value)].reshaped(value.type.shape)
            for value in self.graph.outputs
        )

    def _root(self, value: Value) -> Value:
        """Return the value whose memory a value has."""
        while value in self.plan.aliases:
            value = self.plan.aliases[value]
        return value

    def _run(self, steps: Sequence[Step], inputs: Sequence[Operand[object]]) -> tuple[object, ...]:
        """Run where the arrays are, with arrays of their library."""
        like: Operand[object] = inputs[0] if inputs else operand(np.empty(0, np.float32), "out")
        made = self._launch(steps, inputs, lambda value: empty(like, value.type.shape, value.type.dtype))
        return tuple(as_result(each, like) for each in made)

    def _launch(
        self, steps: Sequence[Step], inputs: Sequence[Operand[object]], allocate: Callable[[Value], Operand[object]]
    ) -> list[Operand[object]]:
        """Take the steps in order, and return the outputs; memory is given back behind its last use."""
        memory: dict[Value, Operand[object]] = dict(zip(self.graph.inputs, inputs, strict=True))
        left = dict(self.plan.aliases)
        noted = recording()
        _alias(memory, left)
        for step, last_used in zip(steps, self._last_used, strict=True):
            if isinstance(step, RoutineStep):
                step.run(memory, allocate)
            else:
                for value in step.kernel.group.outputs:
                    memory[value] = allocate(value)
                arguments = [memory[each.value].reshaped(each.shape) for each in step.kernel.lowered.arguments]
                if noted is None:
                    step.launcher(*arguments)
                else:
                    record_launch(noted, None, step.launcher, tuple(arguments), None)
            _alias(memory, left)
            for value in last_used:
                del memory[value]
        return [memory[value] for value in self.graph.outputs]


def _last_uses(groups: Sequence[Group], kept: Sequence[Value]) -> list[tuple[Value, ...]]:
    """Return the values that each group is the last one to use, but for those that are kept."""
    last: dict[Value, int] = {}
    for number, group in enumerate(groups):
        used = [*group.inputs, *group.outputs]
        if group.kind != CALL:
            used = [argument.value for _, argument in arguments_of(group)]
        last.update(dict.fromkeys(used, number))
    return [tuple(value for value, at in last.items() if at == n and value not in kept) for n in range(len(groups))]


def _alias(memory: dict[Value, Operand[object]], left: dict[Value, Value]) -> None:
    """Give values that are others in another shape their place, as soon as the others have one."""
    for value, source in list(left.items()):
        if source in memory:
            memory[value] = operand(memory[source].reshaped(value.type.shape), value.name)
            del left[value]
