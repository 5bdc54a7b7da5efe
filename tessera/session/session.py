"""The session: one process's compile service, cache and memory of what was compiled.

Everything that has to see the frontend, the compiler and the runtime at once goes through here.
"""

import dataclasses
import importlib
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from tessera.core import events
from tessera.core.base.interrupts import deferred_interrupts
from tessera.core.errors.base import TesseraError
from tessera.core.program.arguments import Argument
from tessera.core.program.program import Attribute, Program
from tessera.core.progress import working
from tessera.core.settings import current
from tessera.core.targets import Target, find_kind
from tessera.frontend.syntax.kernel_source import KernelSource
from tessera.lowering.artifact_cache.key import artifact_key
from tessera.lowering.artifact_cache.store import Cache, CacheEntry, Place, entry_of
from tessera.lowering.base.host_cpu import host_target
from tessera.lowering.program.open_extents import Opened
from tessera.lowering.program.split_phases import phases
from tessera.lowering.service.server import CompileService
from tessera.runtime.launch.object_code import prepare
from tessera.session.compiled import Compiled
from tessera.session.edited_phases import from_edited_parts, mistakes_in_whole_text
from tessera.session.varying_extents import VaryingExtents

_REMEMBERED: Final = 256


@dataclass(frozen=True, slots=True)
class Specification:
    """The specification of a kernel besides its text: see `tessera.frontend.build.build.specialise`."""

    arguments: tuple[Argument, ...]
    group: tuple[int, ...] | None = None
    shared_limit: int | None = None
    constants: Mapping[str, Attribute] | None = None
    blocks: tuple[int, ...] | None = None


class Session:
    """Compiles programs and remembers the results; safe to use from several threads."""

    def __init__(self, service: CompileService | None = None) -> None:
        self.service = service or CompileService()
        self._lock = threading.Lock()
        self._remembered: OrderedDict[tuple[object, ...], Compiled] = OrderedDict()
        self._cache: Cache | None = None
        self._preload: threading.Thread | None = None
        self._varying = VaryingExtents()

    def specialise(self, source: KernelSource, names: Mapping[str, object], wanted: Specification) -> Program:
        """Build the program of a kernel for one set of argument types.  Raises the mistakes of its author."""
        from tessera.frontend.build.build import specialise  # noqa: PLC0415 - the frontend loads when a kernel is used

        return specialise(
            source, wanted.arguments, names, group=wanted.group, shared_limit=wanted.shared_limit,
            constants=wanted.constants, blocks=wanted.blocks,
        )  # fmt: skip

    def compile(
        self, program: Program, target: Target, *, observe: bool = False, exact: bool = False
    ) -> Compiled:  # fmt: skip
        """Return `program` compiled for `target`: from memory, from the disk cache, or by a worker process.

        observe: record every level on the way; without, `Compiled.listings` does so when asked
        exact: compile for the extents that are numbers alone, also where code for further ones would do
        Raises the TesseraError of a mistake in the kernel, or CompilerCrash, CompileTimeout.
        """
        start = time.perf_counter()
        parts = phases(program)
        if len(parts) == 1 and parts[0] is program:
            return self._compile(program, target, observe=observe, exact=exact)
        made: list[Compiled] = []
        with working(f"compiling {program.name} for {target.name}", len(parts)) as task:
            for number, part in enumerate(from_edited_parts(parts)):
                task.step(number)
                with mistakes_in_whole_text(program, number):
                    made.append(self._compile(part, target, observe=observe, exact=exact))
        return Compiled(
            program, made[0].entry, made[0].origin, time.perf_counter() - start, self._observe, phases=tuple(made)
        )

    def _compile(self, program: Program, target: Target, *, observe: bool, exact: bool) -> Compiled:
        """Compile one phase, or a kernel that has no more than one."""
        start = time.perf_counter()
        key = artifact_key(program, target)
        # The same kernel in another cell has other spans: it comes from the disk, which moves them.
        place = (key, program.source.name, program.span.line)
        with self._lock:
            found = self._remembered.get(place)
        if found is not None and found.opened is not None and (exact or observe):
            found = None
        if found is not None and (found.entry.observed or not observe):
            _publish(found, "memory", start)
            return self._remember(place, _in_its_cell(found, program))
        opened = None if exact or observe else self._varying.opened(program, target)
        if opened is not None:
            try:
                return self._remember(place, _closed(opened, self._exactly(opened.program, target)))
            except TesseraError:  # a tile of the bucket may not fit where one of this length does
                self._varying.close(program, target)
        entry, origin = self._fetch(key, program, target, observe)
        compiled = Compiled(program, entry, origin, time.perf_counter() - start, self._observe)
        _publish(compiled, origin, start)
        return self._remember(place, compiled)

    def _exactly(self, program: Program, target: Target) -> Compiled:
        return self._compile(program, target, observe=False, exact=True)

    @property
    def cache(self) -> Cache | None:
        """The disk cache, or None where the settings switch it off."""
        settings = current()
        if not settings.cache:
            return None
        folder = settings.cache_dir / "kernels"
        if self._cache is None or (self._cache.folder, self._cache.limit) != (folder, settings.cache_bytes):
            self._cache = Cache(folder, settings.cache_bytes)
        return self._cache

    @property
    def recent(self) -> tuple[Compiled, ...]:
        """The kernels that were compiled or fetched in this process, the latest last (256 at most)."""
        with self._lock:
            return tuple(self._remembered.values())

    def warm(self) -> None:
        """Prepare everything a first kernel needs, in the background: a compiler process, and this one's imports."""
        self.service.warm()
        if self._preload is None:
            with deferred_interrupts():
                self._preload = threading.Thread(target=_preload, name="tessera-preload", daemon=True)
                self._preload.start()

    def close(self) -> None:
        """End the compiler processes; the session starts new ones when it is used again."""
        self.service.close()

    def _fetch(self, key: str, program: Program, target: Target, observe: bool) -> tuple[CacheEntry, str]:
        origin = "disk"

        def build() -> CacheEntry:
            nonlocal origin
            origin = "compiler"
            return entry_of(self.service.compile(program, target, observe))

        if self.cache is None:
            return build(), origin
        entry = self.cache.get_or_build(key, Place(program.source, program.span), build, observed=observe)
        return entry, origin

    def _observe(self, compiled: Compiled) -> CacheEntry:
        return self.compile(compiled.opened or compiled.program, compiled.target, observe=True).entry

    def _remember(self, place: tuple[object, ...], compiled: Compiled) -> Compiled:
        with self._lock:
            self._remembered[place] = compiled
            self._remembered.move_to_end(place)
            if len(self._remembered) > _REMEMBERED:
                self._remembered.popitem(last=False)
        return compiled


