"""Which operation is which, and what became of the others."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.core.errors.catalog import NothingToShow
from tessera.core.listing import Line, Listing
from tessera.core.record import OpRecord, ValueRecord
from tessera.core.stage import Stage
from tessera.session.compiled import Compiled
from tessera.viz.stage_alignment.align import Related, compare
from tessera.viz.stage_alignment.changes import Comparison
from tests.viz.diffs import kernels


def stage(*records: OpRecord, prefix: str = "%") -> Stage:
    """A stage of Tile IR, a line a record; values are called by `prefix` and the place of their line."""
    names = {value.id: f"{prefix}{place}" for place, record in enumerate(records) for value in record.results}
    lines = tuple(
        Line(f"{names.get(f'{r.id}:0', '')} = {r.name} {' '.join(names.get(o, o) for o in r.operands)}", (), r.numbers, r.id)
        for r in records
    )  # fmt: skip
    return Stage("tile", "", None, Listing("tile", "", lines), records)


def op(number: int, name: str = "f", *operands: int) -> OpRecord:
    values = tuple(f"{operand}:0" for operand in operands)
    return OpRecord(str(number), name, "", 0, values, (ValueRecord(f"{number}:0", "f32"),), numbers=(number,))


def accounted(one: Comparison, before: int, after: int) -> None:
    """Every line is in one row, and each change's lines are told by the rows of its number alone."""
    assert sorted(row.before for row in one.rows if row.before >= 0) == list(range(before))
    assert sorted(row.after for row in one.rows if row.after >= 0) == list(range(after))
    for side in ("before", "after"):
        told = Counter(line for change in one.changes for line in getattr(change, side))
        assert set(told.values()) <= {1}
        numbers = {
            getattr(row, side): getattr(row, f"changed_{side}")
            for row in one.rows
            if getattr(row, f"changed_{side}") >= 0
        }
        assert set(numbers) == set(told)
        assert all(line in getattr(one.changes[number], side) for line, number in numbers.items())


@given(st.permutations(range(8)), st.sampled_from(list(Related)))
def test_other_names_and_another_order_are_moves_alone(order: list[int], related: Related):
    records = [op(number, f"f{number % 3}", *([number - 4] if number >= 4 else [])) for number in range(8)]
    renumbered = [records[place] for place in order]
    one = compare(stage(*records), stage(*renumbered, prefix="%v"), related)
    if related is not Related.NOT:  # where values come before what computes them, their numbers help
        assert {change.kind for change in one.changes} <= {"moved"}
        assert one.kept + len(one.changes) == 8
    accounted(one, 8, 8)


@given(st.lists(st.integers(0, 9), unique=True), st.lists(st.integers(0, 9), unique=True))
def test_every_record_is_accounted_for_once(old: list[int], new: list[int]):
    one = compare(stage(*map(op, old)), stage(*map(op, new)), Related.COMPILATION)
    both = len(set(old) & set(new))
    kinds = Counter(change.kind for change in one.changes)
    assert kinds["added"] == len(new) - both
    assert kinds["removed"] == len(old) - both
    assert kinds["moved"] + one.kept == both
    accounted(one, len(old), len(new))


def test_replaced_fused_and_split():
    made = replace(op(1, "g"), id="1.1", results=(ValueRecord("1.1:0", "f32"),))
    follower = replace(op(2, "use"), operands=("1:0",))
    after = replace(follower, operands=("1.1:0",))
    one = compare(stage(op(1), follower), stage(made, after), Related.COMPILATION)
    (change,) = one.changes  # what uses the value is no change of its own
    assert (change.kind, change.fields, change.words) == ("changed", ("name",), "f became g")
    fma = OpRecord("3.1", "fma", numbers=(3, 4))
    one = compare(stage(op(3, "mul"), op(4, "add")), stage(fma), Related.COMPILATION)
    assert [(each.kind, each.words, each.before, each.after) for each in one.changes] == [
        ("fused", "mul, add became fma", (0, 1), (0,))
    ]
    parts = [OpRecord(f"5.{n}", name, numbers=(5,)) for n, name in enumerate(("max", "sub", "exp"), 1)]
    one = compare(stage(op(5, "softmax")), stage(*parts), Related.COMPILATION)
    assert [(each.kind, each.before, each.after) for each in one.changes] == [("split", (0,), (0, 1, 2))]


def test_equal_constants_are_one_value_and_others_are_not():
    def constant(identity: str, value: int) -> OpRecord:
        return OpRecord(
            identity, "arith.constant", "", 0, (), (ValueRecord(f"{identity}:0", "i64"),), (), {"value": value}
        )

    def using(identity: str) -> OpRecord:
        return replace(op(1, "use"), operands=(f"{identity}:0",))

    zero = constant("kernel.1", 0)
    one = compare(
        stage(zero, using("kernel.1")), stage(constant("kernel.2", 0), using("kernel.2")), Related.COMPILATION
    )
    assert {change.name for change in one.changes} == {"arith.constant"}
    one = compare(
        stage(zero, using("kernel.1")), stage(constant("kernel.2", 7), using("kernel.2")), Related.COMPILATION
    )
    assert [change.fields for change in one.changes if change.name == "use"] == [("operands",)]


def test_levels_must_be_the_same():
    with pytest.raises(NothingToShow, match="'tile' and 'ptx' are different levels"):
        compare(stage(op(1)), Stage("ptx", ""), Related.PROGRAM)


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    return kernels.product.compile(*kernels.arguments(), target="cpu")


def stages(compiled: Compiled) -> dict[str, Stage]:
    return {one.name or one.level: one for one in compiled.stages if one.listing is not None}


def test_distributing_loops_moves_their_bodies_and_splits_them(compiled: Compiled):
    found = stages(compiled)
    one = compare(found["tile-mask-edges"], found["tile-distribute-ranges"], Related.COMPILATION)
    assert one.told == "1 changed, 2 moved, 2 split"
    said = [(each.kind, each.name) for each in one.changes if each.listed]
    assert said == [
        ("changed", "func.func"), ("split", "scf.for"), ("split", "scf.for"), ("moved", "scf.for"), ("moved", "tessera.store"),
    ]  # fmt: skip
    accounted(one, len(one.before), len(one.after))


def test_marking_accesses_changes_what_they_say(compiled: Compiled):
    found = stages(compiled)
    one = compare(found["tile-simplify-2"], found["tile-place-values"], Related.COMPILATION)
    assert set(one.counts) - {kind for kind, count in one.counts.items() if not count} == {"changed"}
    dot = next(each for each in one.changes if each.name == "tessera.dot")
    text = one.after[dot.after[0]].text
    assert [text[a:b] for a, b in dot.marks_after] == ["scratch replaces 0"]
    accounted(one, len(one.before), len(one.after))


@pytest.mark.parametrize("level", ["tile", "target", "llvm", "asm"])
def test_a_stage_is_the_same_as_itself(compiled: Compiled, level: str):
    last = compiled.stage(level)
    other = replace(last)
    one = compare(last, other, Related.PROGRAM)
    assert (one.told, len(one.rows)) == ("no changes", len(last.lines))
    accounted(one, len(last.lines), len(last.lines))


def test_another_tile_size_in_every_level(compiled: Compiled):
    other = kernels.product.variant(BK=64).compile(*kernels.arguments(), target="cpu")
    for level in ("target", "llvm", "asm"):
        one = compare(compiled.stage(level), other.stage(level), Related.PROGRAM)
        accounted(one, len(one.before), len(one.after))
        assert one.kept > 0
        assert one.told != "no changes"
