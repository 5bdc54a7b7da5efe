"""What divides integers, against examples and against brute force."""

import pytest
from hypothesis import assume, given, settings

from lowering.analysis.scalar_programs import SOME_LANES, Execution, WrappedError, scalar_programs
from support.mlir import function, parse
from tessera.core.tile.dialect import shared_context
from tessera.lowering.analysis.divisibility import multiple_of
from tessera.lowering.base.ir_walk import kernel, operations

CONSTANTS = "\n".join(f"%c{n} = arith.constant {n} : i64" for n in (0, 1, 2, 6, 8, 12, 16, 64))


def divisor(lines: str) -> int:
    """The divisor of `%r`."""
    read = '\n%shown = "tessera.shuffle"(%r, %r) {mode = "idx", width = 32 : i64} : (i64, i64) -> i64\nreturn'
    module = parse(function(f"{CONSTANTS}\n{lines}{read}", "%x: i64, %b: i1"))
    (use,) = operations(module, "tessera.shuffle")
    return multiple_of(use.operands[0])


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("%r = arith.constant -24 : i64", 24),
        ("%r = arith.constant 0 : i64", 0),
        ("%r = arith.muli %x, %c12 : i64", 12),
        ("%y = arith.muli %x, %c12 : i64\n%r = arith.addi %y, %c8 : i64", 4),
        ("%y = arith.muli %x, %c12 : i64\n%r = arith.subi %y, %c0 : i64", 12),
        ("%r = arith.shli %x, %c6 : i64", 64),
        ("%r = arith.shli %c6, %x : i64", 1),
        ("%r = arith.select %b, %c16, %c12 : i64", 4),
        ("%r = arith.maxsi %c16, %c64 : i64", 16),
        ("%r = arith.divui %c16, %c8 : i64", 1),
        ("%r = scf.if %b -> i64 {\nscf.yield %c16 : i64\n} else {\nscf.yield %c12 : i64\n}", 4),
        (("%r = scf.for %i = %c0 to %x step %c1 iter_args(%a = %c64) -> (i64) : i64 {\n"
         "%next = arith.addi %a, %c16 : i64\nscf.yield %next : i64\n}"), 16),
        (("%r = scf.for %i = %c16 to %x step %c12 iter_args(%a = %c0) -> (i64) : i64 {\n"
         "%next = arith.addi %a, %i : i64\nscf.yield %next : i64\n}"), 4),
        (("%r = scf.for %i = %c0 to %x step %c1 iter_args(%a = %c64) -> (i64) : i64 {\n"
         "%next = arith.addi %x, %a : i64\nscf.yield %next : i64\n}"), 1),
        (("%r = scf.for %i = %c0 to %x step %c1 iter_args(%a = %c64) -> (i64) : i64 {\n"
         "%in = scf.for %j = %c0 to %x step %c8 iter_args(%d = %a) -> (i64) : i64 {\n"
         "%next = arith.addi %d, %j : i64\nscf.yield %next : i64\n}\nscf.yield %in : i64\n}"), 8),
    ],
)  # fmt: skip
def test_divisors(lines: str, expected: int):
    assert divisor(lines) == expected


@settings(max_examples=60, deadline=None)
@given(scalar_programs())
def test_every_number_is_divided(text: str):
    with shared_context():
        module = parse(text)
        run = Execution(kernel(module))
        divisors = [multiple_of(value) if str(value.type) == "i64" else 1 for value in run.values]
        try:
            for _, trace in run.traces(SOME_LANES):
                for (place, _), number in trace.items():
                    divisor = divisors[place]
                    assert number % divisor == 0 if divisor else number == 0, str(run.values[place])
        except WrappedError:
            assume(condition=False)
