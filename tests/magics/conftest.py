"""An IPython shell as a notebook has it, without history on disk, and a cache of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from traitlets.config import Config

from support import shell as ipython
from support.shell import Shell
from tessera.core.settings import overridden
from tessera.session.session import Session


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    yield ipython.start(config)
    ipython.end()


@pytest.fixture
def loaded(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """The shell with our extension."""
    monkeypatch.setattr(Session, "warm", lambda session: None)
    with overridden(cache_dir=tmp_path / "cache"):
        shell.run_line_magic("load_ext", "tessera_magics")
        yield shell
        shell.run_line_magic("unload_ext", "tessera_magics")
