"""What a pass changed, by identity: texts and numbers of values do not count."""

from collections import Counter
from dataclasses import replace

from support.mlir import mlir_context  # noqa: F401  # pyright: ignore[reportUnusedImport] - a fixture
from support.programs import matmul, softmax_rows
from tessera.core.lineage import Lineage
from tessera.core.program.program import Program
from tessera.core.record import AttributeData, OpRecord, ValueRecord
from tessera.core.stage_diff import ADDED, CHANGED, KEPT, MOVED, REMOVED, Rewrite, aligned, diff, rewrites
from tessera.core.tile.records import records_of_tile
from tessera.lowering.base.passes import Pass
from tessera.lowering.tile.expand_softmax import ExpandSoftmax
from tessera.lowering.tile.mask_edges import MaskEdges
from tessera.lowering.tile.to_tile import to_tile


def operation(identity: str, parent: str = "", *operands: str, **attributes: AttributeData) -> OpRecord:
    results = (ValueRecord(f"{identity}:0", "f32"),)
    return OpRecord(identity, "op", parent, 0, operands, results, attributes=attributes, numbers=(int(identity[0]),))


def kinds(before: tuple[OpRecord, ...], after: tuple[OpRecord, ...]) -> list[tuple[str, str]]:
    return [(change.id, change.kind) for change in diff(before, after)]


A, B, C, D = (operation(name) for name in "1234")


def test_the_same_is_kept():
    assert kinds((A, B), (A, B)) == [("1", KEPT), ("2", KEPT)]
    assert diff((), ()) == ()


def test_what_comes_and_goes_stands_in_its_place():
    assert kinds((A, B, C), (D, A, C)) == [("4", ADDED), ("1", KEPT), ("2", REMOVED), ("3", KEPT)]
    assert kinds((A, B), (B,)) == [("1", REMOVED), ("2", KEPT)]


def test_as_few_as_possible_have_moved():
    assert kinds((A, B, C, D), (D, A, B, C)) == [("4", MOVED), ("1", KEPT), ("2", KEPT), ("3", KEPT)]


def test_another_parent_is_a_move():
    inner = operation("2", "1")
    assert kinds((A, B), (A, inner)) == [("1", KEPT), ("2", MOVED)]


def test_what_an_operation_says_is_a_change():
    changed = replace(B, attributes={"axis": 1}, operands=("1:0",))
    _, change = diff((A, B), (A, changed))
    assert (change.kind, change.fields, change.moved) == (CHANGED, ("operands", "attributes"), False)
    change, _ = diff((A, B), (changed, A))
    assert (change.id, change.kind) == ("2", CHANGED)


def test_names_of_values_and_places_are_no_change():
    renamed = replace(A, results=(ValueRecord("1:0", "f32", "total"),), spans=())
    assert kinds((A,), (renamed,)) == [("1", KEPT)]
    other = replace(A, results=(ValueRecord("1:0", "f16"),))
    assert diff((A,), (other,))[0].fields == ("results",)


def stages(program: Program, step: Pass):
    module, lineage = to_tile(program), Lineage()
    before = lineage.first(records_of_tile(module, program))
    step.run(module)
    return before, lineage.next(records_of_tile(module, program))


def test_a_pass_that_marks_accesses_changes_these_alone():
    changes = [change for change in diff(*stages(matmul(), MaskEdges())) if change.kind != KEPT]
    assert {(change.after.name, change.kind, change.fields) for change in changes} <= {
        (name, CHANGED, ("attributes",)) for name in ("tessera.load", "tessera.store")
    }


def test_a_pass_that_takes_an_operation_apart():
    before, after = stages(softmax_rows(), ExpandSoftmax())
    count = Counter(change.kind for change in diff(before, after))
    (softmax,) = [record for record in before if record.name == "tessera.softmax"]
    assert count[REMOVED] == 1
    assert count[ADDED] == len(after) - len(before) + 1
    readers = [record.id for record in before if f"{softmax.id}:0" in record.operands]
    assert [change.id for change in diff(before, after) if change.kind == CHANGED] == readers


def test_stages_of_two_compilations_are_aligned_first():
    before, _ = stages(matmul(), MaskEdges())
    program = matmul()
    others = Lineage().first(records_of_tile(to_tile(program), program))
    named = aligned(before, others)
    assert {change.kind for change in diff(before, named)} == {KEPT}
    extra = OpRecord("@9", "arith.negf", others[-1].parent, 0, (), (), numbers=others[-1].numbers)
    assert [change.kind for change in diff(before, aligned(before, (*others, extra))) if change.kind != KEPT] == [ADDED]
    ids = [record.id for record in aligned(before, (*others, extra))]
    assert len(set(ids)) == len(ids)


def test_what_went_and_came_for_the_same_operations_belongs_together():
    old = (A, B, replace(C, numbers=(3,)), D)
    fused = OpRecord("2.1", "fused", numbers=(2, 3))
    parts = (OpRecord("4.1", "part", numbers=(4,)), OpRecord("4.2", "part", numbers=(4,)))
    stranger = OpRecord("kernel.1", "constant")
    found = rewrites(diff(old, (A, fused, *parts, stranger)))
    assert found == (Rewrite((B, C), (fused,)), Rewrite((D,), parts))


def test_two_programs_are_aligned_without_their_numbers():
    first = (A, replace(B, name="other"), C)
    other = tuple(replace(record, numbers=(record.numbers[0] + 7,)) for record in first)
    assert [change.kind for change in diff(first, aligned(first, other))].count(KEPT) == 0
    same = diff(first, aligned(first, other, one_program=False))
    assert [change.kind for change in same] == [KEPT, KEPT, KEPT]
    changed = replace(other[1], attributes={"axis": 1})
    kinds = [
        (change.kind, change.fields)
        for change in diff(first, aligned(first, (other[0], changed, other[2]), one_program=False))
    ]
    assert (CHANGED, ("attributes",)) in kinds
    assert [kind for kind, _ in kinds].count(KEPT) == 2
