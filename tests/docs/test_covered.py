"""`docs/covered.py`: figures of coverage by folder."""

import subprocess
import sys
from pathlib import Path

from support.scripts import DOCS, load


def test_shares_are_added_up_by_folder():
    covered = load("covered.py")
    modules = {
        "tessera/core/a.py": covered.Lines(10, (1, 2)),
        "tessera/core/b.py": covered.Lines(30, ()),
        "tessera/c.py": covered.Lines(0, ()),
    }
    lines = covered.report(modules).splitlines()
    assert lines[1].split() == ["tessera", "0", "0", "100.0%"]
    assert lines[2].split() == ["tessera/core", "40", "2", "95.0%"]
    assert [line.split()[0] for line in lines[5:-2]] == ["tessera/core/a.py"]
    assert lines[-1] == "Coverage: 95.0 % of 40 lines (goal: 95 %)"


def test_neighbouring_lines_are_named_together():
    assert load("covered.py").ranges([9, 3, 7, 8]) == "3, 7-9"
    assert load("covered.py").ranges([]) == ""


def test_lines_that_did_not_run_are_found(tmp_path: Path):
    (tmp_path / "job.py").write_text("def f(x):\n    if x:\n        return 1\n    return 2\n\n\nf(True)\n")
    settings = "[run]\ndata_file = data\n"
    (tmp_path / ".coveragerc").write_text(settings)
    subprocess.run([sys.executable, "-m", "coverage", "run", "job.py"], cwd=tmp_path, check=True)
    command = [sys.executable, str(DOCS / "covered.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "Coverage: 80.0 % of 5 lines" in done.stdout
    named = subprocess.run([*command, "job"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert named.stdout == "job.py: 4\n"
