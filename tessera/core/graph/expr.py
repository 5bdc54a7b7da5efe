"""Scalar expressions: the bodies of `map` nodes, and the algebra that fused reductions are derived from.

An expression is an immutable tree over numbered arguments.  Operations are those of a Program (`program/spec.py`),
with the same meaning, and every expression knows its dtype.
"""

import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, TypeAlias
from typing import cast as cast_type

from tessera.core.base.dtypes import DType, boolean
from tessera.core.program.spec import BINARY, PREDICATES, UNARY

Number: TypeAlias = int | float | bool

_MOST_KNOWN: Final = 1 << 12
"""Expressions of which it is remembered what is in them: rules and passes ask for the same ones again and again."""

OPCODES: Final = frozenset({*BINARY, *UNARY, "fma", "cmp", "select", "cast"})
"""The operations of expressions: those of a Program that work element by element."""


@dataclass(frozen=True, slots=True)
class Argument:
    """Argument `number` of the expression: the element of an operand."""

    number: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class Literal:
    """A number."""

    value: Number
    dtype: DType

    def __hash__(self) -> int:
        return hash((repr(self.value), self.dtype.name))

    def __eq__(self, other: object) -> bool:
        # 0.0 and -0.0 are two literals, and a NaN is one.
        return isinstance(other, Literal) and (repr(self.value), self.dtype) == (repr(other.value), other.dtype)


@dataclass(frozen=True, slots=True)
class Apply:
    """An operation on expressions.  predicate: of `cmp`, as in a Program."""

    opcode: str
    operands: tuple["Expr", ...]
    dtype: DType
    predicate: str = ""
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        key = (self.opcode, self.predicate, self.dtype.name, self.operands)
        object.__setattr__(self, "_hash", hash(key))

    def __hash__(self) -> int:
        return self._hash  # kept: expressions are keys of tables, and the trees are deep

    def __eq__(self, other: object) -> bool:
        """Compare each two shared parts once: as trees, ten rounds of a generator of random bits have no end."""
        if self is other or not isinstance(other, Apply) or self._hash != other._hash:
            return self is other
        waiting: list[tuple[Expr, Expr]] = [(self, other)]
        seen: set[tuple[int, int]] = set()
        while waiting:
            a, b = waiting.pop()
            if a is b or (id(a), id(b)) in seen:
                continue
            if not isinstance(a, Apply) or not isinstance(b, Apply):
                if a != b:
                    return False
                continue
            mine, theirs = (a._hash, a.opcode, a.dtype, a.predicate), (b._hash, b.opcode, b.dtype, b.predicate)
            if mine != theirs or len(a.operands) != len(b.operands):
                return False
            seen.add((id(a), id(b)))
            waiting += zip(a.operands, b.operands, strict=True)
        return True


Expr: TypeAlias = Argument | Literal | Apply


def apply(opcode: str, *operands: Expr, predicate: str = "") -> Expr:
    """Return `opcode` of `operands`, which have one dtype (but for the condition of `select`).

    Raises ValueError for operands that do not fit; `tracing` promotes before it comes here.
    """
    if opcode not in OPCODES or opcode == "cast":
        raise ValueError(f"{opcode} is no operation of expressions")
    if opcode == "cmp" and predicate not in PREDICATES:
        raise ValueError(f"cmp has no predicate {predicate!r}")
    compared = operands[1:] if opcode == "select" else operands
    if len({operand.dtype for operand in compared}) != 1:
        raise ValueError(f"{opcode} of {', '.join(str(operand.dtype) for operand in operands)}")
    if opcode == "select" and operands[0].dtype != boolean:
        raise ValueError(f"the condition of select is {operands[0].dtype}, not bool")
    dtype = boolean if opcode == "cmp" else compared[0].dtype
    return Apply(opcode, operands, dtype, predicate)


