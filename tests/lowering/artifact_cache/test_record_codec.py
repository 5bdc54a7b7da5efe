"""Records as JSON: each once, nothing lost, nothing but texts and numbers read."""

import json
from dataclasses import replace

import pytest

from tessera.core.base.source import Span
from tessera.core.record import OpRecord, ValueRecord, Verbatim
from tessera.lowering.artifact_cache.record_codec import Json, RecordTable, unpack_rows

SPAN = Span("cell.py", 3, 5, 3, 9)
RECORD = OpRecord(
    "17.2", "scf.for", "4", 1, ("3:0",), (ValueRecord("17.2:0", "tile<64x32xf16>", "acc"),),
    ((ValueRecord("17.2^0.0", "i64", "k"),),),
    {"axis": 1, "kind": "sum", "exact": True, "half": 0.5, "list": (1, (2, "x")), "map": Verbatim("affine_map")},
    (SPAN,), (17, 18), ("17",),
)  # fmt: skip
OTHER = replace(RECORD, origin=())


def there_and_back(*stages: tuple[OpRecord, ...]) -> tuple[list[list[OpRecord]], int]:
    spans: dict[Span, int] = {Span("a.py", 1, 1, 1, 2): 0}
    table = RecordTable(spans)
    numbers = [table.numbers(stage) for stage in stages]
    rows = json.loads(json.dumps(table.rows))
    records = unpack_rows(rows, list(spans))
    return [[records[number] for number in stage] for stage in numbers], len(rows)


def test_nothing_is_lost():
    (back,), count = there_and_back((RECORD, OTHER))
    assert back == [RECORD, OTHER]
    assert count == 2
    assert [type(value) for value in back[0].attributes.values()] == [int, str, bool, float, tuple, Verbatim]


def test_what_stays_the_same_is_written_once():
    back, count = there_and_back((RECORD,), (OTHER,), (OTHER,), (OTHER, RECORD))
    assert back == [[RECORD], [OTHER], [OTHER], [OTHER, RECORD]]
    assert count == 2


@pytest.mark.parametrize("value", [None, {"is": "Popen"}, {"": 1}])
def test_other_attributes_are_refused(value: Json):
    row: list[Json] = ["1", "op", "", 0, [], [], [], {"a": value}, [], [], []]
    with pytest.raises(TypeError, match="is no attribute"):
        unpack_rows([row], [])
