"""The figures of `docs/measure.py`: each counts what it says, and each keeps its limit."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from support.scripts import load


@pytest.fixture(scope="module")
def measure() -> ModuleType:
    return load("measure.py")


@pytest.fixture(scope="module")
def figures(measure: ModuleType) -> Any:
    return measure.measurements()


def test_every_figure_keeps_its_limit(measure: ModuleType, figures: Any):
    assert [row.name for row in figures if not row.holds] == [], measure.table(figures)


def test_a_figure_that_reached_its_goal_has_it_as_its_limit(figures: Any):
    """A limit lies between the goal and today's figure, so it can be tightened and never loosened unseen."""
    for row in figures:
        low, high = (row.limit, row.goal) if row.rising else (row.goal, row.limit)
        assert low <= high, f"{row.name}: the limit {row.limit} is stricter than the goal {row.goal}"
        if row.value == row.goal:
            assert row.limit == row.goal, f"{row.name} has reached its goal: make {row.goal} its limit"


def test_the_graph_holds_the_whole_package(measure: ModuleType):
    edges = measure.import_graph()
    assert len(edges) > 300
    assert any(name.startswith("tessera.core.errors.base") for name in edges["tessera"])
    assert all(name.partition(".")[0] in measure.PACKAGES for name in edges)


def test_cycles_are_the_strongly_connected_components(measure: ModuleType):
    edges = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert measure.cycles(edges) == [["a", "b", "c"], ["d", "e"]]
    assert measure.cycles({"a": {"b"}, "b": set()}) == []


def test_a_folder_and_the_folders_in_it_are_different_packages(measure: ModuleType):
    imports: dict[str, set[str]] = {
        "t": set(),
        "t.one": {"t.low.two"},
        "t.low": set(),
        "t.low.two": {"t.three"},
        "t.three": set(),
    }
    assert measure.package_graph(imports) == {"t": {"t.low"}, "t.low": {"t"}}
    assert measure.cycles(measure.package_graph(imports)) == [["t", "t.low"]]


def parse(measure: ModuleType, text: str, path: str = "tessera/runtime/example.py"):
    return measure.Module.parse(path, text)


def test_any_is_found_with_its_reason(measure: ModuleType):
    text = (
        "from typing import Any\n"
        "def one(x: Any) -> dict[str, Any]: ...\n"
        "def two(x: Any): ...  # an object of another library\n"
        "# whatever the driver returns\n"
        "three: Any = 1\n"
    )
    assert measure.places_with_any(parse(measure, text)) == {2: False, 3: True, 5: True}


def test_classes_of_one_name_count_in_one_layer(measure: ModuleType):
    sources = [
        parse(measure, "class Host: ...\n", "tessera/runtime/a.py"),
        parse(measure, "def f():\n    class Host: ...\n", "tessera/runtime/deep/b.py"),
        parse(measure, "class Host: ...\n", "tessera/core/c.py"),
    ]
    assert measure.repeated_classes(sources) == ["tessera/runtime Host x2"]


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("tessera/runtime/a.py", "def _later_rows(): ...", ["_later_rows"]),
        ("tessera/runtime/a.py", "class TeamStore: ...", ["TeamStore"]),
        ("tessera/lowering/cuda/mma/fma.py", "def f(first_factor): ...", ["first_factor"]),
        ("tessera/lowering/math/exponential.py", "def f(first_factor): ...", []),  # a scale, no operand
        ("tessera/runtime/a.py", "self.room = 1", ["room"]),
        ("tessera/runtime/a.py", "translate = later.it", []),  # a part of a word, and a use
    ],
)
def test_private_words_count_where_they_are_defined(measure: ModuleType, path: str, text: str, found: list[str]):
    assert [name for _, name in measure.private_identifiers(parse(measure, text, path))] == found


def test_private_modules_count_in_their_folder(measure: ModuleType):
    paths = ["tessera/lowering/cuda/storage/room.py", "tessera/runtime/room.py", "tessera/runtime/launch/items.py"]
    sources = [parse(measure, "", path) for path in paths]
    assert measure.private_modules(sources) == [paths[0], paths[2]]


def test_private_options_and_classes_are_found(measure: ModuleType):
    module = parse(measure, 'ScheduleOption("later", "...")\nScheduleOption("stages", "...")\nclass Room: ...\n')
    assert measure.private_options([module]) == ["later"]
    assert measure.private_classes([module]) == ["tessera/runtime/example.py:3 Room"]


def test_public_functions_without_a_docstring_are_found(measure: ModuleType):
    text = 'class A:\n    """A."""\n    def f(self): ...\n    def _g(self): ...\ndef h():\n    """Return h."""\n'
    assert measure.undocumented([parse(measure, text)]) == (3, ["tessera/runtime/example.py:3 f"])


def test_ruff_counts_exceptions_too(measure: ModuleType, tmp_path: Path):
    for package in measure.PACKAGES:
        (tmp_path / package).mkdir()
    (tmp_path / "tessera" / "a.py").write_text(
        "def f():\n    import json  # noqa: PLC0415 - rarely used\n    return json\n"
    )
    found = measure.ruff_findings("C901", "PLC0415", root=tmp_path)
    assert found == {"C901": [], "PLC0415": ["tessera/a.py:2"]}
    lines = {"tessera/a.py": (tmp_path / "tessera" / "a.py").read_text().split("\n")}
    assert measure.has_reason("tessera/a.py:2", lines)
    assert not measure.has_reason("tessera/a.py:1", lines)


def test_the_table_marks_what_breaks_its_limit(measure: ModuleType):
    rows = [measure.count("cycles", ["a b"], 0), measure.count("places", [], 0)]
    first, broken, kept = measure.table(rows).splitlines()
    assert first.split() == ["now", "goal", "limit", "first", "place"]
    assert broken.split() == ["cycles", "1", "0", "0", "a", "b", "<-", "breaks", "its", "limit"]
    assert kept.split() == ["places", "0", "0", "0"]
    assert measure.listing(rows, "cyc") == "cycles: a b\n"
