"""The place of a call: where a setting or a grid was written."""

# A mistake is compared with its line of this file, where no comment can stand beside it.
# pyright: reportArgumentType=false

import functools
import linecache

import pytest

import tessera
from tessera.core.base.source import NOWHERE, Span
from tessera.core.errors.call_site import at_call, call_span, cell_label, function_source
from tessera.core.errors.catalog import BadSetting
from tessera.core.settings import overridden


def test_a_setting_shows_where_it_was_changed():
    with pytest.raises(BadSetting) as caught:
        tessera.configure(threads="4")
    assert str(caught.value).splitlines() == [
        "TSR-E902 bad setting: threads is '4', it must be an integer, at least 1 and at most 4096",
        f"  --> {__file__}, line {caught.value.span.line}, column 9",
        f'{caught.value.span.line:>4} |         tessera.configure(threads="4")',
        f"     |         {'^' * 30}",
        "  try: write configure(threads=4), or set TESSERA_THREADS",
    ]


def test_with_statements_count_as_the_users_own():
    with pytest.raises(BadSetting, match="'thread' is no setting") as caught, overridden(thread=2):  # pyright: ignore[reportCallIssue] - the mistake
        pass
    assert caught.value.span.file == __file__


def test_columns_count_characters_and_calls_may_span_lines():
    name = "<called>"
    text = "é = 1; f(\n    bad='ä',\n)\n"
    linecache.cache[name] = (len(text), None, list[str](text.splitlines(keepends=True)), name)
    with pytest.raises(BadSetting) as caught:
        exec(compile(text, name, "exec"), {"f": tessera.configure})
    assert caught.value.span == Span(name, 1, 8, 3, 2)


def test_text_that_is_not_to_be_had():
    with pytest.raises(BadSetting) as caught:
        exec("configure(bad=1)", {"configure": tessera.configure})
    assert caught.value.span == NOWHERE
    assert "  try: the settings are" in str(caught.value)


def test_a_place_that_is_known_stays():
    mistake = BadSetting("no", Span("<cell>", 3, 1, 3, 2))
    assert at_call(mistake).span.line == 3


def test_a_mistake_that_was_caught_has_the_place_where_it_was_raised():
    def given_to_the_library() -> None:
        raise BadSetting("no")

    with pytest.raises(BadSetting) as caught:
        given_to_the_library()
    placed = at_call(caught.value)
    assert "def given_to_the_library" in linecache.getline(__file__, placed.span.line - 1)
    assert 'raise BadSetting("no")' in str(placed)


def test_files_are_no_cells():
    assert cell_label(__file__) == ""


def test_places_of_calls_are_known_by_the_instruction():
    here = [call_span() for _ in range(2)]
    assert here[0] == here[1]
    assert here[0].file == __file__
    other = call_span()
    assert other.line == here[0].line + 3
    assert (other.column, other.end_column) == (13, 24)


def test_the_text_that_a_function_stands_in():
    source = function_source(test_files_are_no_cells)
    assert source is not None
    assert source.name == __file__
    assert "def test_files_are_no_cells" in source.text

    @functools.wraps(test_files_are_no_cells)
    def wrapper() -> None:
        """Nothing."""

    assert function_source(wrapper) == source
    assert function_source(len) is None
    assert function_source(exec) is None
    namespace: dict[str, object] = {}
    exec("def lost(): pass", namespace)  # its text is kept nowhere
    assert function_source(namespace["lost"]) is None