def _in_its_cell(known: Compiled, program: Program) -> Compiled:
    """Return a compilation of the same text for the cell that it stands in now: one that ran again has a new label."""
    if known.program.source == program.source:
        return known
    artifact = dataclasses.replace(known.artifact, source=program.source)
    return dataclasses.replace(known, program=program, entry=dataclasses.replace(known.entry, artifact=artifact))


def _closed(opened: Opened, compiled: Compiled) -> Compiled:
    """Return the code for many lengths as a compilation for one: a launch checks that its arrays have it."""
    artifact, parameters = compiled.artifact, opened.closed.parameters
    bindings = tuple(
        dataclasses.replace(binding, type=parameter.value.type)
        for binding, parameter in zip(artifact.bindings, parameters, strict=True)
    )
    entry = dataclasses.replace(compiled.entry, artifact=dataclasses.replace(artifact, bindings=bindings))
    return dataclasses.replace(compiled, program=opened.closed, entry=entry, opened=opened.program)


def _publish(compiled: Compiled, origin: str, start: float) -> None:
    """Tell that `compiled` was asked for and came from `origin`."""
    if events.wanted(events.Compiled):
        seconds, artifact = time.perf_counter() - start, compiled.artifact
        events.publish(events.Compiled(artifact.name, str(artifact.target), artifact.key, origin, seconds))


def _preload() -> None:
    """Import in advance what specialising, storing and launching a kernel need, which takes 200 ms."""
    for name in ("tessera.frontend.build.build", "filelock"):
        importlib.import_module(name)
    prepare()


def resolve_target(name: str) -> Target:
    """Return the target that a user calls "cpu", "interpret", "cuda", "cuda:sm_90a" or "cuda_tile:sm_90".

    Raises BadSetting.
    """
    kind, arch = find_kind(name)
    return host_target() if kind.native else Target(kind.name, arch or kind.default)


@cache
def session() -> Session:
    """Return the process's session."""
    return Session()
