"""Crash reports: two files, the newest twenty."""

import dataclasses
import os
import pickle
import tempfile
from pathlib import Path

import pytest

from tessera.core.targets import Target
from tessera.lowering.service.crash_reports import CrashReport, write_report
from tessera.lowering.service.protocol import Compile
from tessera.lowering.service.warmup import trivial_program

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


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary directory, which others may write to."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.mark.parametrize("where", ["file/crashes", "shared/crashes"])
def test_a_folder_that_cannot_be_used(tmp_path: Path, temporary: Path, where: str):
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    *_, path = (write_report(REPORT, tmp_path / where) for _ in range(25))
    assert path.parent == temporary / f"tessera-crashes-{os.geteuid()}"
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert {one.stat().st_mode & 0o777 for one in path.parent.iterdir()} == {0o600}
    assert len(list(path.parent.iterdir())) == 40


def test_a_report_follows_no_link(tmp_path: Path, temporary: Path):
    """The folder's name is known to others: a link under it must not be used, nor a folder that they may write to."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (temporary / f"tessera-crashes-{os.geteuid()}").symlink_to(elsewhere)
    path = write_report(REPORT, Path("/dev/null/crashes"))
    assert path.parent.parent == temporary
    assert list(elsewhere.iterdir()) == []
    assert path.with_suffix(".txt").read_text(encoding="utf-8").startswith("kernel:")


def test_names_that_a_file_system_cannot_spell(tmp_path: Path):
    path = write_report(dataclasses.replace(REPORT, name="größe/../x", details="\udc80 ä"), tmp_path)
    assert path.name.startswith("gr__e____x-")
    assert "\\udc80 ä" in path.with_suffix(".txt").read_text(encoding="utf-8")
