"""Share code between programs of one kernel whose arrays differ in length from call to call.

The first few lengths of a kernel (`Settings.exact_extents`) are compiled as numbers, which gives the fastest code.
From then on the axes that differed are opened (`lowering/program/open_extents.py`), so that the lengths of one bucket
are compiled once: decoding, ragged batches and rows of every width.  The values are the same to the bit.  Shared code
has to look at bounds, so a length that is called often gets code of its own.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from tessera.core.program.program import Program, find
from tessera.core.program.types import Array
from tessera.core.settings import current
from tessera.core.targets import Target
from tessera.lowering.artifact_cache.key import code_key
from tessera.lowering.program.open_extents import LONGEST, Opened, ParameterAxis, open_extents

FREQUENT: Final = 64
"""Calls with one length before it gets code of its own: more than a step of decoding has layers."""
BYTES_OF_A_CALL: Final = {False: 1 << 20, True: 1 << 26}
"""Bytes that count as one call more, by whether they are moved by a GPU: then about as much time is lost by shared code
as compiling takes."""
_FAMILIES: Final = 256
Lengths: TypeAlias = tuple[int, ...]
"""The extents of all parameters that are numbers, 0 for symbols."""


@dataclass
class _Family:
    """The programs of one kernel that differ in extents.

    exact: the lengths that are compiled as numbers; latest: the program of the last one
    differing: the axes that were not the same in all of them
    shares: whether opening such axes makes programs equal
    """

    exact: set[Lengths] = field(default_factory=set[Lengths])
    latest: Program | None = None
    differing: set[ParameterAxis] = field(default_factory=set[ParameterAxis])
    shares: dict[frozenset[ParameterAxis], bool] = field(default_factory=dict[frozenset[ParameterAxis], bool])


@dataclass
class UntilFrequent:
    """Counts calls of code for many lengths: it is right as long as `unchanged` says so, but not for ever.

    counts: whether there is such code; exact: whether there is none any more, for calls are frequent
    weight: what each call counts for
    """

    unchanged: Callable[[], bool] = lambda: True
    counts: bool = False
    exact: bool = False
    calls: int = 0
    weight: int = 1

    def weigh(self, size: int, *, on_gpu: bool) -> None:
        """Let calls count by the bytes that they move."""
        self.weight = 1 + size // BYTES_OF_A_CALL[on_gpu]

    @property
    def frequent(self) -> bool:
        """Return whether there were enough calls with this length to compile code for it alone."""
        return self.calls >= FREQUENT

    def __call__(self) -> bool:
        """Count one call."""
        self.calls += self.weight
        return not self.frequent and self.unchanged()


class VaryingExtents:
    """Remembers the lengths that kernels were compiled for in this process; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._families: OrderedDict[Hashable, _Family] = OrderedDict()

    def opened(self, program: Program, target: Target) -> Opened | None:
        """Return what to compile instead of a program that is one of many lengths; None where it stays as it is."""
        most = current().exact_extents
        if target.kind.on_gpu and find(program.body, lambda op: op.opcode == "dot") is not None:
            return None  # the schedule of products depends on their extents: bulk copies, warp groups, splits
        with self._lock:
            family = self._family(program, target)
            lengths = _lengths(program)
            if lengths in family.exact:
                return None
            for other in family.exact:
                family.differing.update(_differing(program, lengths, other))
            if len(family.exact) < most:
                family.exact.add(lengths)
                family.latest = program
                return None
            axes = frozenset(family.differing)
            if axes not in family.shares:
                family.shares[axes] = family.latest is not None and _equal_when_opened(
                    program, family.latest, axes, target
                )
            return open_extents(program, axes) if family.shares[axes] else None

    def close(self, program: Program, target: Target) -> None:
        """Compile no further lengths of a program's kernel together: the compiler refuses its buckets."""
        with self._lock:
            family = self._family(program, target)
            family.shares = {frozenset(family.differing): False}

    def _family(self, program: Program, target: Target) -> _Family:
        key = (target, _without_extents(program))
        family = self._families.setdefault(key, _Family())
        self._families.move_to_end(key)
        while len(self._families) > _FAMILIES:
            self._families.popitem(last=False)
        return family


def _lengths(program: Program) -> Lengths:
    shapes = [kind.shape for parameter in program.parameters if isinstance(kind := parameter.value.type, Array)]
    return tuple(size if isinstance(size, int) else 0 for shape in shapes for size in shape)


def _differing(program: Program, lengths: Lengths, other: Lengths) -> set[ParameterAxis]:
    """Return the axes of a program's parameters along which two lengths differ."""
    types = [(number, parameter.value.type) for number, parameter in enumerate(program.parameters)]
    axes = [(number, axis) for number, type_ in types if isinstance(type_, Array) for axis in range(len(type_.shape))]
    return {axis for axis, size, before in zip(axes, lengths, other, strict=True) if size != before}


def _equal_when_opened(a: Program, b: Program, axes: frozenset[ParameterAxis], target: Target) -> bool:
    """Return whether two programs are one once these axes are opened, but for the extents of their tiles."""
    opened = [open_extents(program, axes, LONGEST) for program in (a, b)]
    keys = {code_key(variant.program, target) for variant in opened if variant is not None}
    return None not in opened and len(keys) == 1


def _without_extents(program: Program) -> Hashable:
    """Return what programs have in common that differ in extents alone."""
    types = [parameter.value.type for parameter in program.parameters]
    return (
        program.name, program.source.name, program.span,
        tuple((type_.dtype.name, len(type_.shape), type_.contiguous, type_.aligned) if isinstance(type_, Array)
              else str(type_) for type_ in types),
        tuple((op.opcode, op.span) for op in program.body.walk()),
        repr(sorted(program.options.items())),
    )  # fmt: skip
