"""A Python function as a kernel that can be called, launched, compiled, inspected and tuned."""

import dataclasses
import functools
import inspect
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from tessera.arguments import Described, describe_arguments, plain
from tessera.compiled import Compiled, IrText, warn_of_slow_code
from tessera.core.callers import at_call
from tessera.core.errors import TesseraError
from tessera.core.mistakes import ArgumentCount, BadGrid
from tessera.core.program.arguments import Argument
from tessera.core.program.program import Attribute, Program
from tessera.core.settings import current
from tessera.core.source import Span
from tessera.core.targets import Target
from tessera.examples import example_arguments, require_symbolic, span_of
from tessera.free_names import FreeNames
from tessera.frontend.annotations import check_signature
from tessera.frontend.read import source_for
from tessera.frontend.surface import KernelSource
from tessera.kernel_options import (
    Options,
    Space,
    Tuner,
    check_constants,
    check_space,
    constants_key,
    no_tuner,
    with_space,
)
from tessera.plans import ON_GPU, AnyLauncher, Family, Plan, blocks_of
from tessera.runtime.device_arrays import device_of
from tessera.runtime.dispatch import Shared, drain
from tessera.runtime.grid import Grid, read_grid
from tessera.runtime.interpreted import Interpreter
from tessera.runtime.launch import Launcher
from tessera.runtime.phased import HostPhases
from tessera.runtime.placement import require_together
from tessera.runtime.recording import Recorder, recording, suspended
from tessera.runtime.streams import Stream, as_stream
from tessera.runtime.told import told_launch
from tessera.session import Session, Specification, resolve_target, session

Function = Callable[..., Any]
_MANY: Final = 3
_HOW: Final = "write kernel[grid, block](...)"
_AXES: Final = (
    "write kernel[(x, y, z), block](...) for a grid of three axes, kernel[grid, block, stream](...) for a stream"
)
_READY: Final = 64
"""How many grids, and how many variants, a kernel keeps ready."""
_EARLIER: Final = 4
"""Plans for GPUs that a call tries."""


