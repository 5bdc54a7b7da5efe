"""Views: the three forms of one model."""

import copy
import pickle
import re
from pathlib import Path

import pytest

from tessera.core.base.dtypes import f32
from tessera.viz import mesh_view
from tessera.viz.mesh.model import Mesh, sharded


def test_a_view_is_text_html_and_a_page(tmp_path: Path):
    view = mesh_view(sharded(Mesh.of({"a": 2}), (4,), ("a",), f32, "x</script>"))
    bundle = view._repr_mimebundle_()
    assert bundle["text/plain"] == view.text() == repr(view)
    html = bundle["text/html"]
    data = re.search(r'class="tsr-data">(.*?)</script>', html)
    assert data is not None
    assert "<" not in data[1]
    page = view.save(tmp_path / "page.html").read_text()
    assert html in page
    assert "<title>x&lt;/script&gt; f32[4] on mesh</title>" in page
    assert not re.search(r'(?:src|href)="', page)


def test_questions_that_a_view_does_not_know():
    with pytest.raises(ValueError, match="MeshView knows no message 'explode'"):
        mesh_view(Mesh.of({"a": 1})).answer({"type": "explode"}, lambda _: None)


def test_a_page_is_there_as_a_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    view = mesh_view(Mesh.of({"a": 1}))
    page = view.save(tmp_path / "new" / "folder" / "page.html")
    assert page.read_text().endswith("</html>")
    for place, named in ((tmp_path, tmp_path), (page / "page.html", page)):
        with pytest.raises(OSError, match=re.escape(str(named))):
            view.save(place)
    before = page.read_bytes()

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        view.save(page)
    assert page.read_bytes() == before
    assert [each.name for each in page.parent.iterdir()] == ["page.html"]


def test_copies_share_the_model_and_pickles_are_refused():
    view = mesh_view(Mesh.of({"a": 1}))
    again = copy.copy(view)
    assert (type(again), again.data, again.text()) == (type(view), view.data, view.text())
    with pytest.raises(TypeError, match=r"MeshView cannot be pickled; save\(path\) keeps it as a page"):
        pickle.dumps(view)
