"""Every notebook runs, and its cells give what is stored in it: nbval, in a process of its own for each notebook.

The cells of a notebook build on each other, so that a notebook is one test, which any worker can take.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
NOTEBOOKS: Final = sorted((ROOT / "notebooks").glob("*.ipynb"))
TOUR: Final = NOTEBOOKS[0]


def compare(notebook: Path) -> None:
    """Run a notebook, and compare what its cells give with what is stored."""
    options = ["--nbval", "--nbval-current-env", "--nbval-sanitize-with=notebooks/sanitize.cfg", "-p", "no:xdist"]
    command = [sys.executable, "-m", "pytest", "-q", *options, str(notebook)]
    environment = {**os.environ, "PYTEST_ADDOPTS": ""}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_tour() -> None:
    compare(TOUR)


@pytest.mark.parametrize("notebook", NOTEBOOKS[1:], ids=lambda path: path.stem)
def test_the_others(notebook: Path) -> None:
    compare(notebook)
