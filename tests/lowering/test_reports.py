"""Crash reports: two files, the newest twenty."""

import os
import pickle
from pathlib import Path

from tessera.core.targets import Target
from tessera.lowering.protocol import Compile
from tessera.lowering.reports import CrashReport, write_report
from tessera.lowering.warm import trivial_program

REPORT = CrashReport(
    "warm", "ended by SIGSEGV", "last words", Compile(trivial_program(), Target("cpu", "x"), observe=False)
)


def test_a_report_holds_the_request(tmp_path: Path):
    path = write_report(REPORT, tmp_path / "crashes")
    assert path.parent == tmp_path / "crashes"
    assert pickle.loads(path.read_bytes()).program.name == "warm"
    text = path.with_suffix(".txt").read_text()
    assert "cause:     ended by SIGSEGV" in text
    assert "last words" in text
    assert "llvmlite" in text


def test_the_newest_twenty_stay(tmp_path: Path):
    for age in range(25):
        path = write_report(REPORT, tmp_path)
        os.utime(path, (age, age))
    newest = write_report(REPORT, tmp_path)
    left = sorted(tmp_path.glob("*.pickle"))
    assert newest in left
    assert len(left) == 20
    assert sorted(p.with_suffix(".txt") for p in left) == sorted(tmp_path.glob("*.txt"))


def test_a_folder_that_cannot_be_written(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    path = write_report(REPORT, tmp_path / "file" / "crashes")
    assert path.exists()
    path.unlink()
    path.with_suffix(".txt").unlink()
