"""Graphviz's output as rows; the binary itself where there is one."""

import subprocess
from itertools import pairwise
from unittest.mock import Mock

import pytest

from tessera.viz.graph import dot
from tessera.viz.graph.placing import Item, Scope

SCOPE = Scope(tuple(Item(name, 72, 36) for name in "abc"), (("a", "b"), ("b", "c"), ("a", "c")))


def test_a_scope_in_the_dot_language():
    text = dot.source_of(SCOPE)
    assert text.startswith("digraph{nodesep=")
    assert "0[width=1.000,height=0.500];1[" in text
    assert text.endswith("0->1;1->2;0->2}")


def test_splines_become_places_between_the_rows():
    rows = dot.rows_of(SCOPE, {
        "objects": [{"name": "0", "pos": "36,200"}, {"name": "1", "pos": "36,120"}, {"name": "2", "pos": "60,20"}],
        "edges": [
            {"tail": 0, "head": 1, "pos": "36,180 36,170 36,160 36,140"},
            {"tail": 0, "head": 2, "pos": "s,1,1 e,60,40 70,180 120,150 120,90 70,40"},
        ],
    })  # fmt: skip
    assert [[(slot.id, slot.to) for slot in row] for row in rows] == [[("a", "")], [("b", ""), ("a", "c")], [("c", "")]]
    assert rows[1][1].x == 120


@pytest.mark.skipif(not dot.is_installed(), reason="no dot: apt-get install graphviz")
def test_several_scopes_in_one_run():
    first, second = dot.by_dot([SCOPE, Scope((Item("x", 50, 30),), ())])
    assert [[slot.id for slot in row if not slot.to] for row in first] == [["a"], ["b"], ["c"]]
    assert [[slot.id for slot in row] for row in second] == [["x"]]
    assert dot.by_dot([]) == []


@pytest.mark.skipif(not dot.is_installed(), reason="no dot: apt-get install graphviz")
def test_several_runs_at_once_give_what_one_gives(monkeypatch: pytest.MonkeyPatch):
    def chain(number: int) -> Scope:
        names = [f"{number}.{place}" for place in range(70 + number)]
        return Scope(tuple(Item(name, 40 + number, 30) for name in names), tuple(pairwise(names)))

    scopes = [chain(number) for number in range(5)]
    run = Mock(wraps=subprocess.run)
    monkeypatch.setattr(dot.os, "cpu_count", lambda: 3)
    monkeypatch.setattr(dot.subprocess, "run", run)
    together = dot.by_dot(scopes)
    assert run.call_count == 3
    monkeypatch.setattr(dot.os, "cpu_count", lambda: 1)
    assert together == dot.by_dot(scopes)
    assert run.call_count == 4


def test_what_dot_says_is_raised(monkeypatch: pytest.MonkeyPatch):
    def run(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 1, "", "syntax error")

    monkeypatch.setattr(dot.subprocess, "run", run)
    with pytest.raises(OSError, match="dot: syntax error"):
        dot.by_dot([SCOPE])
