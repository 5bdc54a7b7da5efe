"""A Python function as a kernel that can be called, launched, compiled, inspected and tuned."""

import dataclasses
import functools
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from tessera.core.errors.base import TesseraError
from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import BadGrid
from tessera.core.errors.interrupted import interrupted_call
from tessera.core.program.arguments import Argument
from tessera.core.program.program import Attribute, Program
from tessera.core.settings import current
from tessera.core.targets import Target, target_showing
from tessera.frontend.build.annotations import check_signature
from tessera.frontend.syntax.kernel_source import KernelSource
from tessera.frontend.syntax.source_file import source_for
from tessera.kernels.captured_launch import CapturedLaunches
from tessera.kernels.options import (
    Options,
    Space,
    Tuner,
    check_constants,
    check_space,
    constants_key,
    edited_ir,
    no_tuner,
    with_space,
)
from tessera.kernels.signature import Described
from tessera.kernels.specialization import Specialization
from tessera.kernels.specialize import Specializer
from tessera.kernels.target_choice import chosen_target
from tessera.runtime.binding.grid import Grid, read_grid
from tessera.runtime.launch.launch_events import told_launch
from tessera.runtime.streams.fair_scheduler import Shared, drain
from tessera.runtime.streams.graph_capture import CaptureSession, recording
from tessera.runtime.streams.streams import Stream, as_stream
from tessera.session.compiled import Compiled, IrText, warn_of_slow_code
from tessera.session.session import Session, resolve_target, session

