"""From a call's arguments to a kernel made ready for them: described, found in a table, or built and kept there."""

import dataclasses
import threading
from collections.abc import Callable, Mapping

from tessera.core.program.program import Attribute, Program
from tessera.core.settings import current
from tessera.core.targets import Target
from tessera.frontend.syntax.kernel_source import KernelSource
from tessera.kernels.closures.closed_over import unchanged_of
from tessera.kernels.closures.closure import FreeNames
from tessera.kernels.closures.walk import closure_of
from tessera.kernels.example_arguments import example_arguments, require_symbolic
from tessera.kernels.options import Options
from tessera.kernels.signature import Described, Signature
from tessera.kernels.specialization import Specialization, SpecializationCache, blocks_of
from tessera.kernels.target_choice import target_at_hand
from tessera.runtime.binding.grid import Grid
from tessera.runtime.launch.launchers import Launcher, Loadable, runtime_of
from tessera.runtime.streams.graph_capture import suspended
from tessera.session.compiled import Compiled, warn_of_slow_code
from tessera.session.session import Session, Specification
from tessera.session.varying_extents import UntilFrequent

Tuned = Callable[[tuple[object, ...], Grid | None], Mapping[str, Attribute]]
"""Finds the fastest parameters for a call's arguments and grid."""


class Specializer:
    """Makes one kernel ready for the arguments of its calls."""

    def __init__(
        self, function: Callable[..., object], source: KernelSource, options: Options, session: Session
    ) -> None:  # fmt: skip
        self.signature = Signature(function, source)
        self._function, self._source, self._options, self._session = function, source, options, session
        self._families: dict[tuple[object, ...], SpecializationCache] = {}
        self._lock = threading.RLock()

    def plan(self, values: tuple[object, ...], grid: Grid | None, target: Target, tuned: Tuned) -> Specialization:
        """Return the plan for a call, from the table or made anew.  Raises the mistakes of the kernel's author."""
        described = self.described(values, target)
        shapes = described.shape_class if self._options.space is not None else ()
        with self._lock:  # points of an index launch call from threads of their own
            family = self._families.setdefault((described.key, shapes, target, blocks_of(grid)), SpecializationCache())
            plan = family.find(described)
            if plan is None or not plan.valid():
                frequent = plan is not None and isinstance(plan.unchanged, UntilFrequent) and plan.unchanged.frequent
                plan = self._make(described, values, grid, target, tuned, exact=frequent)
                family.add(plan)
        return plan

    def described(self, values: tuple[object, ...], target: Target) -> Described:
        """Return the types and shapes of `values`, one a parameter, as `target` tells them apart."""
        return self.signature.described(values, aligned=target.kind.on_gpu)

    def program(
        self, described: Described, tuned: Mapping[str, Attribute] | None = None, blocks: tuple[int, ...] | None = None
    ) -> tuple[Program, FreeNames]:
        """Return the program that is compiled for such arguments, and what its free names stood for."""
        names = FreeNames(self._function)
        options = self._options
        constants = {**options.constants, **(tuned or {})}
        wanted = Specification(described.arguments, options.tile, options.shared, constants, blocks)
        program = self._session.specialise(self._source, names, wanted)
        if options.fast:
            program = dataclasses.replace(program, options={**program.options, "fast": True})
        return program, names

    def known_program(self, target: Target, latest: Specialization | None) -> Program:
        """Return the program of the last call, or the one that the annotations alone determine, as it is for `target`.

        Raises UnknownLevel where there was no call, and the annotations do not say enough.
        """
        on_gpu = target.kind.on_gpu
        if latest is None:
            arguments = example_arguments(self._source, FreeNames(self._function), aligned=on_gpu)
            return require_symbolic(self._source, self.program(Described(arguments, (), ()))[0])
        if not on_gpu or latest.on_gpu == latest.arguments.arguments:
            return latest.program
        constants = {name: value for name, value in latest.program.options.items() if name != "fast"}
        return self.program(dataclasses.replace(latest.arguments, arguments=latest.on_gpu), constants)[0]

    def _make(
        self, described: Described, values: tuple[object, ...], grid: Grid | None, target: Target, tuned: Tuned,
        *, exact: bool,
    ) -> Specialization:  # fmt: skip
        settings = current()
        parameters: Mapping[str, Attribute] = {}
        if self._options.space is not None:
            with suspended():
                parameters = tuned(values, grid)
        blocks = blocks_of(grid)
        program, names = self.program(described, parameters, blocks)
        unchanged = unchanged_of(closure_of(self._function, names=names.used))
        compiled, launcher = self._launcher(program, described, target, values, exact=exact or bool(parameters))
        if compiled is not None and compiled.shared:
            unchanged = UntilFrequent(unchanged, counts=True)
            unchanged.weigh(described.bytes, on_gpu=target.kind.on_gpu)
        on_gpu = self.signature.described(values, aligned=True).arguments
        return Specialization(
            program, compiled, launcher, settings, unchanged, described, on_gpu, bool(parameters),
            launcher.quick, launcher.on_streams, blocks,
        )  # fmt: skip

    def _launcher(
        self, program: Program, described: Described, target: Target, values: tuple[object, ...], *, exact: bool
    ) -> tuple[Compiled | None, Launcher]:
        kind = target.kind
        compiled = None
        if kind.backend:
            compiled = self._session.compile(program, target_at_hand(self._options, target, values), exact=exact)
            warn_of_slow_code(compiled, described.arguments)
        made = Loadable(
            program, compiled.artifacts if compiled is not None else (),
            compiled.workspaces if compiled is not None else (), described.types,
            phased=compiled is not None and bool(compiled.phases), sanitize=self._options.sanitize,
        )  # fmt: skip
        return compiled, runtime_of(kind).load(made)
