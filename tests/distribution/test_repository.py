"""What GitHub and pre-commit read: well formed, and made of commands that exist."""

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

ROOT: Final = Path(__file__).parents[2]
FORMS: Final = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
MAKEFILE: Final = (ROOT / "Makefile").read_text(encoding="utf-8")


def load(path: Path) -> dict[str, Any]:  # whatever YAML holds: each test knows its own file
    """A YAML file."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_forms(path: Path):
    form = load(path)
    assert {"name", "description", "body"} <= set(form)
    fields = {field["id"]: field for field in form["body"] if field["type"] != "markdown"}
    assert len(fields) == len(form["body"])
    assert all(field["attributes"]["label"] for field in fields.values())


def test_a_bug_comes_with_a_kernel_and_versions():
    fields = {field["id"]: field for field in load(ROOT / ".github/ISSUE_TEMPLATE/wrong_result_or_crash.yml")["body"]}
    assert {name for name, field in fields.items() if field.get("validations", {}).get("required")} == {
        "kernel", "happened", "doctor",
    }  # fmt: skip
    assert "%tessera doctor" in fields["doctor"]["attributes"]["description"]


def test_the_workflow_calls_the_same_commands():
    workflow = load(ROOT / ".github" / "workflows" / "test.yml")
    jobs = workflow["jobs"]
    everything, weekly, versions, coverage = (jobs[job] for job in ("everything", "all", "versions", "coverage"))
    assert everything["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]
    assert [step["run"] for step in everything["steps"] if "run" in step] == ["bash .ci/run"]
    assert [step["run"] for step in weekly["steps"] if "run" in step] == ["bash .ci/run test-all"]
    assert [step["run"] for step in versions["steps"] if "run" in step] == ["make test-${{ matrix.versions }}"]
    assert [step["run"] for step in coverage["steps"] if "run" in step] == ["make coverage"]
    for row in versions["strategy"]["matrix"]["include"]:
        assert re.search(rf"^test-{row['versions']}:", MAKEFILE, re.MULTILINE)


def test_hooks_run_the_tools_of_the_environment():
    (repository,) = load(ROOT / ".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    hooks = {hook["id"]: hook for hook in repository["hooks"]}
    assert {hook["language"] for hook in hooks.values()} == {"system"}
    programs = {hook["entry"].split()[0] for hook in hooks.values()}
    linted = MAKEFILE.partition("\nlint: ")[2].partition("\n\n")[0].replace("$(BIN)", ".venv/bin")
    assert {program for program in programs if program not in linted} == {".venv/bin/python"}


def test_the_citation():
    citation = load(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert "version" not in citation, "the version stands in tessera/__init__.py alone"


def test_the_changelog_has_the_sections_of_keep_a_changelog():
    order = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
    releases = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert releases[0].startswith("Unreleased\n")
    for release in releases:
        sections = re.findall(r"^### (.+)$", release, re.MULTILINE)
        assert sections == [name for name in order if name in sections]
        assert len(sections) == len(set(sections)) > 0
        assert "\n* " not in release.partition("\n### ")[0], "a change outside the sections"
