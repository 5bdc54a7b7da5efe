"""Trials and their record on disk."""

import json
from pathlib import Path

import pytest

from tessera.tuning import (
    BEGIN,
    DUPLICATE,
    END,
    FAILED,
    ILLEGAL,
    MEASURED,
    PRUNED,
    SKIPPED,
    TRIAL,
    Trial,
    Tuning,
    append,
    config_key,
    load,
    log_path,
    read_log,
    record_key,
    store,
)

FAST = Trial({"BM": 64, "fast": True}, MEASURED, (3e-6, 1e-6, 2e-6), "a")
SLOW = Trial({"BM": 128, "fast": True}, MEASURED, (9e-6,), "b")
SAME = Trial({"BM": 64, "fast": False}, DUPLICATE, code="a", same_as=FAST.config)
BAD = Trial({"BM": 0, "fast": True}, ILLEGAL, error="TSR-E303 bad step: 0")
LATE = Trial({"BM": 256, "fast": True}, SKIPPED)
CRASH = Trial({"BM": 512, "fast": True}, FAILED, error="TSR-E900 the compiler failed")


def test_a_tuning_is_its_best_configuration():
    tuning = Tuning("k", "cpu", (SLOW, FAST, SAME, BAD, LATE), complete=False)
    assert tuning.best is FAST
    assert tuning["BM"] == 64
    assert dict(tuning) == tuning.config == {"BM": 64, "fast": True}
    assert len(tuning) == 2
    assert repr(tuning) == ("<tuning of k on cpu: best BM=64 fast=True; 2 measured, 1 duplicate, 1 illegal, 1 skipped>")
    assert tuning.table().splitlines() == [
        "BM=64 fast=True                                   2.0 us  (3 runs)",
        "BM=128 fast=True                                  9.0 us  (1 runs)",
        "BM=64 fast=False                         same code as BM=64 fast=True",
        "BM=0 fast=True                           illegal TSR-E303 bad step: 0",
        "BM=256 fast=True                         skipped",
    ]


def test_median():
    assert FAST.median == 2e-6
    assert BAD.median is None


def test_record_round_trip(tmp_path: Path):
    path = tmp_path / "deep" / "record.json"
    store(path, (FAST, SLOW, SAME, BAD, LATE, CRASH))
    assert load(path) == {config_key(t.config): t for t in (FAST, SLOW, SAME, BAD)}
    assert [p.name for p in path.parent.iterdir()] == ["record.json"]


def test_tuples_survive(tmp_path: Path):
    trial = Trial({"tile": (16, 8), "none": None, "f": 0.5}, MEASURED, (1.0,), "c")
    store(tmp_path / "r.json", [trial])
    assert load(tmp_path / "r.json")[config_key(trial.config)] == trial


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"format": 0, "trials": []}', '{"format": 1}', '{"format": 1, "trials": [{"status": "measured"}]}',
     json.dumps({"format": 1, "trials": [{"config": {"a": {}}, "status": "measured", "seconds": [], "code": "",
                                          "error": "", "same_as": None}]})],
)  # fmt: skip
def test_damaged_records_are_ignored(tmp_path: Path, text: str):
    (tmp_path / "r.json").write_text(text)
    assert load(tmp_path / "r.json") == {}


def test_keys():
    assert config_key({"a": 1, "b": 2}) == config_key({"b": 2, "a": 1})
    assert config_key({"a": 1}) != config_key({"a": 2})
    assert record_key(("a", (1,))) != record_key(("a", (2,)))


def test_predictions_show():
    found = Tuning("k", "cpu", (Trial({"B": 1}, MEASURED, (2e-6,), "a", predicted=1e-6), HOPELESS), complete=True)
    assert repr(found) == "<tuning of k on cpu: best B=1; 1 measured, 1 pruned>"
    assert found.table().splitlines()[0].endswith("2.0 us  (1 runs, predicted 1.0)")
    assert found.table().splitlines()[1].endswith("pruned predicted 9.0 us")
    document = json.loads(json.dumps(found.to_dict()))
    assert document["best"] == {"B": 1}
    assert document["trials"][0]["median"] == 2e-6


HOPELESS = Trial({"B": 2}, PRUNED, error="predicted 9.0 us", predicted=9e-6)


def test_a_log_is_read_while_it_is_written(tmp_path: Path):
    log = tmp_path / "deep" / "k.jsonl"
    assert read_log(log) == []
    append(log, BEGIN, kernel="k", device="cpu", configurations=2, again=False)
    append(log, TRIAL, trial=FAST.to_dict())
    with log.open("a") as file:
        file.write('{"event": "trial", "form')  # another process is just writing
    events = read_log(str(log))
    assert [event["event"] for event in events] == [BEGIN, TRIAL]
    assert events[1]["trial"]["config"] == {"BM": 64, "fast": True}
    assert events[0]["time"] > 0


def test_half_a_line_of_a_process_that_died_swallows_nothing(tmp_path: Path):
    log = tmp_path / "k.jsonl"
    append(log, TRIAL, trial=FAST.to_dict())
    with log.open("a") as file:
        file.write('{"event": "trial", "form')
    append(log, BEGIN, kernel="k", device="cpu", configurations=2, again=True)
    append(log, TRIAL, trial=SLOW.to_dict())
    assert [event["event"] for event in read_log(log)] == [TRIAL, BEGIN, TRIAL]
    assert list(load(tmp_path / "k.json").values()) == [SLOW]


def test_a_damaged_log_costs_what_was_damaged(tmp_path: Path):
    log = tmp_path / "k.jsonl"
    append(log, TRIAL, trial=FAST.to_dict())
    with log.open("ab") as file:
        file.write(b"\xff\xfe\x00\n")
    append(log, TRIAL, trial=SLOW.to_dict())
    assert list(load(tmp_path / "k.json").values()) == [FAST, SLOW]


def test_a_search_that_died_is_continued_from_its_log(tmp_path: Path):
    record = tmp_path / "k.json"
    store(record, [SLOW])
    append(log_path(record), BEGIN, kernel="k", device="cpu", configurations=3, again=False)
    for trial in (FAST, HOPELESS, LATE, CRASH):
        append(log_path(record), TRIAL, trial=trial.to_dict())
    assert load(record) == {config_key(t.config): t for t in (SLOW, FAST, HOPELESS)}
    append(log_path(record), BEGIN, kernel="k", device="cpu", configurations=3, again=True)
    append(log_path(record), TRIAL, trial=SAME.to_dict())
    append(log_path(record), END, best=None, complete=False)
    assert load(record) == {config_key(SAME.config): SAME}


def test_lines_of_another_format_are_left_out(tmp_path: Path):
    log = tmp_path / "k.jsonl"
    log.write_text('[]\n{"event": "trial"}\n{"event": "trial", "format": 2, "trial": {"status": "odd"}}\nnull\n')
    assert read_log(log) == []
