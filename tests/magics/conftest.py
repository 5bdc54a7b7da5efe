"""An IPython shell as a notebook has it, without history on disk, and a cache of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from tessera.core.settings import overridden
from tessera.session.session import Session


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    shell = InteractiveShell.instance(config=config)
    yield shell
    InteractiveShell.clear_instance()


@pytest.fixture
def loaded(shell: InteractiveShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    """The shell with our extension."""
    monkeypatch.setattr(Session, "warm", lambda session: None)
    with overridden(cache_dir=tmp_path / "cache"):
        shell.run_line_magic("load_ext", "tessera_magics")
        yield shell
        shell.run_line_magic("unload_ext", "tessera_magics")
