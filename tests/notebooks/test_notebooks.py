"""The notebooks as files: valid, executed, small, and silent about the machine they were made on."""

import json
import re
from pathlib import Path

import pytest

from support import notebook_files
from support.notebook_files import Notebook, Output

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
NAMES = [
    "00_tour",
    "01_first_kernel",
    "02_a_cell_becomes_a_kernel",
    "03_shared_memory_and_barriers",
    "04_gemm_and_attention",
    "05_sanitizer",
    "06_what_a_gpu_runs",
    "07_views",
    "08_explorer",
    "09_diff_and_film",
    "10_graphs",
    "11_tiles_and_layouts",
    "12_schedule_and_profile",
    "13_tuning_dashboard",
    "14_edit_and_rerun",
    "15_meshes_and_workbench",
    "16_from_slow_to_fast",
    "17_operator_graphs",
    "18_small_gpt",
    "19_spectral_solver",
    "20_puzzles",
    "21_tensor_parallelism",
    "22_a_mesh_of_72",
    "23_the_same_bits_everywhere",
    "24_what_a_plan_costs",
]
LARGEST_OUTPUT = 100_000
LARGEST_WORKBENCH = 300_000  # eight views in one
LARGEST_NOTEBOOK = 1_000_000


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request: pytest.FixtureRequest) -> Path:
    return request.param


@pytest.fixture
def notebook(path: Path) -> Notebook:
    return notebook_files.read(path)


def outputs(notebook: Notebook) -> list[Output]:
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def test_all_notebooks_are_there() -> None:
    assert [path.stem for path in NOTEBOOKS] == NAMES


def test_it_is_valid_and_its_cells_have_ids(notebook: Notebook) -> None:
    notebook_files.validate(notebook)
    ids = [cell.id for cell in notebook.cells]
    assert len(set(ids)) == len(ids)
    assert notebook.metadata.kernelspec.name == "python3"


def test_every_cell_was_executed_in_order(notebook: Notebook) -> None:
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))


def test_cells_that_fail_are_meant_to(notebook: Notebook) -> None:
    for cell in notebook.cells:
        failed = cell.cell_type == "code" and any(output.output_type == "error" for output in cell.outputs)
        assert failed == ("raises-exception" in cell.metadata.get("tags", []))


def test_checks_against_numpy_hold(notebook: Notebook) -> None:
    texts = ["".join(output.get("data", {}).get("text/plain", "")) for output in outputs(notebook)]
    assert "False" not in [text.removeprefix("np.").rstrip("_") for text in texts]


def test_it_is_small(path: Path, notebook: Notebook) -> None:
    assert path.stat().st_size < LARGEST_NOTEBOOK
    for output in outputs(notebook):
        html = "".join(output.get("data", {}).get("text/html", ""))
        assert len(html) < (LARGEST_WORKBENCH if 'data-kind="workbench"' in html else LARGEST_OUTPUT)


def test_it_tells_nothing_of_the_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"/(?:tmp|work|root|home|Users|usr)/|0x[0-9a-f]{9}", text)


def test_every_link_between_notebooks_leads_somewhere(notebook: Notebook) -> None:
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            for target in re.findall(r"\]\((\S+\.ipynb)\)", cell.source):
                assert (FOLDER / target).exists(), target


def test_every_rich_output_has_a_short_plain_text(notebook: Notebook) -> None:
    for output in outputs(notebook):
        data = output.get("data", {})
        if "text/html" in data:
            assert data["text/plain"]
            assert len(data["text/plain"]) < 1500, json.dumps(data["text/plain"][:80])
