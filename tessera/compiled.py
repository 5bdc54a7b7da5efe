"""One kernel compiled for one set of argument types: what `kernel.compile` returns and `kernel.last` holds."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from tessera.core.artifact import Artifact
from tessera.core.compilation import Compilation, PassRecord
from tessera.core.listing import LEVELS, Listing
from tessera.core.mistakes import UnknownLevel
from tessera.core.program.arguments import Argument
from tessera.core.program.expressions import evaluate
from tessera.core.program.program import Program
from tessera.core.resources import ResourceReport
from tessera.core.targets import Target
from tessera.launch_shape import bound_extents
from tessera.lowering.cache import Entry
from tessera.lowering.target.cuda.report import groups_text, resource_report
from tessera.lowering.target.sass import has_machine_code, require_tools, with_machine_code

Observe = Callable[["Compiled"], Entry]
"""Compiles again and records every level; asked only when somebody looks."""


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
    groups: how many groups the last call has, or a call with the arguments that it was compiled for; None: not known
    """

    program: Program
    entry: Entry
    origin: str
    seconds: float
    observe: Observe
    groups: int | None = None

    def for_arguments(self, arguments: Sequence[Argument]) -> "Compiled":
        """The same, with the number of groups of a call with `arguments`."""
        expression, extents = self.artifact.launch.groups, bound_extents(self.program, arguments)
        return self if expression is None else replace(self, groups=evaluate(expression, extents.__getitem__))

    @property
    def artifact(self) -> Artifact:
        """What the runtime launches."""
        return self.entry.artifact

    @property
    def code_identity(self) -> str:
        """The same for two compilations that do the same: their machine code, and how it is launched."""
        artifact = self.artifact
        digest = hashlib.blake2b(artifact.code, digest_size=16)
        digest.update(repr((artifact.slots, artifact.launch, artifact.resources)).encode())
        return digest.hexdigest()

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.program.name

    @property
    def target(self) -> Target:
        """What it is compiled for."""
        return self.artifact.target

    @cached_property
    def _levels(self) -> tuple[tuple[Listing, ...], tuple[PassRecord, ...]]:
        entry = self.entry if self.entry.observed else self.observe(self)
        return entry.levels()

    @cached_property
    def listings(self) -> tuple[Listing, ...]:
        """Every level in order, the state after each pass included.

        Compiles once more if nobody looked so far, and disassembles machine code of a GPU (half a second).
        """
        return with_machine_code(self.artifact, self._levels[0])

    @property
    def passes(self) -> tuple[PassRecord, ...]:
        """Every pass in order, with its time."""
        return self._levels[1]

    @property
    def compilation(self) -> Compilation:
        """The same as plain data."""
        return Compilation(self.artifact, self.listings, self.passes)

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels this compilation went through, in order."""
        found = {listing.level for listing in self._levels[0]}
        if has_machine_code(self.artifact):
            found.add("sass")
        return tuple(level for level in LEVELS if level in found)

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

    def resources(self) -> ResourceReport:
        """Return what the kernel uses: registers, spills, shared memory, occupancy, instructions.  Needs no GPU."""
        return resource_report(self.artifact, self.groups)

    def __repr__(self) -> str:
        return (
            f"<compiled {self.name} for {self.target.name}: {', '.join(_signature(self.artifact))}; {self._launched}>"
        )

    @property
    def _launched(self) -> str:
        told = groups_text(self.artifact.launch)
        number = f"{self.groups:,}" if self.groups is not None else told
        return f"{number} group{'' if number == '1' else 's'}"


def _signature(artifact: Artifact) -> list[str]:
    return [f"{binding.name}: {'mut ' if binding.mutable else ''}{binding.type}" for binding in artifact.bindings]
