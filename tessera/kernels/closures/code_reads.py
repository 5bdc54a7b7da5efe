"""Names that a code object reads besides its arguments and locals, from its bytecode.

`settings.rate` and `layers["w"]` are read as far as they are spelled out: what else `settings` and `layers` hold does
not matter to such a function.
"""

import dis
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Final, Literal, TypeAlias
from weakref import WeakKeyDictionary

Step: TypeAlias = tuple[Literal["attribute", "item"], object]
"""One step from an object to a part of it: `.rate`, `["w"]`."""

_GLOBAL: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_CELL: Final = frozenset({"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"})
_ATTRIBUTE: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"})
_CONSTANT: Final = frozenset({"LOAD_CONST", "LOAD_SMALL_INT"})
_CONSTANTS: Final[frozenset[type]] = frozenset({
    int, bool, float, complex, str, bytes, tuple, frozenset, slice, type(None), type(...),
})  # fmt: skip
_INDIRECT: Final = frozenset({
    "__dict__", "asdict", "astuple", "attrgetter", "copy", "deepcopy", "fields", "getattr", "hasattr", "replace",
    "vars",
})  # fmt: skip
"""Names whose use means that attributes may be read that no code spells out."""


@dataclass(frozen=True, slots=True)
class Read:
    """A global name or closure variable, and the steps that follow it: `name.attribute["item"]`."""

    name: str
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeReads:
    """Globals, closure variables and attributes that a code object and the functions inside it read.

    variables: names of globals; cells: names of closure variables; imported: modules that it imports when it runs
    attributes: every name that stands after a dot; indirect: attributes may be read under other names, too
    digest: of what the code does: equal for equal text wherever it stands
    """

    variables: tuple[Read, ...]
    cells: tuple[Read, ...]
    imported: tuple[str, ...]
    attributes: frozenset[str]
    indirect: bool
    digest: bytes


_READS: Final["WeakKeyDictionary[CodeType, CodeReads]"] = WeakKeyDictionary()


def code_reads(code: CodeType) -> CodeReads:
    """Return what a function with this code reads, by its instructions and those of functions inside it.

    Variables that the code itself assigns, such as a `global` counter, do not count: they are the function's state.
    """
    reads = _READS.get(code)
    if reads is None:
        reads = _READS[code] = _code_reads(code)
    return reads


def _code_reads(code: CodeType) -> CodeReads:
    variables: dict[Read, None] = {}
    cells: dict[Read, None] = {}
    imported: dict[str, None] = {}
    attributes: set[str] = set()
    assigned: set[tuple[bool, str]] = set()
    for inner in _nested(code):
        outside = frozenset(code.co_freevars).intersection(inner.co_freevars)
        instructions = list(dis.get_instructions(inner))
        for cursor, one in enumerate(instructions):
            name = str(one.argval)
            if one.opname in _ATTRIBUTE or one.opname == "IMPORT_FROM":
                attributes.add(name)
            elif one.opname == "IMPORT_NAME":
                imported[name] = None
            elif one.opname in _GLOBAL:
                variables[Read(name, _steps(instructions, cursor + 1))] = None
            elif one.opname in _CELL and name in outside:
                cells[Read(name, _steps(instructions, cursor + 1))] = None
            elif one.opname == "STORE_GLOBAL" or (one.opname == "STORE_DEREF" and name in outside):
                assigned.add((one.opname == "STORE_GLOBAL", name))
    names = {each.name for each in variables}
    return CodeReads(
        variables=tuple([each for each in variables if (True, each.name) not in assigned]),
        cells=tuple([each for each in cells if (False, each.name) not in assigned]),
        imported=tuple(imported),
        attributes=frozenset(attributes),
        indirect=not _INDIRECT.isdisjoint(attributes | names),
        digest=_digest(code),
    )


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def _steps(instructions: Sequence[dis.Instruction], start: int) -> tuple[Step, ...]:
    """Return the attributes and constant subscripts that are taken of what was loaded just before `start`."""
    steps: list[Step] = []
    cursor = start
    while cursor < len(instructions):
        one = instructions[cursor]
        if one.opname in _ATTRIBUTE:
            steps.append(("attribute", one.argval))
            cursor += 1
        elif one.opname in _CONSTANT and cursor + 1 < len(instructions) and _is_subscript(instructions[cursor + 1]):
            steps.append(("item", one.argval))
            cursor += 2
        else:
            break
    return tuple(steps)


def _is_subscript(one: dis.Instruction) -> bool:
    return one.opname == "BINARY_SUBSCR" or (one.opname == "BINARY_OP" and one.argrepr == "[]")


def _digest(code: CodeType) -> bytes:
    """Return a digest of code that does not depend on where its text stands."""
    constants = [_digest(each) if isinstance(each, CodeType) else _plain(each) for each in code.co_consts]
    flags = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = (code.co_name, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    text = repr((flags, names, constants, code.co_code))
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()


def _plain(constant: object) -> str:
    """Return a constant as text; a cell's code holds the text of its functions, which no instruction refers to."""
    return repr(constant) if type(constant) in _CONSTANTS else type(constant).__name__
