"""The sides of a diff: a kernel, a compilation, one of its levels or passes, or a stage."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, cast

from tessera.core.errors.catalog import NothingToShow, UnknownLevel
from tessera.core.program.arguments import Argument
from tessera.core.stage import PROGRAM, Stage
from tessera.kernels.kernel import Configured, Kernel
from tessera.session.compiled import Compiled
from tessera.viz.base.selection import group_of
from tessera.viz.base.subjects import launched, wrong
from tessera.viz.diffs.model import Side
from tessera.viz.operators.captured import Capturable, CapturedGraph, captured, is_capturable
from tessera.viz.stage_alignment.align import Related

_Whole = Kernel | Configured | Compiled | Capturable
Comparable = _Whole | Stage | tuple[_Whole, str] | tuple[_Whole, str, str]
"""What `diff` takes: a kernel, a compilation or a function of operators, alone, with a level, or with a level and a
pass; or a `Stage`."""
TILE: Final = "tile"
_HINT: Final = (
    'give a kernel, what k.compile(x, y) returns, or either with a level and a pass: (k, "tile", "tile-simplify")'
)


@dataclass(frozen=True)
class Subject:
    """Stages that one side is chosen from.

    compiled: None for a stage that was given alone; kernel: None where a compilation was given
    shown: every stage that has a text; wanted: the level and the pass that were asked for; "": the last
    arguments: of the last call, or those that were given, where they are known
    graph: the captured function, where one was given
    """

    compiled: Compiled | None
    kernel: Kernel | None
    shown: tuple[Stage, ...]
    wanted: tuple[str, str] = ("", "")
    arguments: tuple[Argument, ...] = field(default=(), repr=False)
    graph: CapturedGraph | None = None

    @cached_property
    def choices(self) -> tuple[tuple[str, str], ...]:
        """The level and the pass of each."""
        return tuple((stage.level, stage.name) for stage in self.shown)

    @property
    def chosen(self) -> int:
        """The number of the stage that was asked for: the last of Tile IR where nothing was.

        Raises UnknownLevel for a level or a pass that there is not.
        """
        level, name = self.wanted
        level = level or (TILE if any(found == TILE for found, _ in self.choices) else self.choices[-1][0])
        fitting = [i for i, found in enumerate(self.choices) if found[0] == level and name in ("", found[1])]
        if fitting:
            return fitting[-1]
        passes = [found for of, found in self.choices if of == level and found]
        if passes:
            raise UnknownLevel(f"{level!r} has no stage {name!r}", hint=f"choose one of {', '.join(passes)}")
        known = ", ".join(dict.fromkeys(found for found, _ in self.choices))
        raise UnknownLevel(f"{level!r} is no level of {self.name}", hint=f"choose one of {known}")

    @property
    def name(self) -> str:
        """The kernel's name, or the function's."""
        if self.graph is not None:
            return self.graph.name
        return self.compiled.name if self.compiled is not None else ""

    @property
    def group(self) -> str:
        """The selection that it shares with other views of its kernel."""
        if self.graph is not None:
            return self.graph.selection
        return group_of(self.name, self.compiled.program.source) if self.compiled is not None else ""

    def side(self, number: int) -> Side:
        """Return what a column says that shows one of the stages."""
        stage, (level, name) = self.shown[number], self.choices[number]
        parts: list[str] = []
        if self.compiled is not None:
            options = {key: value for key, value in self.compiled.program.options.items() if not key.startswith("_")}
            parts += [f"{key}={value}" for key, value in sorted(options.items()) if isinstance(value, int | str)]
        if stage.ran is not None:
            parts += [f"{key}={value}" for key, value in sorted(stage.ran.options.items())]
        target = str(self.compiled.target) if self.compiled is not None else stage.ran.target if stage.ran else ""
        kernel = self.name or (stage.ran.kernel if stage.ran else "")
        return Side(kernel, target, level, name, ", ".join(parts))


def subject_of(given: Comparable, args: Sequence[object] = (), view: str = "diff") -> Subject:
    """Return a side of a diff.

    args: what a kernel is compiled for that was not called; none: what its annotations say
    view: the function that asks, for the message

    Raises:
        NothingToShow: it is nothing that has stages.
        UnknownLevel: the kernel was not called, and its annotations alone do not say enough.
    """
    if isinstance(given, Stage):
        return Subject(None, None, (given,), (given.level, given.name))
    level, name = "", ""
    if isinstance(given, tuple):
        parts = cast("tuple[object, ...]", given)
        if not 2 <= len(parts) <= 3 or not all(isinstance(part, str) for part in parts[1:]):
            raise NothingToShow("a side of a diff with a level is (kernel, level) or (kernel, level, pass)", hint=_HINT)
        level, name = str(parts[1]), str(parts[2]) if len(parts) == 3 else ""
        given = cast("_Whole", parts[0])
    if isinstance(given, Kernel | Configured):
        kernel = launched(given, view)[0]
        compiled = kernel.compile_quietly(*args) if args or kernel.last is None else kernel.last
        described = kernel.described(kernel.ordered(tuple(args), {})) if args else kernel.last_arguments
        arguments = described.arguments if described is not None else ()
        return Subject(compiled, kernel, _shown(compiled), (level, name), arguments)
    if is_capturable(given):
        graph = captured(given, args, view)
        return Subject(None, None, graph.stages, (level, name), graph=graph)
    if not isinstance(given, Compiled):
        raise wrong(view, "kernels, compilations or stages", given, _HINT)
    return Subject(given, None, _shown(given), (level, name))


def _shown(compiled: Compiled) -> tuple[Stage, ...]:
    return tuple(stage for stage in compiled.stages if stage.listing is not None)


def related(before: Subject, i: int, after: Subject, j: int) -> Related:
    """Return how stage `i` of one side and stage `j` of another are related."""
    if before.graph is not None and after.graph is not None:
        return Related.COMPILATION if before.graph.executable is after.graph.executable else Related.NOT
    old, new = before.compiled, after.compiled
    if old is None or new is None:
        one = {record.id for record in before.shown[i].records} & {record.id for record in after.shown[j].records}
        return Related.COMPILATION if one else Related.PROGRAM
    if old.entry is new.entry and len(old.phases) == len(new.phases):
        return Related.COMPILATION
    return Related.PROGRAM if _operations(old) == _operations(new) else Related.NOT


def _operations(compiled: Compiled) -> tuple[str, ...]:
    """Return the names of the Program's operations, which say whether two are one but for constants."""
    return tuple(record.name for stage in compiled.stages if stage.level == PROGRAM for record in stage.records)
