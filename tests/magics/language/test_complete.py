"""Completions with a line about each."""

import pytest

from tessera.core.schedule.options import SCHEDULE
from tessera_magics.language.complete import Offer, Offers, complete

KERNEL = "@kernel\ndef k(first: f32[rows], second: mut f32[rows]):\n    total = 1\n    "


def offered(text: str, own: dict[str, object] | None = None) -> dict[str, Offer]:
    return {one.text: one for one in complete(text, len(text), own or {}).offers}


def test_members_of_a_namespace_have_their_signature_and_summary() -> None:
    found = complete(KERNEL + "y = tile.so", len(KERNEL) + 11, {})
    assert found == Offers(
        len(KERNEL) + 9, (Offer("softmax", "function", "(x, axis=-1)", "softmax along an axis"),), True
    )
    assert offered(KERNEL + "cp_async.shared.")["global"].detail == "(dst, src)"


@pytest.mark.parametrize(
    ("typed", "name", "detail"),
    [
        ("fi", "first", "f32[rows]"),
        ("se", "second", "mut f32[rows]"),
        ("ro", "rows", "extent"),
        ("to", "total", "local"),
    ],
)
def test_names_of_the_kernel(typed: str, name: str, detail: str) -> None:
    assert offered(KERNEL + typed)[name] == Offer(name, "instance", detail, "")


def test_what_is_being_typed_is_not_offered() -> None:
    assert "unique" not in offered(KERNEL + "unique")
    assert "first" not in offered("first = 1\nfi")


def test_keywords_and_values_of_schedule_options() -> None:
    stages = offered("k.variant(st")["stages="]
    assert stages.summary == SCHEDULE["stages"].summary
    assert list(offered("k.variant(overlap=")) == ["True", "False"]
    assert list(offered("@kernel.autotune(stages=")) == ["[2, 3, 4]"]
    assert offered("k.variant(BM=") == {}


def test_the_text_behind_the_cursor_does_not_matter() -> None:
    text = KERNEL + "y = tile.so\n    other = tile.exp(x)\n"
    assert [one.text for one in complete(text, len(KERNEL) + 11, {}).offers] == ["softmax"]


def test_the_users_own_names_go_first() -> None:
    assert offered("tile.so", {"tile": 3}) == {}
