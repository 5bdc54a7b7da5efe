"""Which memories may be the same one."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import programs
from support.mlir import function, parse
from support.tile_cases import row_of
from tessera.core.base.dtypes import f32
from tessera.core.tile.dialect import shared_context
from tessera.lowering.analysis.aliasing import AccessWindow, MemoryClasses, parameter_classes, same_window
from tessera.lowering.analysis.memory_accesses import accesses
from tessera.lowering.base.ir_walk import kernel, operations
from tessera.lowering.tile.to_tile import to_tile

KIND = 'memref<8xf32, "shared">'
BUFFERS = "\n".join(f'%{name} = "tessera.alloc"() : () -> {KIND}' for name in "abcd")


def test_buffers_that_may_be_one_share_a_class():
    module = to_tile(programs.pipeline())
    classes = MemoryClasses(kernel(module))
    buffers = [classes.class_of(op.results[0]) for op in operations(module, "tessera.alloc")]
    chosen = [classes.class_of(op.results[0]) for op in operations(module, "arith.select")]
    assert len(set(buffers + chosen)) == 1
    copy = operations(module, "tessera.copy")[0]
    assert classes.class_of(copy.operands[1]) not in classes.written
    assert classes.class_of(copy.operands[0]) in classes.written


def groups(lines: str) -> str:
    """The classes of four buffers, as letters: "aacd" where the second may be the first."""
    module = parse(function(f"{BUFFERS}\n{lines}\nreturn", "%n: i64, %x: i1"))
    classes = MemoryClasses(kernel(module))
    numbers = [classes.class_of(op.results[0]) for op in operations(module, "tessera.alloc")]
    assert max(numbers) < classes.next_class
    return "".join("abcd"[numbers.index(number)] for number in numbers)


def test_a_loop_that_swaps_joins_and_others_stay_apart():
    loop = f"""
  %r, %s = scf.for %i = %n to %n step %n iter_args(%p = %a, %q = %b) -> ({KIND}, {KIND}) : i64 {{
    scf.yield %q, %p : {KIND}, {KIND}
  }}"""
    assert groups(loop) == "aacd"
    assert groups(loop.replace("%q, %p :", "%p, %q :")) == "abcd"


def test_branches_join_what_they_give():
    assert groups(f"%r = scf.if %x -> {KIND} {{ scf.yield %b : {KIND} }} else {{ scf.yield %d : {KIND} }}") == "abcb"
    assert groups(f"%r = arith.select %x, %c, %d : {KIND}") == "abcc"


def test_a_while_loop_joins_what_it_takes_and_what_it_repeats_with():
    loop = f"""
  %r = scf.while (%p = %a) : ({KIND}) -> {KIND} {{
    scf.condition(%x) %p : {KIND}
  }} do {{
  ^bb0(%q: {KIND}):
    %next = arith.select %x, %q, %c : {KIND}
    scf.yield %next : {KIND}
  }}"""
    assert groups(loop) == "abad"


ROUNDS = 5


@dataclass(frozen=True)
class Store:
    """A store in the loops i and j: along each axis where it begins, a number and the factors of i and j; its extents."""

    starts: tuple[tuple[int, int, int], ...]
    extents: tuple[int, ...]

    def text(self, name: str) -> str:
        """The store, as Tile IR."""
        lines: list[str] = []
        for axis, numbers in enumerate(self.starts):
            c, f, g = (f"%{name}{axis}{part}" for part in "cfg")
            lines += [f"{v} = arith.constant {number} : i64" for v, number in zip((c, f, g), numbers, strict=True)]
            lines += [f"{c}i = arith.muli %i, {f} : i64", f"{c}j = arith.muli {g}, %j : i64"]
            lines += [f"{c}k = arith.addi {c}i, {c}j : i64", f"{c}l = arith.addi {c}, {c}k : i64"]
        rows, columns = self.extents
        kind = f"tensor<{rows}x{columns}xf32>"
        lines += [f"%{name}t = arith.constant dense<0.0> : {kind}"]
        attributes = f'cache = "", dropped = array<i64>, extents = array<i64: {rows}, {columns}>'
        store = f'"tessera.store"(%x, %{name}t, %{name}0cl, %{name}1cl) {{{attributes}, in_bounds = array<i1: false, false>}}'
        lines += [f"{store} : (memref<?x?xf32>, {kind}, i64, i64) -> ()"]
        return "\n".join(lines)

    def begins(self, steps: tuple[int, int], at: tuple[int, int]) -> tuple[int, ...]:
        """Where it begins in the rounds `at`."""
        return tuple(c + f * at[0] * steps[0] + g * at[1] * steps[1] for c, f, g in self.starts)

    def meets(self, other: "Store", begin: tuple[int, ...], there: tuple[int, ...]) -> bool:
        """Whether windows that begin here and there share an element."""
        ends = zip(begin, self.extents, there, other.extents, strict=True)
        return all(a < b + n and b < a + m for a, m, b, n in ends)


@st.composite
def stores(draw: Callable[[st.SearchStrategy[int]], int]) -> Store:
    factor = st.sampled_from([0, 0, 1, 2, 4])
    starts = [(draw(st.integers(0, 6)), draw(factor), draw(factor)) for _ in range(2)]
    extents = [draw(st.sampled_from([1, 2, 4])) for _ in range(2)]
    return Store(tuple(starts), tuple(extents))


def nest(steps: tuple[int, int], *inside: Store) -> str:
    """Two loops around stores."""
    text = "\n".join(store.text(f"s{number}_") for number, store in enumerate(inside))
    s, t = steps
    return function(
        f"""
  %zero = arith.constant 0 : i64
  %s = arith.constant {s} : i64
  %t = arith.constant {t} : i64
  scf.for %i = %zero to %n step %s : i64 {{
    scf.for %j = %zero to %n step %t : i64 {{
      {text}
    }}
  }}
  return""",
        "%x: memref<?x?xf32>, %n: i64",
    )


STEPS = st.tuples(st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4, 8]))
TURNS = list(itertools.product(range(ROUNDS), range(ROUNDS)))


@settings(max_examples=150, deadline=None)
@given(STEPS, stores(), stores())
def test_windows_that_are_disjoint_never_meet(steps: tuple[int, int], one: Store, other: Store):
    with shared_context():
        module = parse(nest(steps, one, other))
        a, b = (AccessWindow.of(access) for access in accesses(module))
        places = [(one.begins(steps, at), other.begins(steps, at)) for at in TURNS]
        if a.is_disjoint(b):
            assert not any(one.meets(other, here, there) for (here, _), (_, there) in itertools.product(places, places))
        if a.is_disjoint_across_iterations():
            pairs = itertools.combinations((here for here, _ in places), 2)
            assert not any(here != there and one.meets(one, here, there) for here, there in pairs)


@pytest.mark.parametrize(
    ("steps", "store", "apart"),
    [
        ((4, 1), Store(((0, 1, 0), (0, 0, 0)), (4, 4)), True),  # a block for each round of i
        ((2, 1), Store(((0, 1, 0), (0, 0, 0)), (4, 4)), False),  # rounds overlap by half
        ((4, 4), Store(((0, 1, 0), (0, 0, 1)), (4, 4)), True),
        ((4, 1), Store(((0, 1, 0), (0, 0, 1)), (4, 4)), False),
        ((4, 8), Store(((0, 1, 1), (0, 0, 0)), (4, 4)), True),  # the same window, or another
        ((4, 6), Store(((0, 1, 1), (0, 0, 0)), (4, 4)), False),  # 12 and 12 are one, but 8 and 6 meet
        ((4, 4), Store(((0, 1, 1), (0, 0, 1)), (4, 2)), True),  # 4 j along the second axis, of which 2 are stored
        ((4, 1), Store(((0, 1, 4), (0, 0, 1)), (4, 2)), False),  # i + 1 and j - 1 are one row, a column apart
    ],
)  # fmt: skip
def test_rounds_of_loops(steps: tuple[int, int], store: Store, apart: bool):
    module = parse(nest(steps, store))
    (access,) = accesses(module)
    assert AccessWindow.of(access).is_disjoint_across_iterations() is apart


def test_windows_of_two_stores():
    one, shifted, half = (Store(((start, 1, 0), (0, 0, 0)), (4, 4)) for start in (0, 4, 2))
    for steps, other, apart in (((8, 1), shifted, True), ((8, 1), half, False), ((4, 1), shifted, False)):
        module = parse(nest(steps, one, other))
        a, b = (AccessWindow.of(access) for access in accesses(module))
        assert a.is_disjoint(b) is apart
        first, second = operations(module, "tessera.store")
        assert not same_window(first, second)
        assert same_window(first, first)


def test_parameters_that_may_be_given_one_array():
    for program, expected in ((programs.matmul(), [0, 1, 2]), (row_of(f32), [0, 0])):
        module = to_tile(program)  # factors are taken to be none of what is written
        assert list(parameter_classes(kernel(module), program).values()) == expected
