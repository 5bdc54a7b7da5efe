"""Operations as data: what a view, a diff or a graph of any level is made of, without MLIR.

An operation has an identity of its own in every stage of a compilation.  Operations of the Program are numbered once,
from 0; an operation that stands for number 17 is `17`, and what passes make of it is `17.1`, `17.2`, ... (see
`tessera.core.lineage`).  The function, and what belongs to no operation of the Program, begin with `kernel`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tessera.core.base.source import Span

KERNEL: Final = "kernel"
"""The identity of the function, and the first part of that of whatever stands for no operation of the Program."""

_SHAPE: Final = re.compile(r"[<(\[]\s*((?:(?:\d+|\?|\w+)\s*x\s*)+)")
_EXTENT: Final = re.compile(r"\s*x\s*")


@dataclass(frozen=True, slots=True)
class Verbatim:
    """An attribute that is none of Python's values: its text, as MLIR prints it."""

    text: str


AttributeData = int | float | bool | str | Verbatim | tuple["AttributeData", ...]


@dataclass(frozen=True, slots=True)
class ValueRecord:
    """A value: the result of an operation or the argument of a region.

    id: what operands refer to: `17:0` is the first result of 17, `17^0.1` the second argument of its first region
    type: as the level prints it, `tile<64x32xf16>`; name: the user's variable, or nothing
    """

    id: str
    type: str = ""
    name: str = ""

    @property
    def shape(self) -> tuple[int | str, ...]:
        """The extents that the type says: numbers, and symbols or `?`; empty for scalars."""
        found = _SHAPE.search(self.type)
        extents = _EXTENT.split(found[1].strip())[:-1] if found is not None else []
        return tuple(int(extent) if extent.isdecimal() else extent for extent in extents)


@dataclass(frozen=True, slots=True)
class OpRecord:
    """One operation of one stage.

    name: `tessera.load`, `llvm.add`, `HGMMA.64x128x16.F32`
    parent, region: the operation it stands in ("" for the outermost), and in which of its regions
    operands: identities of values, see `ValueRecord`; where a level has no values, registers as they are printed
    arguments: of each region that is not empty
    attributes: by name; what passes decided begins with `tessera.`
    spans: places of the user's text; numbers: the operations of the Program that it stands for
    origin: identities, in the stage before, of what it was made of; empty where it was there already, and for what the
            compiler made of nothing
    """

    id: str
    name: str
    parent: str = ""
    region: int = 0
    operands: tuple[str, ...] = ()
    results: tuple[ValueRecord, ...] = ()
    arguments: tuple[tuple[ValueRecord, ...], ...] = ()
    attributes: Mapping[str, AttributeData] = field(default_factory=dict[str, AttributeData])
    spans: tuple[Span, ...] = ()
    numbers: tuple[int, ...] = ()
    origin: tuple[str, ...] = ()

    @property
    def row(self) -> "Row":
        """The record as plain tuples, which cost less to pickle and to compare; see `of_row`."""
        return (
            self.id, self.name, self.parent, self.region, self.operands,
            tuple([(value.type, value.name) for value in self.results]),
            tuple([tuple([(value.type, value.name) for value in region]) for region in self.arguments]),
            tuple(self.attributes.items()), self.spans, self.numbers, self.origin,
        )  # fmt: skip


Row = tuple[
    str, str, str, int, tuple[str, ...], tuple[tuple[str, str], ...], tuple[tuple[tuple[str, str], ...], ...],
    tuple[tuple[str, AttributeData], ...], tuple[Span, ...], tuple[int, ...], tuple[str, ...],
]  # fmt: skip
"""A record as plain tuples: the fields of `OpRecord`, values without their identities."""


def of_row(row: Row) -> OpRecord:
    """Return the record that `OpRecord.row` wrote."""
    identity, name, parent, region, operands, results, arguments, attributes, spans, numbers, origin = row
    return OpRecord(
        identity, name, parent, region, operands,
        tuple([ValueRecord(result_id(identity, n), *value) for n, value in enumerate(results)]),
        tuple([
            tuple([ValueRecord(argument_id(identity, r, n), *value) for n, value in enumerate(values)])
            for r, values in enumerate(arguments)
        ]),
        dict(attributes), spans, numbers, origin,
    )  # fmt: skip


def result_id(op: str, number: int) -> str:
    """The identity of a result of an operation."""
    return f"{op}:{number}"


def argument_id(op: str, region: int, number: int) -> str:
    """The identity of an argument of a region of an operation."""
    return f"{op}^{region}.{number}"
