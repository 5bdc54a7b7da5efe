"""`tests/support/tiers.py`: each rule names something, and the longest one decides."""

import ast
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import tiers
from support.tiers import INTERRUPT, ROOT, RULES, Tier, tier_of


@pytest.mark.parametrize("name", [*filter(None, RULES), INTERRUPT])
def test_a_rule_names_what_exists(name: str) -> None:
    file, _, function = name.partition("::")
    assert (ROOT / file).exists()
    if function:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_a_rule_changes_something() -> None:
    """A rule that says what a shorter one says already is noise."""
    for name, tier in RULES.items():
        if name:
            parent = name.rpartition("::" if "::" in name else "/")[0]
            assert tier_of(parent) != tier, name


@pytest.mark.parametrize(
    ("node", "tier"),
    [
        ("tests/viz/test_viz.py::test_a_view[cpu/x-f32]", Tier.TEST),
        ("tests/lowering/cuda/simt/test_lowering.py::test_it[1]", Tier.ALL),
        ("tests/browser/test_live.py::test_a_live_view_comes_back_with_the_page", Tier.TEST),
        ("tests/browser/test_live.py::test_another", Tier.ALL),
        (".", Tier.TEST),
    ],
)
def test_the_longest_rule_decides(node: str, tier: Tier) -> None:
    assert tier_of(node) is tier


def test_files_of_dearer_tiers_are_not_collected(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> None:
    def ignored(path: str) -> bool | None:
        return tiers.pytest_ignore_collect(ROOT / path, pytestconfig)

    monkeypatch.setattr(pytestconfig.option, "tier", "test")
    assert ignored("tests/frontend/test_fuzz.py")
    assert ignored("tests/browser/test_lab.py")
    for kept in (".", "tests", "tests/viz", "tests/browser", "tests/browser/test_live.py"):
        assert ignored(kept) is None
    assert tiers.pytest_ignore_collect(Path("/elsewhere"), pytestconfig) is None
    monkeypatch.setattr(pytestconfig.option, "tier", "all")
    assert ignored("tests/frontend/test_fuzz.py") is None


def test_files_of_cheaper_tiers_are_not_collected_above_them(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pytestconfig.option, "tier", "test")
    monkeypatch.setattr(pytestconfig.option, "above", "check")
    ignored = {
        path: tiers.pytest_ignore_collect(ROOT / path, pytestconfig)
        for path in (".", "tests", "tests/core", "tests/core/base/test_dtypes.py", "tests/test_tiers.py",
                     "tests/core/tile", "tests/core/base/test_syntax_trees.py", "tests/frontend/test_fuzz.py")
    }  # fmt: skip
    assert [path for path, ignore in ignored.items() if ignore] == [
        "tests/core/base/test_dtypes.py", "tests/test_tiers.py", "tests/frontend/test_fuzz.py"
    ]  # fmt: skip


def test_properties_run_fewer_examples() -> None:
    examples: list[int] = []

    @settings(max_examples=200, database=None)
    @given(st.integers())
    def check(number: int) -> None:
        examples.append(number)

    tiers.cap_examples(check, 7)
    check()
    assert len(examples) == 7
    tiers.cap_examples(len, 7)
