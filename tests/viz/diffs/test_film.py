"""The film of a compilation: every step says what each line was in the step before."""

from typing import Any, cast

import numpy as np
import pytest

import tessera
from support.operator_graphs import QKV, attention
from tessera.core.errors.catalog import NothingToShow
from tessera.session.compiled import Compiled
from tessera.viz import dataflow, film
from tessera.viz.diffs.film import FilmView
from tessera.viz.ir.explorer_view import model_of
from tests.viz.diffs import kernels


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    return kernels.product.compile(*kernels.arguments(), target="cpu")


@pytest.fixture(scope="module")
def view(compiled: Compiled) -> FilmView:
    return film(compiled)


def test_every_pass_is_a_step(view: FilmView, compiled: Compiled):
    passes = [stage for stage in compiled.stages if stage.level == "tile" and stage.name]
    assert [frame.stage for frame in view.data.frames] == [stage.name for stage in passes]
    for frame, stage in zip(view.data.frames, passes, strict=True):
        assert [line.line.text for line in frame.lines] == [line.text for line in stage.lines]
        assert frame.seconds == stage.ran.seconds
    assert view.data.frames[0].told == "the first stage"
    assert view.text() == "film of product for cpu: 11 passes, 4 of them changed something"


def test_a_pass_has_one_count(view: FilmView, compiled: Compiled):
    """The explorer and the dataflow count operations as the film does."""
    model = model_of(compiled)
    counts = {pane.stage: pane.counts for pane in model.stages("tile")}
    assert {stage: each.told for stage, each in counts.items()} == {
        frame.stage: frame.told if number else "no changes" for number, frame in enumerate(view.data.frames)
    }
    steps = {step.name: step.told for step in dataflow(compiled).data.steps[1:]}
    assert steps == {frame.stage: frame.told for frame in view.data.frames[1:]}
    moved = counts["tile-distribute-ranges"]
    assert moved.new == moved.gone == 0 < moved.changed


def test_no_line_was_two(view: FilmView):
    for frame in view.data.frames:
        was = [line.before for line in frame.lines if line.before >= 0]
        assert len(was) == len(set(was))


def test_what_stands_elsewhere_is_followed_and_what_was_split_is_led_back(view: FilmView):
    frames = {frame.stage: frame for frame in view.data.frames}
    before, after = frames["tile-mask-edges"].lines, frames["tile-distribute-ranges"].lines
    store = next(line for line in after if "tessera.store" in line.line.text)
    assert (store.kind, before[store.before].line.text.split()[0]) == ("moved", "tessera.store")
    group = next(line for line in after if "tessera.id group" in line.line.text)
    assert (group.kind, group.before) == ("split", -1)
    assert "scf.for %i" in before[group.made_of[0]].line.text


def test_the_payload_gives_every_text_back(view: FilmView):
    payload = cast("dict[str, Any]", view.payload())
    before: list[str] = []
    for frame, packed in zip(view.data.frames, payload["frames"], strict=True):
        texts = [before[line] if isinstance(line, int) else payload["texts"][line[1]] for line in packed["lines"]]
        assert texts == [line.line.text for line in frame.lines]
        before = texts
    assert len(view.html()) < 100_000


def test_plain_form(view: FilmView):
    plain = view.plain_html()
    assert "1 changed, 2 moved, 2 split" in plain
    assert not any(f"<{name}" in plain for name in ("script", "svg", "iframe"))


def test_what_is_no_kernel():
    with pytest.raises(NothingToShow, match=r"film.* and an object of type int is none"):
        film(3)  # pyright: ignore[reportArgumentType]


def test_a_kernel_in_phases_goes_through_each_pass_once():
    kernel = tessera.compile_source("""
@kernel
def total(x: f32[n], out: mut f32[1]):
    out[0] = 0.0
    for i in tile.range(0, n, step=64):
        out[0] += x[i : i + 64].sum()
""").total
    compiled = kernel.compile(np.ones(256, np.float32), np.zeros(1, np.float32))
    assert len(compiled.phases) > 2
    frames = film(compiled).data.frames
    names = [stage.name for stage in compiled.phases[0].stages if stage.level == "tile" and stage.name]
    assert [frame.stage for frame in frames] == names
    # Nothing is taken for new where the next phase begins: all that a pass keeps in its phase has been there before.
    alone = [film(phase).data.frames for phase in compiled.phases]
    for number, frame in enumerate(frames[1:], 1):
        own = [line for one in alone for line in one[number].lines]
        joined = [line for line in frame.lines if not line.line.text.startswith("// phase")]
        assert [line.before < 0 for line in joined] == [line.before < 0 for line in own]


def test_passes_on_a_graph_end_with_its_kernels():
    view = film(attention, *QKV)
    assert [frame.stage for frame in view.data.frames] == ["capture", "graph-simplify", "schedule-fuse"]
    assert [frame.told for frame in view.data.frames] == ["the first stage", "5 removed, 3 changed", "1 added, 7 moved"]
    last, before = view.data.frames[-1].lines, view.data.frames[-2].lines
    for line in last:
        if line.before >= 0 and line.line.record.startswith("g"):
            assert before[line.before].line.record == line.line.record
    assert view.title == "film of attention"
    assert view.text() == "film of attention: 3 passes, 2 of them changed something"
