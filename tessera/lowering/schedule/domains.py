"""Masks as domains: which blocks of the reduced axis a mask leaves to a block of rows, and which need no mask at all.

A mask is a condition over the row i and the column j.  Where it is a conjunction of bounds of `a * i + b * j`, the
columns of a block of rows are an interval, whose ends are affine in the block's first row: causal, sliding windows,
ragged ends.  Quotients by one number, `j // c <= i // c`, end at multiples of it: documents of one length, attention
that is causal by blocks.  Conditions of another form select in every block that they do not exclude otherwise.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from tessera.core.graph.expr import Apply, Argument, Expr, Literal, walk
from tessera.lowering.schedule.cascades.terms import conditions


@dataclass(frozen=True, slots=True)
class MaskForm:
    """`constant + row * i + column * j + sum(scale * symbol)`; symbols: arguments that are neither."""

    constant: int = 0
    row: int = 0
    column: int = 0
    symbols: tuple[tuple[int, int], ...] = ()

    def plus(self, other: "MaskForm", times: int = 1) -> "MaskForm":
        """Return `self + times * other`."""
        scales = dict(self.symbols)
        for symbol, scale in other.symbols:
            scales[symbol] = scales.get(symbol, 0) + times * scale
        return MaskForm(
            self.constant + times * other.constant,
            self.row + times * other.row,
            self.column + times * other.column,
            tuple(sorted((symbol, scale) for symbol, scale in scales.items() if scale)),
        )

    def scaled(self, by: int) -> "MaskForm":
        """Return the form times a number."""
        return MaskForm().plus(self, by)

    def at(self, row: int, column: int, symbols: "dict[int, int] | None" = None) -> int:
        """Return the value at one row and column; symbols: values of the others."""
        known = symbols or {}
        rest = sum(scale * known[symbol] for symbol, scale in self.symbols)
        return self.constant + self.row * row + self.column * column + rest


@dataclass(frozen=True, slots=True)
class ColumnBound:
    """A bound of j: `j >= n / divisor` (lower), or `j <= n / divisor`, rounded inwards; n is the numerator.

    numerator: affine in i and symbols; divisor: above 0
    quantum: the numerator is rounded down to a multiple of it, to which `offset` is added
    """

    numerator: MaskForm
    divisor: int = 1
    quantum: int = 1
    offset: int = 0

    def dividend(self, symbols: "dict[int, int] | None" = None) -> int:
        """Return what is divided, for a numerator without a row."""
        return self.numerator.at(0, 0, symbols) // self.quantum * self.quantum + self.offset


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks of columns for one block of rows: [first, last) are visited, [full_first, full_last) need no mask."""

    first: int
    last: int
    full_first: int
    full_last: int

    def kind(self, block: int) -> str:
        """Return "empty", "partial" or "full"."""
        if not self.first <= block < self.last:
            return "empty"
        return "full" if self.full_first <= block < self.full_last else "partial"


