"""Identities through all passes: unique in a stage, kept by what stays, and derived from what was there before."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from support.mlir import mlir_context  # noqa: F401  # pyright: ignore[reportUnusedImport] - a fixture
from support.programs import fused_mlp, group_sum, matmul, saxpy, softmax_rows
from support.random_programs import Case, cases
from tessera.core.lineage import Lineage, match
from tessera.core.program.program import Program
from tessera.core.record import KERNEL, AttributeData, OpRecord, ValueRecord
from tessera.core.targets import TARGETS
from tessera.core.tile.dialect import shared_context
from tessera.core.tile.records import records_of_tile
from tessera.lowering.driver.pipelines import tile_passes
from tessera.lowering.tile.expand_softmax import ExpandSoftmax
from tessera.lowering.tile.to_tile import to_tile

Stage = tuple[OpRecord, ...]


def stages(program: Program, target: str) -> list[tuple[str, Stage]]:
    """What each pass left, with identities."""
    module, lineage = to_tile(program), Lineage()
    found = [("to-tile", lineage.first(records_of_tile(module, program)))]
    for step in tile_passes(TARGETS[target]):
        step.run(module)
        found.append((step.name, lineage.next(records_of_tile(module, program))))
    return found


def operation(
    identity: str, name: str, numbers: tuple[int, ...], *operands: str, **attributes: AttributeData
) -> OpRecord:
    results = (ValueRecord(f"{identity}:0", "f32"),)
    return OpRecord(identity, name, operands=operands, results=results, attributes=attributes, numbers=numbers)


def check_stage(stage: Stage) -> None:
    """Identities are unique, and what refers to one refers to something of this stage."""
    ids = [record.id for record in stage]
    assert [identity for identity, count in Counter(ids).items() if count > 1] == []
    assert {record.parent for record in stage} <= {*ids, ""}
    values = [v.id for r in stage for v in (*r.results, *(a for region in r.arguments for a in region))]
    assert len(set(values)) == len(values)
    assert {operand for record in stage for operand in record.operands} <= set(values)
    for record in stage:
        base = record.id.partition(".")[0]
        assert base == (str(record.numbers[0]) if record.numbers else KERNEL) or record.name == "func.func"


def check_step(before: Stage, after: Stage, seen: set[str]) -> None:
    """What is new is made of something that was there, and has an identity that nothing had."""
    known = {record.id for record in before}
    for record in after:
        assert set(record.origin) <= known
        if record.id in known:
            assert record.origin == ()
        else:
            assert record.id not in seen
            made_of = {number for one in before if one.id in record.origin for number in one.numbers}
            assert bool(record.origin) == bool(made_of & set(record.numbers))
    seen |= {record.id for record in after}


def said(record: OpRecord) -> object:
    return (record.name, record.numbers, tuple(v.type for v in record.results), repr(sorted(record.attributes.items())))


def check_untouched(before: Stage, after: Stage) -> None:
    """What says the same as nothing else in its stage is the same operation."""
    once = [{s: r for r in stage if Counter(map(said, stage))[s := said(r)] == 1} for stage in (before, after)]
    for key in once[0].keys() & once[1].keys():
        assert once[0][key].id == once[1][key].id, key


def check(program: Program) -> None:
    for target in ("cpu", "cuda", "cuda_tile"):
        found = [stage for _, stage in stages(program, target)]
        numbers = {str(number) for number, _ in enumerate(program.body.walk())} | {KERNEL}
        seen: set[str] = set()
        for record in found[0]:
            assert set(record.origin) <= numbers
        for number, stage in enumerate(found):
            check_stage(stage)
            if number:
                check_step(found[number - 1], stage, seen)
                check_untouched(found[number - 1], stage)
            seen |= {record.id for record in stage}


@pytest.mark.parametrize("make", [saxpy, group_sum, matmul, softmax_rows, fused_mlp])
def test_identities_of_our_programs(make: Callable[..., Program]):
    check(make())


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(cases())
def test_identities_of_any_program(case: Case):
    with shared_context():
        check(case.program)


def test_a_pass_that_does_nothing_keeps_all():
    program = matmul()
    module, lineage = to_tile(program), Lineage()
    before = lineage.first(records_of_tile(module, program))
    assert lineage.next(records_of_tile(module, program)) == tuple(replace(record, origin=()) for record in before)
    assert lineage.counts == Counter(r.id.partition(".")[0] for r in before if "." in r.id)


def test_operations_of_the_program_keep_their_numbers():
    program = saxpy()
    first = stages(program, "cpu")[0][1]
    named = {record.id: record.name for record in first}
    numbers = {str(number): op.opcode for number, op in enumerate(program.body.walk())}
    assert named[KERNEL] == "func.func"
    assert {numbers[identity]: named[identity] for identity in numbers if identity in named} == {
        "id": "tessera.id", "dim": "tessera.dim", "cmp": "arith.cmpi", "if": "scf.if", "read": "tessera.read",
        "mul": "arith.mulf", "add": "arith.addf", "write": "tessera.write", "yield": "scf.yield",
    }  # fmt: skip


def test_what_becomes_several_has_its_origin():
    program = softmax_rows()
    module, lineage = to_tile(program), Lineage()
    before = lineage.first(records_of_tile(module, program))
    (softmax,) = [record for record in before if record.name == "tessera.softmax"]
    ExpandSoftmax().run(module)
    after = lineage.next(records_of_tile(module, program))
    made = [record for record in after if softmax.id in record.origin]
    assert softmax.id not in {record.id for record in after}
    assert [record.id for record in made] == [f"{softmax.id}.{number}" for number in range(1, len(made) + 1)]
    assert made[-1].name == "arith.mulf"
    assert [record for record in after if record not in made] != []


def test_a_changed_attribute_is_no_new_operation():
    before = (operation("5", "load", (5,), cache=""), operation("6", "add", (6,), "5:0"))
    after = (operation("@0", "load", (5,), cache="stream"), operation("@1", "add", (6,), "@0:0"))
    assert match(before, after) == [0, 1]


def test_equal_operations_are_told_apart_by_what_they_are_computed_from():
    before = (
        operation("1", "id", (1,)), operation("2", "id", (2,)),
        operation("3.1", "mul", (3,), "1:0"), operation("3.2", "mul", (3,), "2:0"),
    )  # fmt: skip
    after = (operation("@0", "id", (2,)), operation("@1", "mul", (3,), "@0:0"))
    assert match(before, after) == [1, 3]


def test_a_copy_of_an_operation_is_new_and_comes_from_it():
    lineage = Lineage((operation("7", "mul", (7,)),))
    after = lineage.next((operation("@0", "mul", (7,)), operation("@1", "mul", (7,))))
    assert [(record.id, record.origin) for record in after] == [("7", ()), ("7.1", ("7",))]


def test_fused_operations_come_from_all_they_stand_for():
    lineage = Lineage((operation("1", "mul", (1,)), operation("2", "add", (2,), "1:0")))
    (fused,) = lineage.next((operation("@0", "fma", (1, 2)),))
    assert (fused.id, fused.origin) == ("1.1", ("1", "2"))


def test_what_stands_for_nothing_begins_with_the_kernel():
    lineage = Lineage((operation("1", "mul", (1,)),))
    after = lineage.next((operation("@0", "constant", ()), operation("@1", "mul", (1,))))
    assert [(record.id, record.origin) for record in after] == [("kernel.1", ()), ("1", ())]


def test_an_identity_is_never_given_again():
    lineage = Lineage((operation("7", "mul", (7,)),))
    lineage.next((operation("@0", "add", (7,)),))
    lineage.next((operation("@0", "sub", (7,)),))
    assert [record.id for record in lineage.next((operation("@0", "div", (7,)),))] == ["7.3"]


def test_constants_that_stand_for_nothing_are_told_apart_by_their_value_alone():
    """One that moves out of a branch stays itself, and is not taken for another one."""
    branch = operation("1", "if", (1,))
    three, four = (OpRecord(f"kernel.{n}", "constant", "1", 1, attributes={"value": n}) for n in (3, 4))
    after = (
        OpRecord("@0", "constant", attributes={"value": 4}), OpRecord("@1", "constant", attributes={"value": 5}),
        operation("@2", "if", (1,)),
    )  # fmt: skip
    assert match((branch, three, four), after) == [2, None, 0]


def test_the_function_and_constants_keep_their_identities_when_passes_decide_about_them():
    function = OpRecord("kernel", "func.func")
    constant = replace(operation("kernel.1", "arith.constant", (), value=3), parent="kernel")
    lineage = Lineage((function, constant))
    decided = replace(constant, attributes={"value": 3, "tessera.layout": "registers"})
    after = lineage.next((replace(function, attributes={"tessera.schedule": "persistent"}), decided))
    assert [record.id for record in after] == ["kernel", "kernel.1"]
    other = replace(constant, attributes={"value": 4})
    assert match((function, constant), (function, other)) == [0, None]


def test_without_numbers_what_computes_the_same_is_the_same():
    a, b = operation("1", "f", (1,)), operation("2", "g", (2,), "1:0")
    c, d = operation("11", "f", (11,)), operation("12", "g", (12,), "11:0")
    new = operation("13", "h", (13,))
    assert match((a, b), (c, new, d), one_program=False) == [0, None, 1]
    assert match((a, b), (c, new, d)) == [None, None, None]
    renamed = operation("12", "g", (12,), "11:0", axis=1)
    assert match((a, b), (c, renamed), one_program=False) == [0, 1]
