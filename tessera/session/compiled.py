"""One kernel compiled for one set of argument types: what `kernel.compile` returns and `kernel.last` holds."""

import hashlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from tessera.core.artifact import Artifact, Binding
from tessera.core.compilation import AS_MLIR, LLVM_PASSES, Compilation
from tessera.core.errors.call_site import level_of_user
from tessera.core.errors.catalog import UnknownLevel
from tessera.core.events import PassRan
from tessera.core.listing import Listing
from tessera.core.program.arguments import Argument
from tessera.core.program.expressions import evaluate
from tessera.core.program.program import Program, Workspace
from tessera.core.program_records import records_of_program
from tessera.core.resources import ResourceReport
from tessera.core.stage import Stage, stages_of
from tessera.core.targets import Target
from tessera.lowering.artifact_cache.store import CacheEntry
from tessera.lowering.base.sass import has_machine_code, require_tools, with_machine_code
from tessera.lowering.cuda.resources import groups_text, resource_report, warnings_of
from tessera.performance.launch_shape import bound_extents
from tessera.session.phase_views import joined_listings, joined_records, phase_head

Observe = Callable[["Compiled"], CacheEntry]
"""Compiles again and records every level, when a level is first looked at."""


class IrText(str):
    """The text of one level; `listing` links each of its lines to the source."""

    __slots__ = ("listing",)
    listing: Listing

    def __new__(cls, listing: Listing) -> Self:
        """Make the text of `listing`."""
        self = super().__new__(cls, listing.text)
        self.listing = listing
        return self