@dataclass(frozen=True, slots=True)
class Domain:
    """The columns and rows for which a mask holds.

    rows: conditions that do not depend on j, as forms that are at least 0
    others: conditions of another form; where there are any, no block is full
    """

    lower: tuple[ColumnBound, ...] = ()
    upper: tuple[ColumnBound, ...] = ()
    rows: tuple[MaskForm, ...] = ()
    others: tuple[Expr, ...] = ()

    def corner(self, bound: ColumnBound, row: MaskForm, rows: int, *, least: bool) -> ColumnBound:
        """Return `bound` where it is least, or greatest, over the `rows` rows from `row` on.

        row: affine in symbols (and in `row`, if the caller keeps i as the block's first row)
        """
        slope = bound.numerator.row
        first = slope >= 0 if least else slope < 0
        at = row if first else row.plus(MaskForm(rows - 1))
        rest = MaskForm(bound.numerator.constant, 0, bound.numerator.column, bound.numerator.symbols)
        return replace(bound, numerator=rest.plus(at, slope))

    def visited(self, row: MaskForm, rows: int) -> tuple[tuple[ColumnBound, ...], tuple[ColumnBound, ...]]:
        """Return bounds of the columns that some row sees: j is at least each of the first, at most the second."""
        lower = tuple(self.corner(each, row, rows, least=True) for each in self.lower)
        return lower, tuple(self.corner(each, row, rows, least=False) for each in self.upper)

    def full(self, row: MaskForm, rows: int) -> tuple[tuple[ColumnBound, ...], tuple[ColumnBound, ...]] | None:
        """Return bounds of the columns that all of the rows see, where `rows` holds for all of them.

        None where no block is known to be full.
        """
        if self.others:
            return None
        lower = tuple(self.corner(each, row, rows, least=False) for each in self.lower)
        return lower, tuple(self.corner(each, row, rows, least=True) for each in self.upper)

    def blocks(self, row: int, rows: int, width: int, extent: int, symbols: "dict[int, int] | None" = None) -> Blocks:
        """Return the blocks of `width` columns for the rows [row, row + rows), of `extent` columns in all.

        A block that reaches beyond the extent is partial: what is loaded there must not count.
        """
        at = MaskForm(row)
        lower, upper = self.visited(at, rows)
        first, last = _columns(lower, upper, extent, symbols)
        ends = [(each.at(row, 0, symbols), each.at(row + rows - 1, 0, symbols)) for each in self.rows]
        if any(max(each) < 0 for each in ends):
            last = first
        first_block, last_block = first // width, -(-last // width)
        if last <= first:
            return Blocks(0, 0, 0, 0)
        inner = self.full(at, rows)
        if inner is None or any(min(each) < 0 for each in ends):
            return Blocks(first_block, last_block, first_block, first_block)
        full_first, full_last = _columns(*inner, extent, symbols)
        start, end = -(-full_first // width), full_last // width
        start = min(max(start, first_block), last_block)
        return Blocks(first_block, last_block, start, max(start, min(end, last_block)))


def _columns(
    lower: Iterable[ColumnBound], upper: Iterable[ColumnBound], extent: int, symbols: "dict[int, int] | None"
) -> tuple[int, int]:
    """Return the columns [first, last) of numeric bounds."""
    first, last = 0, extent
    for bound in lower:
        first = max(first, -(-bound.dividend(symbols) // bound.divisor))
    for bound in upper:
        last = min(last, bound.dividend(symbols) // bound.divisor + 1)
    return first, max(first, last)


@dataclass
class _Found:
    lower: list[ColumnBound] = field(default_factory=list[ColumnBound])
    upper: list[ColumnBound] = field(default_factory=list[ColumnBound])
    rows: list[MaskForm] = field(default_factory=list[MaskForm])
    others: list[Expr] = field(default_factory=list[Expr])


def domain(indicator: Expr | None, row: int, column: int, symbols: Sequence[int] = ()) -> Domain:
    """Return the domain of a mask; row, column: the arguments that are i and j, symbols: others that do not vary.

    None stands for a mask that always holds.
    """
    found = _Found()
    known = {row: "row", column: "column", **dict.fromkeys(symbols, "symbol")}
    for condition in conditions(indicator) if indicator is not None else ():
        forms = _at_least_zero(condition, known)
        for form in forms or ():
            _sort(form, found)
        if forms is None and not _sort_quotients(condition, known, found):
            found.others.append(condition)
    return Domain(tuple(found.lower), tuple(found.upper), tuple(found.rows), tuple(found.others))


def common_indicator(indicators: Sequence[Expr | None]) -> tuple[Expr, ...]:
    """Return the conditions that all indicators share: the loop may leave out what fails one of them."""
    if not indicators or any(each is None for each in indicators):
        return ()
    sets = [conditions(each) for each in indicators if each is not None]
    return tuple(each for each in sets[0] if all(each in other for other in sets[1:]))


def _sort(form: MaskForm, found: _Found) -> None:
    """Add `form >= 0` as a bound of j."""
    rest = MaskForm(form.constant, form.row, 0, form.symbols)
    if form.column > 0:
        found.lower.append(ColumnBound(rest.scaled(-1), form.column))
    elif form.column < 0:
        found.upper.append(ColumnBound(rest, -form.column))
    else:
        found.rows.append(form)


def _sort_quotients(condition: Expr, known: dict[int, str], found: _Found) -> bool:
    """Add the bounds of j that `f(j) // c <= g(i) // c` says, likewise for `<` and `==`; return whether there are any.

    f(j) // c <= g(i) // c  is  f(j) <= n + c - 1, where n is g(i) rounded down to a multiple of c, and
    g(i) // c <= f(j) // c  is  f(j) >= n
    """
    if not isinstance(condition, Apply) or condition.opcode != "cmp" or condition.predicate == "ne":
        return False
    a, b = (_quotient(each, known) for each in condition.operands)
    if a is None or b is None or a[1] != b[1]:
        return False
    if condition.predicate in ("gt", "ge"):
        a, b = b, a
    strict = a[1] if condition.predicate in ("lt", "gt") else 0
    pairs = [(a[0], b[0])] if condition.predicate != "eq" else [(a[0], b[0]), (b[0], a[0])]
    sides: list[tuple[list[ColumnBound], ColumnBound]] = []
    for lesser, greater in pairs:
        of_column, of_row = (lesser, greater) if lesser.column else (greater, lesser)
        if of_column.row or of_row.column or of_column.symbols or of_column.column <= 0:
            return False
        offset = a[1] - 1 - strict if of_column is lesser else strict
        bound = ColumnBound(of_row, of_column.column, a[1], offset - of_column.constant)
        sides.append((found.upper if of_column is lesser else found.lower, bound))
    for side, bound in sides:
        side.append(bound)
    return True


def _quotient(expr: Expr, known: dict[int, str]) -> tuple[MaskForm, int] | None:
    """Return (f, c) for `f // c` with an affine f and a number c above 1; None for anything else."""
    if not isinstance(expr, Apply) or expr.opcode != "floordiv" or not isinstance(expr.operands[1], Literal):
        return None
    form, by = affine(expr.operands[0], known), int(expr.operands[1].value)
    return None if form is None or by < 2 else (form, by)


def _at_least_zero(condition: Expr, known: dict[int, str]) -> tuple[MaskForm, ...] | None:
    """Return forms that are all at least 0 exactly where the condition holds; None where there are none."""
    if not isinstance(condition, Apply):
        return None
    if condition.opcode == "not":
        inner = condition.operands[0]
        opposite = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "ne": "eq"}
        if not isinstance(inner, Apply) or inner.opcode != "cmp" or inner.predicate not in opposite:
            return None
        flipped = Apply("cmp", inner.operands, inner.dtype, opposite[inner.predicate])
        return _at_least_zero(flipped, known)
    if condition.opcode != "cmp" or not condition.operands[0].dtype.is_integer:
        return None
    return _comparison(condition, known)


def _comparison(condition: Apply, known: dict[int, str]) -> tuple[MaskForm, ...] | None:
    a, b = condition.operands
    if condition.predicate in ("gt", "ge"):
        a, b = b, a
    strict = 1 if condition.predicate in ("lt", "gt") else 0
    if condition.predicate == "ne":
        return None
    lesser, greater = _forms(a, known), affine(b, known)
    if greater is None or lesser is None:
        return None
    least = tuple(greater.plus(each, -1).plus(MaskForm(-strict)) for each in lesser)
    if condition.predicate != "eq":
        return least
    return (*least, least[0].scaled(-1)) if len(least) == 1 else None


def _forms(expr: Expr, known: dict[int, str]) -> tuple[MaskForm, ...] | None:
    """Return forms whose maximum `expr` is: a form, or those of abs and max."""
    if isinstance(expr, Apply) and expr.opcode in ("abs", "max"):
        found: list[MaskForm] = []
        for operand in expr.operands:
            forms = _forms(operand, known) if expr.opcode == "max" else _both_signs(operand, known)
            if forms is None:
                return None
            found += forms
        return tuple(found)
    form = affine(expr, known)
    return None if form is None else (form,)


def _both_signs(expr: Expr, known: dict[int, str]) -> tuple[MaskForm, ...] | None:
    form = affine(expr, known)
    return None if form is None else (form, form.scaled(-1))


def affine(expr: Expr, known: dict[int, str]) -> MaskForm | None:
    """Return an integer expression as an affine form; None where it is none."""
    done: dict[Expr, MaskForm | None] = {}
    for each in walk(expr):
        done[each] = _affine(each, done, known)
    return done[expr]


def _affine(expr: Expr, done: dict[Expr, MaskForm | None], known: dict[int, str]) -> MaskForm | None:
    if isinstance(expr, Literal):
        return MaskForm(int(expr.value)) if expr.dtype.is_integer else None
    if isinstance(expr, Argument):
        return _argument(expr, known)
    operands = [done[each] for each in expr.operands]
    forms = [each for each in operands if each is not None]
    if len(forms) < len(operands) or not expr.dtype.is_integer:
        return None
    if expr.opcode == "cast" and expr.operands[0].dtype.bits <= expr.dtype.bits:
        return forms[0]
    if expr.opcode in ("add", "sub"):
        return forms[0].plus(forms[1], 1 if expr.opcode == "add" else -1)
    if expr.opcode == "neg":
        return forms[0].scaled(-1)
    if expr.opcode == "mul":
        for one, two in (forms, forms[::-1]):
            if one == MaskForm(one.constant):
                return two.scaled(one.constant)
    return None


def _argument(expr: Argument, known: dict[int, str]) -> MaskForm | None:
    what = known.get(expr.number)
    if what == "row":
        return MaskForm(0, 1)
    if what == "column":
        return MaskForm(0, 0, 1)
    return MaskForm(0, 0, 0, ((expr.number, 1),)) if what == "symbol" else None