class Kernel:
    """A kernel.  `k(x, y, 2.0)` compiles it for these argument types, once, and runs it; see also the methods.

    Arrays are written in place; nothing is returned.  Outputs are parameters marked `mut`.
    """

    def __init__(
        self, function: Function, options: Options | None = None, home: Session | None = None,
        tuner: Tuner = no_tuner,
    ) -> None:  # fmt: skip
        self.options = options or Options()
        self._tuner = tuner
        self.source: KernelSource = source_for(function)
        check_signature(self.source)
        self.function = function
        self._session = home or session()
        if self.options.space is not None:
            check_space(function, self.source.function, self.options.space)
        self._signature = inspect.signature(function)
        self._names = tuple(self._signature.parameters)
        self._latest: Plan | None = None
        self._earlier: deque[Plan] = deque(maxlen=_EARLIER)
        self._configured: dict[object, Configured] = {}
        self._families: dict[tuple[object, ...], Family] = {}
        self._variants: dict[tuple[object, ...], Kernel] = {}
        functools.update_wrapper(self, function)
        Latest.kernel = self
        if _interactive():
            self._session.warm()

    def __call__(self, *arguments: Any, **keywords: Any) -> None:
        """Run the kernel on a grid derived from the arguments."""
        plan = self._latest
        if keywords or plan is None or Recorder.count or Shared.dispatcher.busy:
            self.launch(arguments, keywords)
        elif not plan.run(arguments):
            self._run_another(arguments)

    def _run_another(self, arguments: tuple[Any, ...]) -> None:
        """Run the plan of an earlier call like this one: on GPUs, calls of several kinds take turns."""
        for plan in self._earlier:
            if plan.run(arguments):
                self._latest = plan
                return
        self.launch(arguments)

    def __getitem__(self, key: object) -> "Configured":
        """`k[grid, block]`: the kernel with an explicit launch grid; each of the two an int or a tuple.

        A third entry is a stream, as `k[grid, block, stream=s]` is in Tessera syntax.
        """
        try:
            found = self._configured.get(key)
        except (TypeError, ValueError):  # lists and other things without a hash
            return self._configure(key)
        if found is None:
            found = self._configure(key)
            if found.stream is None and len(self._configured) < _READY:
                self._configured[key] = found
        return found

    def _configure(self, key: object) -> "Configured":
        given = cast("tuple[object, ...]", key) if isinstance(key, tuple) else (key,)
        try:
            if not 1 <= len(given) <= _MANY:
                raise BadGrid(f"a launch has a grid, a block and a stream, got {len(given)} entries", hint=_HOW)
            configured = Configured(self, read_grid(*given[:2]))
            for stream in given[2:]:
                if isinstance(stream, int):  # the address of a stream is given by name
                    raise BadGrid(f"the third entry of a launch is a stream, got {stream!r}", hint=_AXES)
                configured = configured.on(stream)
            return configured
        except TesseraError as mistake:
            raise at_call(mistake) from None

    def launch(
        self, arguments: tuple[Any, ...], keywords: Mapping[str, Any] | None = None, grid: Grid | None = None,
        stream: Stream | None = None,
    ) -> None:  # fmt: skip
        """Run the kernel with everything spelled out; raises the TesseraError of whatever is wrong.

        In a stream the launch happens when what the stream holds is done; while a graph is captured it is noted.
        """
        Latest.kernel = self
        values = self.ordered(arguments, keywords or {})
        plan = self._plan(values, grid)
        self._latest = plan
        if plan.gpu is not None and plan not in self._earlier:
            self._earlier.appendleft(plan)
        noted = recording()
        if noted is None and stream is None:
            drain()
            with told_launch(plan.launcher):
                plan.launcher(*values, grid=grid)
            return
        from tessera.runtime.launching import launch_on, record_launch  # noqa: PLC0415 - most programs have one stream

        if noted is not None:
            record_launch(noted, stream, plan.launcher, values, grid)
        elif stream is not None:
            launch_on(stream, plan.launcher, values, grid)

    def run_configured(
        self, arguments: tuple[Any, ...], keywords: Mapping[str, Any], grid: Grid | None, stream: Stream | None
    ) -> None:
        """Run on a grid and a stream: the quick way where there is one, else `launch`."""
        plan = self._latest
        special = keywords or Recorder.count or (stream is None and Shared.dispatcher.busy)
        if special or plan is None or not plan.run_on(arguments, grid, stream):
            self.launch(arguments, keywords, grid, stream)

    def compile(self, *arguments: Any, target: str | None = None, **keywords: Any) -> Compiled:
        """Compile for arguments like these without running; without arguments, for those of the last call.

        Warns where code for the target `cuda` lacks registers, or has products that miss the tensor cores.
        Raises UnknownLevel where there was no call, and the annotations alone do not say enough.
        """
        compiled, described = self._compile(arguments, keywords, target)
        warn_of_slow_code(compiled, described)
        return compiled

    def compile_quietly(self, *arguments: Any, target: str | None = None, **keywords: Any) -> Compiled:
        """`compile` without its warning: a search tries much that it does not take."""
        return self._compile(arguments, keywords, target)[0]

    def _compile(
        self, arguments: tuple[Any, ...], keywords: Mapping[str, Any], target: str | None
    ) -> tuple[Compiled, tuple[Argument, ...]]:
        """Compile for arguments; give their types too, as far as there are any."""
        Latest.kernel = self
        wanted = resolve_target(target) if target is not None else self.target_for((*arguments, *keywords.values()))
        if wanted.name == "interpret":
            wanted = resolve_target("cpu")
        if not arguments and not keywords:
            program = self._known_program(wanted)
            known = self._latest.arguments.arguments if self._latest is not None else ()
        else:
            described = self.described(self.ordered(arguments, keywords), wanted)
            program, _ = self._specialise(described)
            known = described.arguments
        compiled = self._session.compile(program, wanted)
        return (compiled.for_arguments(known) if known else compiled), known

    def inspect_ir(self, level: str = "tile", *arguments: Any, stage: str = "", target: str | None = None) -> IrText:
        """Return a level of the compiler as text, for arguments like these or for those of the last call.

        `level`: source, tile, target, llvm, and asm (CPU) or ptx, sass (CUDA; chosen when such a level is asked for).
        """
        level = level if isinstance(cast("object", level), str) else repr(level)  # which no level is called
        if target is None and level in ("ptx", "sass") and self.target_for(arguments).name not in ON_GPU:
            target = "cuda"
        return self.compile(*arguments, target=target).ir(level, stage)

    def autotune(self, space: Space | None = None, **more: Iterable[Attribute]) -> "Kernel":
        """Return this kernel with a space of tuning parameters, searched at its first call.

        Example: `k.autotune(space=dict(BM=[64, 128], BN=[64, 128]))(a, b, c)`.
        """
        return self.with_options(with_space(self.options, space, more))

    def variant(self, **constants: Attribute) -> "Kernel":
        """Return this kernel with fixed values for tuning parameters and schedule options.

        The same values give the same kernel, which remembers what it compiled.
        Raises BadKernelOption for a name that stands for neither, and for a value that an option cannot have.
        """
        key = constants_key(constants)
        found = self._variants.get(key)
        if found is None:
            known = check_constants(self.function, self.source.function, constants)
            found = self._variants.get(constants_key(known)) or self.with_constants(known)
            if len(self._variants) < _READY:
                self._variants[key] = self._variants[constants_key(known)] = found
        return found

    def with_constants(self, constants: Mapping[str, Attribute]) -> "Kernel":
        """`variant` without its checks: a search says itself what it leaves out, and why."""
        options = dataclasses.replace(self.options, constants={**self.options.constants, **constants}, space=None)
        return self.with_options(options)

    def with_options(self, options: Options) -> "Kernel":
        """Return a kernel of the same function with other options."""
        return Kernel(self.function, options, self._session, self._tuner)

    def on(self, stream: object) -> "Configured":
        """`k.on(s)(...)`: the kernel, launched in the order of a stream, ours or another library's.

        None stands for the default one.  Raises BadStream.
        """
        return Configured(self, None).on(stream)

    def described(self, values: tuple[Any, ...], target: Target | None = None) -> Described:
        """Return the types and shapes of `values`, one a parameter, as `target` tells them apart (None: the own one).

        Raises NotAnArray and the like.
        """
        return self._described(values, aligned=(target or self.target_for(values)).name in ON_GPU)

    def _described(self, values: tuple[Any, ...], *, aligned: bool) -> Described:
        try:
            return describe_arguments(values, self._names, self._spans(), aligned=aligned)
        except TesseraError as error:
            raise error.with_source(self.source.source) from None

    def stop_compiling(self) -> None:
        """End the compilations that run in other threads: the search for a configuration was interrupted."""
        self._session.close()

    def target_for(self, values: Sequence[object] = ()) -> Target:
        """Return what a call on `values` runs on; without values, what the last call ran on.

        That is what the kernel's own option says, else the setting; and arrays on a GPU mean that GPU, and the
        architecture to compile for, wherever no other was named.  Launches, searches, profiles and views all ask here.
        """
        options, latest = self.options, self._latest
        if options.sanitize:
            return resolve_target("interpret")
        if not values and latest is not None and latest.compiled is not None and latest.settings is current():
            return latest.compiled.target
        name = options.target or current().target
        device = device_of(values) if options.target is None or name in ON_GPU else None
        if device is None or name == "interpret" or ":" in name:
            return resolve_target(name)
        # Needs a GPU.
        from tessera.runtime.cuda import device_architecture  # noqa: PLC0415

        kind = "cuda" if name == "cpu" else name
        return Target(kind, device_architecture(device, kind))

    def on_target(self, target: Target) -> "Kernel":
        """Return the kernel for one target, whatever its arguments and the settings say."""
        if self.options.sanitize:
            return self
        name = str(target) if target.name in ON_GPU else target.name
        return self.with_options(dataclasses.replace(self.options, target=name))

    def require_together(self, values: Sequence[object]) -> None:
        """Raise WrongDevice for arrays that lie apart; what works on copies of them asks this first."""
        try:
            require_together(values, self._names, self._spans())
        except TesseraError as error:
            raise error.with_source(self.source.source) from None

    def program(self, values: tuple[Any, ...]) -> Program:
        """Return the program that is compiled for arguments like `values`, one a parameter; raises its mistakes."""
        return self._specialise(self.described(values))[0]

    @property
    def last(self) -> Compiled | None:
        """The compilation that the last call used; None before a call, and for interpreted kernels."""
        plan = self._latest
        if plan is None or plan.compiled is None or isinstance(plan.launcher, Interpreter):
            return None
        return plan.compiled.called(plan.launcher.last_groups)

    @property
    def last_arguments(self) -> Described | None:
        """What the last call's arguments were: types and shapes, not values."""
        return self._latest.arguments if self._latest is not None else None

    def __repr__(self) -> str:
        return f"<kernel {self.source.name}({', '.join(self._names)})>"

    def ordered(self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> tuple[Any, ...]:
        """Every parameter's argument, in order, defaults filled in.  Raises ArgumentCount."""
        try:
            bound = self._signature.bind(*arguments, **keywords)
        except TypeError as error:
            names = ", ".join(self._names)
            raise ArgumentCount(
                f"{self.source.name}: {error}", self._head(), f"call {self.source.name}({names})"
            ).with_source(self.source.source) from None
        bound.apply_defaults()
        return tuple(plain(bound.arguments[name]) for name in self._names)

    def _plan(self, values: tuple[Any, ...], grid: Grid | None) -> Plan:
        target = self.target_for(values)
        described = self.described(values, target)
        tuned = described.shape_class if self.options.space is not None else ()
        family = self._families.setdefault((described.key, tuned, target, blocks_of(grid)), Family())
        plan = family.find(described)
        if plan is None or not plan.valid():
            plan = self._make(described, values, grid, target)
            family.add(plan)
        return plan

    def _make(self, described: Described, values: tuple[Any, ...], grid: Grid | None, target: Target) -> Plan:
        settings = current()
        tuned: Mapping[str, Attribute] = {}
        if self.options.space is not None:
            with suspended():
                tuned = self._tuner(self, values, grid)
        blocks = blocks_of(grid)
        program, names = self._specialise(described, tuned, blocks)
        compiled, launcher = self._launcher(program, described, target, values)
        quick = None if isinstance(launcher, Interpreter) else launcher.run
        gpu = None if isinstance(launcher, Interpreter | Launcher | HostPhases) else launcher
        on_gpu = self._described(values, aligned=True).arguments
        return Plan(
            program, compiled, launcher, settings, names.captured, described, on_gpu, bool(tuned), quick, gpu, blocks
        )

    def _launcher(
        self, program: Program, described: Described, target: Target, values: tuple[Any, ...]
    ) -> tuple[Compiled | None, AnyLauncher]:
        if target.name == "interpret":
            return None, Interpreter(program, described.types, sanitize=self.options.sanitize)
        if target.name in ON_GPU:
            # Needs a GPU.
            from tessera.runtime.cuda import CudaLauncher, device_architecture  # noqa: PLC0415

            if ":" not in (self.options.target or current().target):
                target = Target(target.name, device_architecture(device_of(values), target.name))
            compiled = self._session.compile(program, target)
            warn_of_slow_code(compiled, described.arguments)
            if compiled.phases:
                from tessera.runtime.phased import DevicePhases  # noqa: PLC0415 - needs a GPU

                return compiled, DevicePhases(compiled.artifacts, compiled.workspaces, described.types)
            return compiled, CudaLauncher(compiled.artifact, described.types)
        compiled = self._session.compile(program, target)
        warn_of_slow_code(compiled, described.arguments)
        if compiled.phases:
            return compiled, HostPhases(compiled.artifacts, compiled.workspaces, described.types)
        return compiled, Launcher(compiled.artifact, described.types)

    def _specialise(
        self, described: Described, tuned: Mapping[str, Attribute] | None = None, blocks: tuple[int, ...] | None = None
    ) -> tuple[Program, FreeNames]:
        names = FreeNames(self.function)
        options = self.options
        constants = {**options.constants, **(tuned or {})}
        wanted = Specification(described.arguments, options.tile, options.shared, constants, blocks)
        program = self._session.specialise(self.source, names, wanted)
        if options.fast:
            program = dataclasses.replace(program, options={**program.options, "fast": True})
        return program, names

    def _known_program(self, target: Target) -> Program:
        """The program of the last call, or the one that the annotations alone determine, as it is for `target`."""
        latest, on_gpu = self._latest, target.name in ON_GPU
        if latest is None:
            arguments = example_arguments(self.source, FreeNames(self.function), aligned=on_gpu)
            return require_symbolic(self.source, self._specialise(Described(arguments, (), ()))[0])
        if not on_gpu or latest.on_gpu == latest.arguments.arguments:
            return latest.program
        constants = {name: value for name, value in latest.program.options.items() if name != "fast"}
        return self._specialise(dataclasses.replace(latest.arguments, arguments=latest.on_gpu), constants)[0]

    def _head(self) -> Span:
        node = self.source.function
        column = node.col_offset + 1
        return Span(self.source.source.name, node.lineno, column, node.lineno, column + len("def ") + len(node.name))

    def _spans(self) -> tuple[Span, ...]:
        args = self.source.function.args
        return tuple(span_of(self.source, node) for node in (*args.posonlyargs, *args.args, *args.kwonlyargs))


@dataclass(frozen=True, slots=True)
class Configured:
    """A kernel with a launch grid, a stream, or both, to be called."""

    kernel: Kernel
    grid: Grid | None
    stream: Stream | None = None

    def __call__(self, *arguments: Any, **keywords: Any) -> None:
        """Run the kernel on this grid, in this stream."""
        self.kernel.run_configured(arguments, keywords, self.grid, self.stream)

    def on(self, stream: object) -> "Configured":
        """The same in the order of a stream, ours or another library's.  Raises BadStream."""
        try:
            return Configured(self.kernel, self.grid, None if stream is None else as_stream(stream))
        except TesseraError as mistake:
            raise at_call(mistake) from None


def _interactive() -> bool:
    """Is a person waiting?  Then a compiler process is started before it is needed; a script may never need one."""
    return hasattr(sys, "ps1") or "ipykernel" in sys.modules


class Latest:
    """The kernel that was defined, called or inspected last."""

    kernel: Kernel | None = None