Function = Callable[..., object]
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
        self._specializer = Specializer(function, self.source, self.options, self._session)
        self._latest: Specialization | None = None
        self._earlier: deque[Specialization] = deque(maxlen=_EARLIER)
        self._configured: dict[object, Configured] = {}
        self._variants: dict[tuple[object, ...], Kernel] = {}
        functools.update_wrapper(self, function)
        Latest.kernel = self
        if _interactive():
            self._session.warm()

    def __reduce__(self) -> str:
        """Pickle by name, as functions are; a copy is the kernel itself."""
        return str(getattr(self, "__qualname__", self.source.name))

    @property
    def closes_over(self) -> tuple[object, ...]:
        """The function, and how it is to be compiled: they decide the code, besides arguments."""
        return (self.function, self.options)

    def __call__(self, *arguments: object, **keywords: object) -> None:
        """Run the kernel on a grid derived from the arguments.  Raises KernelInterrupted for Ctrl-C meanwhile."""
        plan = self._latest
        try:
            if keywords or plan is None or CaptureSession.count or Shared.dispatcher.busy:
                self.launch(arguments, keywords)
            elif not plan.run(arguments):
                self._run_another(arguments)
        except KeyboardInterrupt:
            raise interrupted_call(self.source.name) from None

    def _run_another(self, arguments: tuple[object, ...]) -> None:
        """Run the plan of an earlier call like this one: on GPUs, calls of several kinds take turns."""
        for plan in self._earlier:
            if plan.run(arguments):
                self._latest = plan
                return
        self.launch(arguments)

    def __getitem__(self, key: object) -> "Configured":
        """Return the kernel for `k[grid, block]`: with an explicit launch grid; each of the two an int or a tuple.

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
        self, arguments: tuple[object, ...], keywords: Mapping[str, object] | None = None, grid: Grid | None = None,
        stream: Stream | None = None,
    ) -> None:  # fmt: skip
        """Run the kernel with everything spelled out; raises the TesseraError of whatever is wrong.

        In a stream the launch happens when what the stream holds is done; while a graph is captured it is noted.
        """
        Latest.kernel = self
        values = self.ordered(arguments, keywords or {})
        capture = CapturedLaunches.capture
        if capture is not None and capture(self, values, grid):
            return
        plan = self._specializer.plan(values, grid, self.target_for(values), self._tuned)
        self._latest = plan
        if plan.gpu is not None and plan not in self._earlier:
            self._earlier.appendleft(plan)
        noted = recording()
        if noted is None and stream is None:
            drain()
            with told_launch(plan.launcher):
                plan.launcher(*values, grid=grid)
            return
        from tessera.runtime.launch.on_stream import launch_on, record_launch  # noqa: PLC0415 - most programs have one stream

        if noted is not None:
            record_launch(noted, stream, plan.launcher, values, grid)
        elif stream is not None:
            launch_on(stream, plan.launcher, values, grid)

    def run_configured(
        self, arguments: tuple[object, ...], keywords: Mapping[str, object], grid: Grid | None, stream: Stream | None
    ) -> None:
        """Run on a grid and a stream: by the fast path where there is one, else by `launch`."""
        plan = self._latest
        special = keywords or CaptureSession.count or (stream is None and Shared.dispatcher.busy)
        if special or plan is None or not plan.run_on(arguments, grid, stream):
            self.launch(arguments, keywords, grid, stream)

    def compile(
        self, *arguments: object, target: str | None = None, from_ir: str | None = None, **keywords: object
    ) -> Compiled:
        """Compile for arguments like these without running; without arguments, for those of the last call.

        from_ir: edited Tile IR of `Compiled.mlir`, or edited text of the level ptx: it is compiled onward from there
        Warns where code for the target `cuda` lacks registers, or has products that miss the tensor cores.
        Raises UnknownLevel where there was no call, and the annotations alone do not say enough.
        """
        compiled, described = self._compile(arguments, keywords, target, from_ir)
        warn_of_slow_code(compiled, described)
        return compiled

    def compile_quietly(self, *arguments: object, target: str | None = None, **keywords: object) -> Compiled:
        """Compile as `compile` does, without its warning: a search tries much that it does not take."""
        return self._compile(arguments, keywords, target)[0]

    def _compile(
        self,
        arguments: tuple[object, ...],
        keywords: Mapping[str, object],
        target: str | None,
        from_ir: str | None = None,
    ) -> tuple[Compiled, tuple[Argument, ...]]:
        """Compile for arguments; give their types too, as far as there are any."""
        Latest.kernel = self
        wanted = resolve_target(target) if target is not None else self.target_for((*arguments, *keywords.values()))
        if wanted.kind.shown_as:
            wanted = resolve_target(wanted.kind.shown_as)
        if not arguments and not keywords:
            program = self._specializer.known_program(wanted, self._latest)
            known = self._latest.arguments.arguments if self._latest is not None else ()
        else:
            described = self.described(self.ordered(arguments, keywords), wanted)
            program, _ = self._specializer.program(described)
            known = described.arguments
        if from_ir is not None:
            program = dataclasses.replace(program, options={**program.options, **edited_ir(from_ir)})
        # For the last call, the code that ran, which other lengths may share; else that of these arguments alone.
        compiled = self._session.compile(program, wanted, exact=bool(arguments or keywords))
        return (compiled.for_arguments(known) if known else compiled), known

    def inspect_ir(self, level: str = "tile", *arguments: object, stage: str = "", target: str | None = None) -> IrText:
        """Return a level of the compiler as text, for arguments like these or for those of the last call.

        `level`: source, tile, target, llvm, and asm (CPU) or ptx, sass (CUDA; chosen when such a level is asked for).
        """
        level = level if isinstance(cast("object", level), str) else repr(level)  # which no level is called
        if target is None:
            own = self.target_for(arguments).kind
            shown = target_showing(level, own)
            target = None if shown is own else shown.name
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
        """Return a `variant` without its checks: a search reports itself what it leaves out, and why."""
        options = dataclasses.replace(self.options, constants={**self.options.constants, **constants}, space=None)
        return self.with_options(options)

    def with_ir(self, text: str) -> "Kernel":
        """Return this kernel with edited IR in place of its own: of `Compiled.mlir(stage)`, or the text of level ptx.

        The IR is that of one set of argument types; a call with others raises BadTileIR or BadPtx.
        """
        return self.with_constants(edited_ir(text))

    def with_options(self, options: Options) -> "Kernel":
        """Return a kernel of the same function with other options."""
        return Kernel(self.function, options, self._session, self._tuner)

    def on(self, stream: object) -> "Configured":
        """Return the kernel for `k.on(s)(...)`: launched in the order of a stream, ours or another library's.

        None stands for the default one.  Raises BadStream.
        """
        return Configured(self, None).on(stream)

    def described(self, values: tuple[object, ...], target: Target | None = None) -> Described:
        """Return the types and shapes of `values`, one a parameter, as `target` tells them apart (None: the own one).

        Raises NotAnArray and the like.
        """
        return self._specializer.described(values, target or self.target_for(values))

    def stop_compiling(self) -> None:
        """End the compilations that run in other threads: the search for a configuration was interrupted."""
        self._session.close()

    def target_for(self, values: Sequence[object] = ()) -> Target:
        """Return the target of a call on `values`; without values, that of the last call.

        That is what the kernel's own option says, else the setting; and arrays on a GPU mean that GPU, and the
        architecture to compile for, wherever no other was named.  Launches, searches, profiles and views all ask here.
        """
        latest = self._latest
        known = not self.options.sanitize and not values and latest is not None and latest.settings is current()
        if known and latest is not None and latest.compiled is not None:
            return latest.compiled.target
        return chosen_target(self.options, values)

    def on_target(self, target: Target) -> "Kernel":
        """Return the kernel for one target, whatever its arguments and the settings say."""
        if self.options.sanitize:
            return self
        name = str(target) if target.kind.on_gpu else target.name
        return self.with_options(dataclasses.replace(self.options, target=name))

    def require_together(self, values: Sequence[object]) -> None:
        """Raise WrongDevice for arrays that lie apart; what works on copies of them asks this first."""
        self._specializer.signature.require_together(values)

    def program(self, values: tuple[object, ...]) -> Program:
        """Return the program that is compiled for arguments like `values`, one a parameter; raises its mistakes."""
        return self._specializer.program(self.described(values))[0]

    @property
    def last(self) -> Compiled | None:
        """The compilation that the last call used; None before a call, and for interpreted kernels."""
        plan = self._latest
        if plan is None or plan.compiled is None:
            return None
        return plan.compiled.called(plan.launcher.last_groups)

    @property
    def last_arguments(self) -> Described | None:
        """The types and shapes of the last call's arguments."""
        return self._latest.arguments if self._latest is not None else None

    def __repr__(self) -> str:
        return f"<kernel {self.source.name}({', '.join(self._specializer.signature.names)})>"

    def ordered(self, arguments: tuple[object, ...], keywords: Mapping[str, object]) -> tuple[object, ...]:
        """Return every parameter's argument, in order, defaults filled in.  Raises ArgumentCount."""
        return self._specializer.signature.ordered(arguments, keywords)

    def _tuned(self, values: tuple[object, ...], grid: Grid | None) -> Mapping[str, Attribute]:
        return self._tuner(self, values, grid)


@dataclass(frozen=True, slots=True)
class Configured:
    """A kernel with a launch grid, a stream, or both, to be called."""

    kernel: Kernel
    grid: Grid | None
    stream: Stream | None = None

    def __call__(self, *arguments: object, **keywords: object) -> None:
        """Run the kernel on this grid, in this stream.  Raises KernelInterrupted for Ctrl-C meanwhile."""
        try:
            self.kernel.run_configured(arguments, keywords, self.grid, self.stream)
        except KeyboardInterrupt:
            raise interrupted_call(self.kernel.source.name) from None

    def on(self, stream: object) -> "Configured":
        """Return the same, launched in the order of a stream, ours or another library's.  Raises BadStream."""
        try:
            return Configured(self.kernel, self.grid, None if stream is None else as_stream(stream))
        except TesseraError as mistake:
            raise at_call(mistake) from None


def _interactive() -> bool:
    """Return whether a person is waiting, for whom a compiler process is started before it is needed."""
    return hasattr(sys, "ps1") or "ipykernel" in sys.modules


class Latest:
    """The kernel that was defined, called or inspected last."""

    kernel: Kernel | None = None
