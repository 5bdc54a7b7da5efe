"""The `interpret` target: a program run by the NumPy oracle, behind the same interface as compiled code."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tessera.core.artifact import Artifact, Binding, LaunchRule, Resources
from tessera.core.errors.call_site import level_of_user
from tessera.core.program.expressions import evaluate
from tessera.core.program.program import Program
from tessera.core.program.types import Array, Scalar
from tessera.core.targets import ORACLE, Target
from tessera.runtime.arrays.host import AnyArray
from tessera.runtime.binding.grid import Grid, GridRule
from tessera.runtime.binding.signature import Arguments, Binder
from tessera.runtime.interpret.run import WINDOW, Report, run
from tessera.runtime.interpret.state import Observer
from tessera.runtime.launch.launchers import Launcher, Loadable, Runtime

TARGET: Final = Target(ORACLE, "")


def interpreted_artifact(program: Program) -> Artifact:
    """Return an artifact without code: what a caller needs to know of `program`'s parameters."""
    bindings: list[Binding] = []
    for parameter in program.parameters:
        kind = parameter.value.type
        if not isinstance(kind, Array | Scalar):
            raise TypeError(f"parameter {parameter.name!r} has type {kind}")
        bindings.append(Binding(parameter.name, kind, parameter.mutable, parameter.span))
    symbols = tuple((s.name, s.parameter, s.axis, s.scale) for s in program.symbols)
    return Artifact(
        "", program.name, TARGET, b"", "", tuple(bindings), symbols, (), _rule(program), Resources(),
        bounded=False, source=program.source, span=program.span,
    )  # fmt: skip


def _rule(program: Program) -> LaunchRule:
    extents, kind = program.domain.extents, program.domain.kind
    if kind == "single":
        return LaunchRule("single")
    if kind == "lanes" and program.group is None:
        return LaunchRule("lanes", extents, lanes_per_group=1)
    group = program.group or (1,)
    if kind == "lanes":
        return LaunchRule("groups", extents, group, axes=program.domain.axes)
    return LaunchRule("groups", group=group, count=extents)


@dataclass(frozen=True, slots=True)
class InterpretedLaunch:
    """One launch with its arguments bound."""

    interpreter: "Interpreter"
    values: tuple[object, ...]
    grid: Grid | None

    def run(self) -> None:
        """Run the program; raises the TesseraError of what is found."""
        self.interpreter(*self.values, grid=self.grid)

    def cancel(self) -> None:
        """Do nothing: interpreted launches end by themselves."""


class Interpreter:
    """A program ready to be interpreted; `report` says what the last launch did, `last_groups` how many groups it had.

    `sanitize`: look for races, missing and divergent barriers, out-of-bounds and uninitialised reads.
    `scalars`: see `Binder`.  `observer`, `lanes_at_once`: see `run`.
    """

    quick: None = None
    on_streams: None = None

    def __init__(
        self, program: Program, scalars: Sequence[type] | None = None, *, sanitize: bool = False,
        observer: Observer | None = None, lanes_at_once: int = WINDOW,
    ) -> None:  # fmt: skip
        self.artifact = interpreted_artifact(program)
        self.report: Report | None = None
        self.last_groups: tuple[int | None, ...] = (None,)
        self._program = program.with_workspaces()
        self._spaces = program.workspaces
        self._sanitize, self._observer, self._lanes_at_once = sanitize, observer, lanes_at_once
        self._binder = Binder(self.artifact, scalars)
        self._grid = GridRule(self.artifact, self._binder.symbol)

    def __call__(self, *arguments: object, grid: Grid | None = None) -> None:
        """Run the program on `arguments`; raises the TesseraError of whatever is wrong with them or is found."""
        # Checked always: compiled launches learn as they pack a float that it is too large, and nothing packs here.
        if not self.run(self._binder.check(arguments), grid):
            raise AssertionError(f"{self.artifact.name}: checked arguments were not accepted")

    def prepare(self, arguments: Sequence[object], grid: Grid | None = None) -> InterpretedLaunch:
        """Bind `arguments`, to run later.  Raises the TesseraError they make."""
        return InterpretedLaunch(self, self._binder.check(arguments), grid)

    def run(self, arguments: Arguments, grid: Grid | None = None) -> bool:
        """Run the program when `arguments` are exactly what it takes; False, having done nothing, when they are not."""
        if len(arguments) != len(self.artifact.bindings):
            return False
        facts = self._binder.facts(arguments)
        if facts is None:
            return False
        symbols: dict[str, int] = {}
        for name, *_ in self.artifact.symbols:
            index, scale = self._binder.symbol(name)
            symbols[name] = int(facts[index]) * scale
        self.last_groups = (self._grid.shape(facts, grid).units,)
        if self.last_groups == (0,):
            return True
        spaces: list[AnyArray] = []
        for space in self._spaces:
            shape = tuple(max(1, evaluate(extent, symbols.__getitem__)) for extent in space.extents)
            spaces.append(np.empty(shape, space.value.type.dtype.numpy))
            names = space.value.type.shape if isinstance(space.value.type, Array) else ()
            symbols |= {name: n for name, n in zip(names, shape, strict=True) if isinstance(name, str)}
        self.report = run(
            self._program, (*arguments, *spaces), symbols=symbols, sanitize=self._sanitize,
            grid=grid.blocks if grid is not None else None,
            group=grid.threads if grid is not None else None,
            observer=self._observer, lanes_at_once=self._lanes_at_once,
        )  # fmt: skip
        self._warn()
        return True

    def _warn(self) -> None:
        """Tell the user what the launch did not write."""
        source = self._program.source
        for note in self.report.notes if self.report is not None else ():
            where = f" ({source.label or source.name}, line {note.span.line})" if note.span.line else ""
            warnings.warn(f"{self._program.name}{where}: {note.text}", RuntimeWarning, stacklevel=level_of_user())


def _load(made: Loadable) -> Launcher:
    return Interpreter(made.program, made.types, sanitize=made.sanitize)


RUNTIME: Final = Runtime(_load)
