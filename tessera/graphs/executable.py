"""A planned graph made ready for a target: compiled kernels, and how their arrays are passed on."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from textwrap import indent
from types import MappingProxyType
from typing import Final

import numpy as np

from tessera.core.graph.bodies import LOOP, parts
from tessera.core.graph.graph import Graph, Node, Tensor, Value
from tessera.core.graph.rewrite import own_outputs
from tessera.core.schedule.plan import CALL, Group, Plan
from tessera.core.schedule.text import plan_text
from tessera.core.settings import Settings, current
from tessera.core.targets import Target, generation
from tessera.graphs.body_steps import Body, arrays_of_body, body_step, copy_of
from tessera.graphs.execution.collective_step import CollectiveStep
from tessera.graphs.execution.device_calls import DeviceCalls
from tessera.graphs.execution.frames import Workspace
from tessera.graphs.execution.host_calls import HostCalls
from tessera.graphs.execution.host_steps import RoutineStep
from tessera.graphs.execution.prepared import GroupKernel, KernelStep, PreparedGraph, Step
from tessera.graphs.execution.supply import DeviceSupply, supply_of
from tessera.graphs.planning.plan_choice import PlannedGraph, cheapest_plan, chunked_plan, settled_plan
from tessera.graphs.planning.settled_graph import recomputes_in_bodies
from tessera.graphs.steps import steps_of
from tessera.kernels.options import Options
from tessera.kernels.target_choice import chosen_target, target_at_hand
from tessera.lowering.graph.chunk import RULE as CHUNK_RULE
from tessera.lowering.graph.expand_calls import expand_calls
from tessera.lowering.graph.expand_random import expand_random
from tessera.lowering.graph.explain import Alternatives, explain
from tessera.lowering.graph.prune_bodies import prune_bodies
from tessera.lowering.graph.rewrite import Rewritten, rewrite
from tessera.lowering.graph.simplify import simplify
from tessera.lowering.graph.split_reductions import RULE as SPLIT_RULE
from tessera.lowering.schedule.allocate import allocate
from tessera.lowering.schedule.emit.group_key import group_key
from tessera.lowering.schedule.emit.to_program import Lowered, arguments_of, to_program
from tessera.lowering.schedule.in_place import donated_carries, in_place
from tessera.performance.machine_kind import MachineKind
from tessera.runtime.arrays.host import rows_aligned
from tessera.runtime.arrays.interop import is_jax
from tessera.runtime.arrays.pointers import address
from tessera.runtime.binding.current_stream import ArgumentStreams
from tessera.runtime.driver import driver as door
from tessera.runtime.launch.launchers import Launcher, Loadable, runtime_of
from tessera.runtime.memory.device_arrays import device_of
from tessera.runtime.memory.operands import Operand, as_result, empty, operand, packed
from tessera.runtime.memory.owned import DeviceArray, to_device
from tessera.runtime.streams.graph_capture import recording
from tessera.session.compile_together import compile_together
from tessera.session.compiled import Compiled
from tessera.session.session import Session, session
from tessera.session.varying_extents import UntilFrequent

_KINDS: Final = 4
"""Kinds of arrays on GPUs that a graph keeps calls ready for: devices, libraries."""


class Executable:
    """Runs a graph on arrays of its inputs' types, on one target.

    traced: as it was captured; graph: after the passes on graphs
    algebra: the classes of rewrites that are permitted, beyond those that keep every bit
    donated: inputs whose memory is given away, each with the output that it is for; sliced: it is a slice already
    shared: counts the calls of the graph that it is a body of
    recomputes: of a graph that a mesh cut, whether kernels compute weights again; None: prices decide
    """

    def __init__(
        self, traced: Graph, options: Options | None = None, home: Session | None = None,
        algebra: frozenset[str] = frozenset(), donated: Mapping[int, int] = MappingProxyType({}), *,
        sliced: bool = False, shared: UntilFrequent | None = None, recomputes: bool | None = None,
    ) -> None:  # fmt: skip
        self.traced, self.algebra = traced, algebra
        self._donated, self._sliced, self._recomputes = donated, sliced, recomputes
        self.options = options or Options()
        self._session = home or session()
        self._prepared: dict[tuple[Target, tuple[bool, ...], tuple[bool, ...], Settings, bool], PreparedGraph] = {}
        self._compiled: dict[tuple[Target, frozenset[Value], Settings, bool], tuple[GroupKernel, ...]] = {}
        self._copiers: dict[Tensor, Executable] = {}
        self._calls: tuple[tuple[Settings, DeviceCalls | HostCalls], ...] = ()
        self._shared = shared or UntilFrequent()
        self._lock = threading.RLock()

    @cached_property
    def simplified(self) -> Graph:
        """The graph without what changes no bit and costs nothing to leave out."""
        return simplify(self._expanded())

    def _expanded(self) -> Graph:
        """Return the graph with primitives in place of calls that are defined by graphs, and of random numbers.

        Every output gets memory of its own: both gradients of `a + b` are one value, and callers may write into either.
        """
        return prune_bodies(expand_random(expand_calls(own_outputs(self.traced))))

    @cached_property
    def rewritten(self) -> Rewritten:
        """The cheapest graphs that permitted rules make of it."""
        return rewrite(self.simplified, self.algebra)

    @property
    def recomputes(self) -> bool | None:
        """Tell whether kernels compute weights again, as was settled for all sizes of a mesh; None: prices decide."""
        return self._recomputes

    @property
    def candidates(self) -> tuple[Graph, ...]:
        """List the graphs among which prices decide."""
        return self.rewritten.candidates if self.recomputes is None else (self.simplified,)

    @cached_property
    def chosen(self) -> PlannedGraph:
        """The rewritten graph whose kernels cost least, and these; loops over slices where it would be too large."""
        candidates, recomputes = self.candidates, self.recomputes
        found = cheapest_plan(candidates) if recomputes is None else settled_plan(candidates[0], recomputes=recomputes)
        if self._sliced:
            return found
        return chunked_plan(found, candidates[found.place], shorter="fold" in self.algebra)

    @cached_property
    def alternatives(self) -> Alternatives:
        """Rewritten graphs that were chosen and rejected, with prices; computed when asked for."""
        return explain(self.simplified, self.algebra, self.chosen.place)

    @cached_property
    def states(self) -> tuple[tuple[str, Graph], ...]:
        """The graph as it was captured, and after each pass that was needed, with the name of the pass."""
        candidates, last = self.candidates, self.graph
        found = [("graph-simplify", self.simplified)]
        if self.chosen.place < len(candidates) - 1:
            found.append(("graph-rewrite", candidates[self.chosen.place]))
        if any(node.origin.rule == CHUNK_RULE for node in last.nodes):
            found.append(("graph-chunk", last))
        if any(node.origin.rule == SPLIT_RULE for node in last.nodes):
            found.append(("graph-split-reductions", last))
        if self.plan.again:
            found.append(("graph-recompute", last))
        return (("capture", self.traced), *found[:-1], (found[-1][0], last))

    @property
    def graph(self) -> Graph:
        """The graph after all passes."""
        return self.chosen.graph

    @cached_property
    def plan(self) -> Plan:
        """The kernels that compute it; the same for every target."""
        same = {made: begin for node, (body, *_) in self.bodies.items() for made, begin in body.changed(node).items()}
        made = replace(self._placed, aliases={**self._placed.aliases, **same})
        return replace(made, buffers=allocate(made))

    @cached_property
    def _placed(self) -> Plan:
        graph = self.graph
        return in_place(self.chosen.plan, {graph.inputs[a]: graph.outputs[b] for a, b in self._donated.items()})

    def changed(self, node: Node) -> Mapping[Value, Value]:
        """Return the results of a loop with this body that are carries, changed where they begin, and these."""
        places = {value: operand for group in self.plan.groups for value, operand in group.in_place.items()}
        pairs = [(self.graph.outputs[b], self.graph.inputs[a], a, b) for a, b in self._donated.items()]
        return {node.results[b]: node.operands[a] for made, given, a, b in pairs if places.get(made) is given}

    def schedule(self) -> str:
        """Return the plan as text, with the plans of bodies below the loops and branches that hold them."""
        inner = [
            indent(f"{node.op} g{node.ident}: {body.schedule()}", "  ")
            for node, bodies in self.bodies.items() for body in bodies
        ]  # fmt: skip
        return "".join((plan_text(self.plan), *inner))

    @property
    def called(self) -> bool:
        """True where `again` may know a call."""
        return bool(self._calls)

    def again(self, arrays: Sequence[object]) -> tuple[object, ...] | None:
        """Return the outputs for arrays like those of an earlier call on a GPU; None, having done nothing, for others.

        The arrays may be anything: they are looked at.
        """
        if self._shared.counts and not self._shared():
            self._shared.exact, self._shared.counts, self._calls = True, False, ()
        attempts = (calls(arrays) for settings, calls in self._calls if settings is current())
        return next((outputs for outputs in attempts if outputs is not None), None)

    def __call__(self, *arrays: object) -> tuple[object, ...]:
        """Return the outputs for arrays of the inputs' types, in the library of the first one (without any: NumPy)."""
        if (found := self.again(arrays)) is not None:
            return found
        target = chosen_target(self.options, arrays)
        with self._lock:  # planned and compiled once, by the thread that comes first
            named = zip(arrays, self.graph.inputs, strict=True)
            inputs = [packed(operand(array, value.name or "an input")) for array, value in named]
            aligned = tuple(self._aligned(each) for each in inputs) if target.kind.on_gpu else (False,) * len(inputs)
            prepared = self.prepared(target, aligned, arrays)
        if target.kind.on_gpu and recording() is None and all(isinstance(each.value, np.ndarray) for each in inputs):
            return self._run_from_host(prepared, inputs)
        if any(each.on_device and is_jax(each.value) for each in inputs):
            return self._run_for_jax(prepared, inputs)
        if recording() is None:
            values = [each.value for each in inputs]
            calls = HostCalls.of(prepared, values)
            if target.kind.on_gpu:
                calls = DeviceCalls.of(prepared, door.driver(), device_of(values) or 0, values)
            if calls is not None and (found := calls(values)) is not None:
                self._calls = ((current(), calls), *self._calls[: _KINDS - 1])
                return found
        return self._run(prepared, inputs)

    @staticmethod
    def _aligned(array: Operand[object]) -> bool:
        return array.contiguous and rows_aligned(array.view)

    def kernels(
        self, target: Target, aligned: Sequence[bool] | None = None, stored: Sequence[bool] = ()
    ) -> tuple[GroupKernel, ...]:
        """Return the kernels compiled for a target with an architecture, without loading them; bodies' kernels last.

        aligned: whether each input begins and ends its rows at multiples of 16 bytes; None: all do
        stored: the same of the outputs' places, where these are not arrays of their own
        """
        lies = self._lies(target, aligned or [True] * len(self.graph.inputs), stored)
        mine = self._compile(target, lies)
        inner = [
            kernel for group in self.plan.groups for body, inputs, outputs in self._bodies_of(group, lies)
            for kernel in body.kernels(target, inputs, outputs)
        ]  # fmt: skip
        return (*mine, *inner)

    @cached_property
    def bodies(self) -> Mapping[Node, tuple["Executable", ...]]:
        """The bodies of the loops and branches of the graph, planned once each."""
        nodes = [node for group in self._placed.groups for node in group.members if isinstance(node.body, tuple)]
        return {
            node: tuple(
                self._body(node, body, recomputes)
                for body, recomputes in zip(node.graphs, recomputes_in_bodies(node), strict=True)
            )
            for node in nodes
        }

    def _body(self, node: Node, body: Graph, recomputes: bool | None) -> "Executable":
        donated: dict[int, int] = {}
        if node.op == LOOP:
            given = parts(node, node.operands)
            first, free = len(given.constants), donated_carries(self._placed, node.operands, given.carries)
            donated = {first + place: place for place, value in enumerate(given.carries) if value in free}
        sliced = node.origin.rule == CHUNK_RULE
        return Executable(
            body, self.options, self._session, self.algebra, donated, sliced=sliced, shared=self._shared,
            recomputes=recomputes,
        )  # fmt: skip

    def _lies(self, target: Target, aligned: Sequence[bool], stored: Sequence[bool]) -> Mapping[Value, bool]:
        """Return whether each array in memory begins and ends its rows at multiples of 16 bytes.

        stored: the same of the outputs' places, where these are not arrays of their own
        """
        if not target.kind.on_gpu:
            return {}
        inside = {value: True for group in self.plan.groups for value in group.outputs}
        given = dict(zip(self.graph.outputs, stored, strict=False))
        places = {self.plan.root(value): lies for value, lies in given.items()}
        return {**dict(zip(self.graph.inputs, aligned, strict=False)), **inside, **places}

    def _bodies_of(
        self, group: Group, lies: Mapping[Value, bool]
    ) -> Iterator[tuple["Executable", tuple[bool, ...], tuple[bool, ...]]]:
        """Yield the bodies of a group, with how the arrays that they read and write lie."""
        for node in group.members:
            for place, body in enumerate(self.bodies.get(node, ())):
                inputs, outputs = (
                    tuple(value is None or (fits and lies.get(self.plan.root(value), False)) for value, fits in each)
                    for each in arrays_of_body(node, place)
                )
                yield body, inputs, outputs

    def prepared(
        self, target: Target, aligned: tuple[bool, ...], arrays: Sequence[object], stored: tuple[bool, ...] = ()
    ) -> PreparedGraph:
        """Return the graph with its kernels compiled and loaded, for arrays that lie as `aligned` and `stored` tell."""
        key = (target, aligned, stored, current(), self._shared.exact)
        found = self._prepared.get(key)
        if found is None:
            at_hand = target_at_hand(self.options, target, arrays) if target.kind.backend else target
            lies = self._lies(at_hand, aligned, stored)
            made = {kernel.group: kernel for kernel in self._compile(at_hand, lies)}
            launchers = self._load(tuple(made.values()), at_hand)
            steps = [
                KernelStep(made[group], launchers[made[group]]) if group in made
                else self._call_step(group, lies, target, arrays) for group in self.plan.groups
            ]  # fmt: skip
            found = self._prepared[key] = PreparedGraph(self.graph, self.plan, tuple(steps))
        return found

    def _call_step(
        self, group: Group, lies: Mapping[Value, bool], target: Target, arrays: Sequence[object]
    ) -> Step:  # fmt: skip
        """Return the step of a group that is no kernel."""
        (node,) = group.members
        if node.op == "collective":
            return CollectiveStep(group)
        if not isinstance(node.body, tuple):
            return RoutineStep(group, self.graph.source)

        def copier(kind: Tensor) -> PreparedGraph:
            if kind not in self._copiers:
                self._copiers[kind] = Executable(copy_of(kind), self.options, self._session)
            return self._copiers[kind].prepared(target, (False,), arrays, (False,))

        bodies = [
            Body(body.prepared(target, inputs, arrays, outputs), copier)
            for body, inputs, outputs in self._bodies_of(group, lies)
        ]
        return body_step(group, bodies)

    def _compile(self, target: Target, lies: Mapping[Value, bool]) -> tuple[GroupKernel, ...]:
        """Return the kernels of the plan's groups, made once for arrays that lie so."""
        key = (target, frozenset([value for value, aligned in lies.items() if aligned]), current(), self._shared.exact)
        found = self._compiled.get(key)
        if found is None:
            found = self._compiled[key] = self._compile_groups(target, lies)
        return found

    def _compile_groups(self, target: Target, aligned: Mapping[Value, bool]) -> tuple[GroupKernel, ...]:
        """Compile the kernels of the plan's groups; equal ones share their code."""
        kind = target.kind
        machine = MachineKind(generation(target.arch) if kind.on_gpu else None, None, kind.tile_elements)
        groups = [group for group in self.plan.groups if group.kind != CALL]
        known: dict[object, Lowered] = {}
        keys: list[object] = []
        for group in groups:
            arguments = tuple([argument for _, argument in arguments_of(group, lanes=kind.lanes)])
            key = (group_key(group), tuple([aligned.get(each.value, False) for each in arguments]))
            keys.append(key)
            if key not in known:
                steps = steps_of(group, machine)
                options = {**steps.options, "fast": True} if "approximate" in self.algebra else steps.options
                known[key] = to_program(group, steps.blocks, options, self.graph.source, aligned, lanes=kind.lanes)
        made: Sequence[Compiled | None] = [None] * len(known)
        if kind.backend:
            made = compile_together(
                self._session, [each.program for each in known.values()], target, exact=self._shared.exact
            )
            self._shared.counts |= any(each.shared for each in made)
            self._shared.weigh(sum(value.type.bytes for value in self.graph.inputs), on_gpu=kind.on_gpu)
        compiled = dict(zip(known, made, strict=True))
        return tuple(
            GroupKernel(group, known[key].of(group), compiled[key]) for group, key in zip(groups, keys, strict=True)
        )

    def _load(self, kernels: Sequence[GroupKernel], target: Target) -> Mapping[GroupKernel, Launcher]:
        """Return a launcher for each kernel, one for all that share their code."""
        known: dict[object, Launcher] = {}
        found: dict[GroupKernel, Launcher] = {}
        for kernel in kernels:
            compiled = kernel.compiled
            key = id(kernel if compiled is None else compiled)
            if key not in known:
                known[key] = runtime_of(target.kind).load(Loadable(
                    kernel.lowered.program, compiled.artifacts if compiled is not None else (),
                    compiled.workspaces if compiled is not None else (), (object,) * len(kernel.lowered.arguments),
                    phased=compiled is not None and bool(compiled.phases), sanitize=self.options.sanitize,
                ))  # fmt: skip
            found[kernel] = known[key]
        return found

    def _run_from_host(self, prepared: PreparedGraph, inputs: Sequence[Operand[object]]) -> tuple[object, ...]:
        """Run on a GPU from and to NumPy's arrays: what passes between the kernels stays on the device."""
        device = door.driver().device()
        copies: list[Operand[object]] = [operand(to_device(each.view, device), each.name) for each in inputs]
        made = prepared.call(copies, DeviceSupply(device), captured=recording() is not None)
        return tuple(each.value.get() for each in made if isinstance(each.value, DeviceArray))

    def _run_for_jax(self, prepared: PreparedGraph, inputs: Sequence[Operand[object]]) -> tuple[object, ...]:
        """Run on JAX's arrays on a GPU.  JAX gives no views of its arrays: only what is returned is its own."""
        like = next(each for each in inputs if each.on_device)
        device = (device_of([like.value]) or 0) if like.view.size else door.driver().device()
        returned: dict[Value, object] = {}
        places: dict[Value, Operand[object]] = {}
        for value in self.graph.outputs:
            root = self.plan.root(value)
            if root not in self.graph.inputs:
                made = empty(like, value.type.shape, value.type.dtype)
                returned[value] = made.value
                places[root] = operand(_ours(made, device).reshaped(root.type.shape), value.name)
        with prepared.frames.lent(DeviceSupply(device), captured=recording() is not None) as frame:
            prepared.run([operand(_ours(each, device).value, each.name) for each in inputs], Workspace(frame, places))
            with door.driver().inside(device):
                door.driver().wait(0)  # JAX has streams of its own
        given = dict(zip(self.graph.inputs, inputs, strict=True))
        return tuple(
            returned[value] if value in returned else given[self.plan.root(value)].reshaped(value.type.shape)
            for value in self.graph.outputs
        )

    def _run(self, prepared: PreparedGraph, inputs: Sequence[Operand[object]]) -> tuple[object, ...]:
        """Run where the arrays are, with arrays of their library."""
        like: Operand[object] = inputs[0] if inputs else operand(np.empty(0, np.float32), "out")
        stream, captured = 0, recording() is not None
        if like.on_device:
            device = device_of([like.value]) or 0
            with door.driver().inside(device):
                stream = ArgumentStreams.of([each.value for each in inputs], device).current()
                captured = captured or door.driver().capturing(stream)
        made = prepared.call(inputs, supply_of(like, stream), captured=captured)
        return tuple(as_result(each, like) for each in made)


def _ours(array: Operand[object], device: int) -> Operand[object]:
    """Return an array of ours in the memory of another library's."""
    found = DeviceArray.over(address(array.view), array.shape, array.view.dtype, device, array.value)
    return operand(found, array.name)
