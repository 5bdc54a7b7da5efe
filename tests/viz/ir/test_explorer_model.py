"""The explorer's model: links, changes, stories."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tessera.core.artifact import Artifact
from tessera.core.compilation import Compilation
from tessera.core.listing import Line, Listing
from tessera.viz.ir.explorer_model import ExplorerModel, explorer_model


@pytest.fixture
def view(compilation: Compilation) -> ExplorerModel:
    return explorer_model(compilation.artifact, compilation.listings)


def test_the_source_pane_holds_the_kernel_and_its_decorator_only(view: ExplorerModel) -> None:
    assert view.first_line == 3
    assert view.source[0] == "@kernel"
    assert view.source[-1].strip() == "y[i] = alpha * x[i] + y[i]"
    assert view.label == "Cell In[3]"


def test_levels_come_in_compiler_order_and_a_repeated_final_listing_is_dropped(view: ExplorerModel) -> None:
    assert view.levels == ("tile", "target", "asm")
    assert [pane.stage for pane in view.stages("tile")] == ["build", "tile-simplify", "tile-mask-edges"]


def test_a_source_line_has_its_counterparts_in_every_level(view: ExplorerModel) -> None:
    counts = [len(lines) for lines in view.counterparts(view.select_source(7))]
    assert counts == [5, 5, 5, 3, 3]


def test_an_operation_is_followed_through_a_fusion(view: ExplorerModel) -> None:
    multiply = view.select_line(0, 6)
    assert multiply.ops == {6}
    tile, _, _, target, asm = view.counterparts(multiply)
    assert tile == (6,)
    assert [view.panes[3].lines[i].ops for i in target] == [(6, 8)]
    # Assembly without identities is linked by its source line.
    assert asm == (2,)


def test_a_fused_line_leads_back_to_all_it_was_made_of(view: ExplorerModel) -> None:
    fused = view.select_line(3, 4)
    assert view.counterparts(fused)[0] == (6, 8)
    assert view.source_counterparts(fused) == (7,)


def test_a_line_of_the_compiler_has_no_counterparts(view: ExplorerModel) -> None:
    constant = view.select_line(3, 1)
    assert view.panes[3].lines[1].sources == ()
    assert not any(view.counterparts(constant))
    assert view.source_counterparts(constant) == ()


def test_renumbered_values_are_no_change_and_a_removed_line_leaves_a_ghost(view: ExplorerModel) -> None:
    simplified = view.panes[1]
    assert simplified.changes == {"new": 0, "changed": 0, "moved": 0, "gone": 1}
    (ghost,) = simplified.ghosts
    assert ghost.text.strip() == '%1 = tessera.dim {symbol = "n"} : i64'
    assert ghost.before == 2


def test_a_changed_line_keeps_its_operation_and_a_new_one_has_none_of_the_old(view: ExplorerModel) -> None:
    marks = {line.text.split(" = ")[-1].strip(): line.change for line in view.panes[2].lines if line.change}
    assert marks == {"tessera.read %x[%lane] {in_bounds} : f32": "changed", "tessera.fence": "new"}
    assert [ghost.text.strip() for ghost in view.panes[2].ghosts] == ["%3 = tessera.read %x[%lane] : f32"]


def test_stories_tell_birth_end_and_company(view: ExplorerModel) -> None:
    gone, fused, made = view.stories[2], view.stories[6], view.stories[12]
    assert (gone.born, gone.last) == (0, 0)
    assert (fused.born, fused.last, fused.mates) == (0, 3, (8,))
    assert fused.place is not None
    assert (fused.place.line, fused.place.column) == (7, 16)
    assert (made.born, made.place) == (2, None)


def test_a_moved_line_is_neither_new_nor_gone(artifact: Artifact) -> None:
    lines = [Line(f"%{i} = op{i}", (), (i,)) for i in range(6)]
    view = explorer_model(artifact, [Listing("tile", "a", tuple(lines)), Listing("tile", "b", (*lines[1:], lines[0]))])
    assert view.panes[1].changes == {"new": 0, "changed": 0, "moved": 1, "gone": 0}
    assert view.panes[1].lines[-1].change == "moved"


def test_places_in_other_files_are_not_linked_to_this_source(compilation: Compilation) -> None:
    listings = compilation.listings
    line = listings[0].lines[1]
    far = Line(line.text, tuple(type(s)("other.py", s.line, 1, s.line, 2) for s in line.spans), line.ops)
    view = explorer_model(compilation.artifact, [Listing("tile", "", (far,))])
    assert view.panes[0].lines[0].sources == ()


words = st.sampled_from(["%1 = add", "%2 = add", "mul", "}", "store"])
lines = st.lists(st.builds(lambda text, op: Line(text, (), op), words, st.sampled_from([(), (1,), (2,), (1, 2)])))


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines, lines)
def test_changes_account_for_every_line(artifact: Artifact, old: list[Line], new: list[Line]) -> None:
    view = explorer_model(artifact, [Listing("tile", "a", tuple(old)), Listing("tile", "b", tuple(new))])
    telling = [sum(line.text != "}" for line in text) for text in (old, new)]
    changes = view.panes[-1].changes
    if old == new:
        assert not any(changes.values())
    assert telling[1] - changes["new"] - changes["changed"] == telling[0] - changes["gone"]