@dataclass(frozen=True)
class Compiled:
    """A compilation.

    origin: where it came from: "compiler", "disk" or "memory"
    seconds: what that took, the frontend not included
    groups: how many groups the last call had, or a call with the arguments that it was compiled for; None: not known
    phases: the launches that one call is, each a compilation; none where it is one launch; see `split_phases`
    opened: the program that was compiled instead, for many lengths, see `varying_extents`; None: `program` itself
    """

    program: Program
    entry: CacheEntry
    origin: str
    seconds: float
    observe: Observe
    groups: int | None = None
    phases: "tuple[Compiled, ...]" = ()
    opened: Program | None = None

    def for_arguments(self, arguments: Sequence[Argument]) -> "Compiled":
        """Return the compilation with the number of groups of a call with `arguments`."""
        if self.phases:
            return self.called([phase.for_arguments(arguments).groups for phase in self.phases])
        expression, extents = self.artifact.launch.groups, bound_extents(self.program, arguments)
        return self if expression is None else replace(self, groups=evaluate(expression, extents.__getitem__))

    def called(self, groups: Sequence[int | None]) -> "Compiled":
        """Return the compilation with the number of groups of each phase in a call, which are added up."""
        if not self.phases:
            return replace(self, groups=groups[0])
        parts = tuple(replace(part, groups=number) for part, number in zip(self.phases, groups, strict=True))
        known = [number for number in groups if number is not None]
        return replace(self, phases=parts, groups=sum(known) if len(known) == len(groups) else None)

    @property
    def shared(self) -> bool:
        """Return whether the code is right for other lengths of the arrays too; see `varying_extents`."""
        return self.opened is not None or any(phase.shared for phase in self.phases)

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """The artifacts that the runtime launches, one after the other: one a phase."""
        return tuple(phase.artifact for phase in self.phases) or (self.artifact,)

    @property
    def artifact(self) -> Artifact:
        """The artifact that the runtime launches, the first where there are several phases."""
        return self.entry.artifact

    @property
    def listed_code(self) -> bytes:
        """The code of one phase as it is compiled to be listed: the same, with a table of lines on the CPU.

        Compiles once more if no level was looked at so far.
        """
        entry = self.entry if self.entry.observed else self.observe(self)
        return entry.artifact.code

    @property
    def workspaces(self) -> tuple[Workspace, ...]:
        """The memory that the phases share."""
        return self.phases[0].program.given if self.phases else ()

    @property
    def code_identity(self) -> str:
        """A key that is equal for two compilations that do the same: their machine code, and how it is launched."""
        digest = hashlib.blake2b(digest_size=16)
        for artifact in self.artifacts:
            digest.update(artifact.code)
            digest.update(repr((artifact.slots, artifact.launch, artifact.resources)).encode())
        return digest.hexdigest()

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.program.name

    @property
    def target(self) -> Target:
        """The target that it is compiled for."""
        return self.artifact.target

    @cached_property
    def _levels(self) -> tuple[tuple[Listing, ...], tuple[PassRan, ...]]:
        if self.phases:
            passes = tuple(record for phase in self.phases for record in phase.passes)
            return joined_listings([(phase.program, phase._levels[0]) for phase in self.phases]), passes
        entry = self.entry if self.entry.observed else self.observe(self)
        return entry.levels()

    @cached_property
    def listings(self) -> tuple[Listing, ...]:
        """Every level in order, the state after each pass included.

        Compiles once more if no level was looked at so far, and disassembles machine code of a GPU (half a second).
        """
        if self.phases:
            return joined_listings([(phase.program, phase.listings) for phase in self.phases])
        return with_machine_code(self.artifact, self._levels[0])

    @property
    def passes(self) -> tuple[PassRan, ...]:
        """Every pass in order, with its time."""
        return self._levels[1]

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """Every state of the kernel as data: the Program, Tile IR after each pass, and the levels below.

        Of a kernel in phases, each is the state of all phases together; those of one are its own `stages`.
        """
        programs = [(part.program, records_of_program(part.program)) for part in self.phases or (self,)]
        return tuple(stages_of(joined_records(programs), self.listings, self.passes))

    def stage(self, level: str = "tile", name: str = "") -> Stage:
        """Return the state of one level after a pass ("": the last one), as data.

        Raises UnknownLevel where there is no such level or pass.
        """
        for stage in reversed(self.stages):
            if stage.level == level and name in ("", stage.name):
                return stage
        self.listing(level, name)  # which says what there is
        raise UnknownLevel(f"{level!r} has no operations as data")

    @property
    def compilation(self) -> Compilation:
        """Return it as plain data."""
        return Compilation(self.artifact, self.listings, self.passes)

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels this compilation went through, in order."""
        found = {listing.level for listing in self._levels[0]}
        if has_machine_code(self.artifact):
            found.add("sass")
        return tuple(level for level in self.target.kind.levels if level in found)

    def listing(self, level: str, stage: str = "") -> Listing:
        """Return one level as it stood after `stage` (a pass's name; "": the end).

        Raises:
            UnknownLevel: there is no such level or stage.
            ToolMissing: `sass` needs programs that are not installed.
        """
        listings = self.listings if level == "sass" else self._levels[0]
        for listing in listings:
            if listing.level == level and listing.stage == stage:
                return listing
        stages = [listing.stage for listing in listings if listing.level == level and listing.stage]
        if level not in self.levels:
            if level == "sass":
                require_tools(self.target)
            message, known = f"{level!r} is no level of a kernel compiled for {self.target.name}", self.levels
        else:
            message, known = f"{level!r} has no stage {stage!r}", tuple(stages)
        raise UnknownLevel(message, hint=f"choose one of {', '.join(known)}")

    def ir(self, level: str = "tile", stage: str = "") -> IrText:
        """Return one level as text; see `listing`."""
        return IrText(self.listing(level, stage))

    def mlir(self, stage: str = "") -> str:
        """Return the Tile IR behind a pass ("": the last one) in MLIR's own form, for `Kernel.compile(..., from_ir=)`.

        Phases follow one another, each behind a line that names it.
        Raises UnknownLevel where there is no such pass, in any of the phases.
        """
        if self.phases:
            heads = (phase_head(number, len(self.phases), part.program) for number, part in enumerate(self.phases))
            texts = (part.mlir(stage) for part in self.phases)
            return "\n".join(f"{head}\n{text}" for head, text in zip(heads, texts, strict=True))
        listings = [listing for listing in self._observed_with(AS_MLIR)[0] if listing.level == "tile" and listing.stage]
        for listing in listings if stage else listings[-1:]:
            if listing.stage == stage or not stage:
                return listing.text
        known = ", ".join(listing.stage for listing in listings)
        raise UnknownLevel(f"'tile' has no stage {stage!r}", hint=f"choose one of {known}")

    def with_llvm_passes(self) -> Compilation:
        """Return it as plain data, with LLVM IR after each of LLVM's own passes that changes it.

        Compiles once more, which takes longer than without: LLVM prints the whole module after each of them.
        """
        if not self.phases:
            listings, passes = self._observed_with(LLVM_PASSES)
            return Compilation(self.artifact, with_machine_code(self.artifact, listings), passes)
        parts = [(phase.program, phase.with_llvm_passes()) for phase in self.phases]
        joined = joined_listings([(program, part.listings) for program, part in parts])
        return Compilation(self.artifact, joined, tuple(record for _, part in parts for record in part.passes))

    def _observed_with(self, option: str) -> tuple[tuple[Listing, ...], tuple[PassRan, ...]]:
        """Compile once more with an option that changes what is listed, and nothing else."""
        program = replace(self.program, options={**self.program.options, option: True})
        return self.observe(replace(self, program=program)).levels()

    def resources(self) -> ResourceReport:
        """Return what the kernel uses: registers, spills, shared memory, occupancy, instructions.  Needs no GPU."""
        if not self.phases:
            return resource_report(self.artifact, self.groups)
        first, *others = (phase.resources() for phase in self.phases)
        return replace(first, next_phases=tuple(others))

    def __repr__(self) -> str:
        return f"<compiled {self.name} for {self.target.name}: {', '.join(self._signature)}; {self._launched}>"

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """The parameters of a call: those of the launches, but for the memory that phases share."""
        return self.artifact.bindings[: len(self.artifact.bindings) - len(self.workspaces)]

    @property
    def _signature(self) -> list[str]:
        return [f"{binding.name}: {'mut ' if binding.mutable else ''}{binding.type}" for binding in self.bindings]

    @property
    def _launched(self) -> str:
        told = " and ".join(groups_text(artifact.launch) for artifact in self.artifacts)
        number = f"{self.groups:,}" if self.groups is not None else told
        phases = f" in {len(self.phases)} phases" if self.phases else ""
        return f"{number} group{'' if number == '1' else 's'}{phases}"


def warn_of_slow_code(compiled: Compiled, arguments: Sequence[Argument]) -> None:
    """Tell the user, once, of code that is slower than it need be; see `warnings_of`."""
    for text in (text for artifact in compiled.artifacts for text in warnings_of(artifact, arguments)):
        warnings.warn(text, RuntimeWarning, stacklevel=level_of_user())
