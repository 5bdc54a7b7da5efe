"""Searches on disk: records and logs."""

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tessera.tuning.record import BEGIN, END, TRIAL, append, load, log_path, read_log, record_path, store
from tessera.tuning.results import DUPLICATE, FAILED, ILLEGAL, MEASURED, PRUNED, SKIPPED, Trial, config_key

FAST = Trial({"BM": 64, "fast": True}, MEASURED, (3e-6, 1e-6, 2e-6), "a", compared=(2e-6, 3e-6), flops=2.0, traffic=1.0)
SLOW = Trial({"BM": 128, "fast": True}, MEASURED, (9e-6,), "b")
SAME = Trial({"BM": 64, "fast": False}, DUPLICATE, code="a", same_as=FAST.config)
BAD = Trial({"BM": 0, "fast": True}, ILLEGAL, error="TSR-E303 bad step: 0")
LATE = Trial({"BM": 256, "fast": True}, SKIPPED)
CRASH = Trial({"BM": 512, "fast": True}, FAILED, error="TSR-E900 the compiler failed")
HOPELESS = Trial({"B": 2}, PRUNED, error="predicted 9.0 us", predicted=9e-6)


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


def test_a_records_name_is_ascii_and_short_and_tells_what_it_is_of(tmp_path: Path):
    path = record_path(tmp_path, "größe", ("a", (1,)))
    assert path != record_path(tmp_path, "größe", ("a", (2,)))
    assert path.name.isascii()
    assert path.name.startswith("gr%C3%B6%C3%9Fe-")
    assert len(record_path(tmp_path, "ö" * 300, ()).name) < 128
    record_path(tmp_path, "k", ("\ud800",))  # half a character, which a source may hold


def test_only_their_owner_can_read_and_write_them(tmp_path: Path):
    record = tmp_path / "k.json"
    store(record, [FAST])
    append(log_path(record), TRIAL, trial=FAST.to_dict())
    for path in (record, log_path(record)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_log_that_is_a_link_is_not_followed(tmp_path: Path):
    target, link = tmp_path / "target", tmp_path / "k.jsonl"
    target.write_text("mine")
    link.symlink_to(target)
    with pytest.raises(OSError, match="symbolic links"):
        append(link, END)
    assert target.read_text() == "mine"


SEARCH = """
import numpy as np, tessera
from tessera import autotune
k = tessera.compile_source('''
@kernel
def größe(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=STEP):
        y[t:t+STEP] = x[t:t+STEP]
''').größe
x = np.zeros(100, np.float32)
found = autotune.search(kernel=k, params={"STEP": [32]}, args=(x, x.copy()))
assert "gr%C3%B6%C3%9Fe" in found.log
"""


def test_a_search_under_an_ascii_file_system(tmp_path: Path):
    program = tmp_path / "search.py"
    program.write_text(SEARCH, encoding="utf-8")
    environment = {
        "LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "TESSERA_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
    }  # fmt: skip
    subprocess.run([sys.executable, str(program)], env=environment, check=True)


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
    log.write_text('[]\n{"event": "trial"}\n{"event": "trial", "format": 3, "trial": {"status": "odd"}}\nnull\n')
    assert read_log(log) == []