def cast(operand: Expr, dtype: DType) -> Expr:
    """Return `operand` converted to `dtype`; itself where it has it."""
    return operand if operand.dtype == dtype else Apply("cast", (operand,), dtype)


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield every expression in `expr` once, operands before what is made of them."""
    return iter((expr,) if not isinstance(expr, Apply) else _walked(expr))


@lru_cache(_MOST_KNOWN)
def _walked(expr: Expr) -> tuple[Expr, ...]:
    return tuple(_walk(expr))


def _walk(expr: Expr) -> Iterator[Expr]:
    seen: set[Expr] = set()
    stack: list[tuple[Expr, bool]] = [(expr, False)]
    while stack:
        each, ready = stack.pop()
        if each in seen:
            continue
        if ready or not isinstance(each, Apply):
            seen.add(each)
            yield each
        else:
            stack.append((each, True))
            stack += [(operand, False) for operand in reversed(each.operands)]


def arguments(expr: Expr) -> tuple[int, ...]:
    """Return the numbers of the arguments that `expr` uses, in rising order."""
    return tuple(sorted({each.number for each in walk(expr) if isinstance(each, Argument)}))


def substitute(expr: Expr, values: Mapping[int, Expr]) -> Expr:
    """Return `expr` with arguments replaced by expressions; arguments that `values` lacks stay."""
    done: dict[Expr, Expr] = {}
    for each in walk(expr):
        if isinstance(each, Argument):
            done[each] = values.get(each.number, each)
        elif isinstance(each, Apply):
            operands = tuple([done[operand] for operand in each.operands])
            same = all(a is b for a, b in zip(operands, each.operands, strict=True))
            done[each] = each if same else Apply(each.opcode, operands, each.dtype, each.predicate)
        else:
            done[each] = each
    return done[expr]


def fold(expr: Expr, leaf: Callable[[Argument | Literal], object], node: Callable[..., object]) -> object:
    """Return what `leaf` gives of leaves, combined by `node(apply, *operands)`; each expression is asked for once."""
    done: dict[Expr, object] = {}
    for each in walk(expr):
        operands = [done[operand] for operand in each.operands] if isinstance(each, Apply) else []
        done[each] = node(each, *operands) if isinstance(each, Apply) else leaf(each)
    return done[expr]


MOST_SHOWN: Final = 64
"""Operations of an expression that is written out, shared ones as often as they are used."""
_SYMBOLS: Final = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "and": "&", "or": "|", "xor": "^",
    "shl": "<<", "shr": ">>",
}  # fmt: skip
_COMPARISONS: Final = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


def to_text(expr: Expr, names: Sequence[str] = ()) -> str:
    """Return `expr` as people write it; names: of its arguments, `x0`, `x1`, ... where there are none.

    Of a long one, such as ten rounds of a generator of random bits, only how long it is and a checksum.
    """
    if _length(expr) > MOST_SHOWN:
        operations = sum(isinstance(each, Apply) for each in walk(expr))
        used = ", ".join(names[n] if n < len(names) else f"x{n}" for n in arguments(expr))
        return f"{operations} operations of {used} (#{_checksum(expr):08x})"

    def leaf(each: Argument | Literal) -> str:
        if isinstance(each, Literal):
            return _number(each.value)
        return names[each.number] if each.number < len(names) else f"x{each.number}"

    def node(each: Apply, *operands: str) -> str:
        if each.opcode in _SYMBOLS:
            return f"({operands[0]} {_SYMBOLS[each.opcode]} {operands[1]})"
        if each.opcode == "cmp":
            return f"({operands[0]} {_COMPARISONS[each.predicate]} {operands[1]})"
        if each.opcode == "neg":
            # A literal is no negative one: -(3.0) is not -3.0.
            return f"-({operands[0]})" if isinstance(each.operands[0], Literal) else f"-{operands[0]}"
        return f"{each.dtype.name if each.opcode == 'cast' else each.opcode}({', '.join(operands)})"

    return str(fold(expr, leaf, node))


def _length(expr: Expr) -> int:
    """Return how many operations are written out: shared ones as often as they are used."""

    def node(_: Apply, *operands: int) -> int:
        return 1 + sum(operands)

    return cast_type("int", fold(expr, lambda _: 0, node))


def _checksum(expr: Expr) -> int:
    """Return a number that tells long expressions apart, the same in every run."""
    places: dict[Expr, int] = {}
    lines: list[str] = []
    for each in walk(expr):
        places[each] = len(places)
        if isinstance(each, Apply):
            operands = [places[operand] for operand in each.operands]
            lines.append(f"{each.opcode} {each.predicate} {each.dtype.name} {operands}")
        else:
            lines.append(repr(each))
    return zlib.crc32("\n".join(lines).encode())


def _number(value: Number) -> str:
    if not isinstance(value, float):
        return str(value)
    if value.is_integer() and abs(value) < 2**53:
        return f"{int(value)}.0" if math.copysign(1, value) > 0 or value else "-0.0"
    return repr(value)
