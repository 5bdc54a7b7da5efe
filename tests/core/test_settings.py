"""Settings: where they come from, what is refused."""

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tessera.core.errors.catalog import BadSetting
from tessera.core.settings import configure, current, from_environment, overridden


def test_environment():
    found = from_environment({
        "TESSERA_CACHE_DIR": "/somewhere", "TESSERA_THREADS": "3", "TESSERA_TARGET": "interpret", "TESSERA_CACHE": "0",
        "TESSERA_COMPILE_TIMEOUT": "1.5", "HOME": "/root",
    })  # fmt: skip
    assert found.cache_dir == Path("/somewhere")
    assert (found.threads, found.target, found.cache, found.compile_timeout) == (3, "interpret", False, 1.5)


def test_defaults_lie_in_the_user_cache():
    found = from_environment({})
    assert found.cache_dir.name == "tessera"
    assert found.threads >= 1
    assert found.target == "cpu"


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("TESSERA_THREADS", "many", "TESSERA_THREADS is 'many'"),
        ("TESSERA_THREADS", "0", "threads is 0, it must be an integer, at least 1 and at most 4096"),
        ("TESSERA_TARGET", "gpu", "target is 'gpu', it must be one of cpu, interpret, cuda"),
        ("TESSERA_CACHE", "maybe", "TESSERA_CACHE is 'maybe'"),
        ("TESSERA_COMPILE_TIMEOUT", "-1", "more than 0 seconds"),
    ],
)
def test_bad_values(variable: str, text: str, message: str):
    with pytest.raises(BadSetting, match="TSR-E902") as caught:
        from_environment({variable: text})
    assert message in str(caught.value)


def test_unknown_variable_warns():
    with pytest.warns(UserWarning, match="TESSERA_THREAD is no setting"):
        from_environment({"TESSERA_THREAD": "2"})


def test_overridden_and_configure():
    before = current()
    with overridden(threads=7) as inside:
        assert inside.threads == current().threads == 7
        configure(target="cuda:sm_80")
        assert current().target == "cuda:sm_80"
    assert current() is before
    with pytest.raises(BadSetting, match="'thread' is no setting"):
        configure(thread=2)  # pyright: ignore[reportCallIssue] - the mistake


def test_an_empty_variable_is_none():
    found = from_environment({"TESSERA_CACHE_DIR": "", "TESSERA_THREADS": ""})
    assert found == from_environment({})


class Folder:
    """A path that is no `Path`."""

    def __fspath__(self) -> str:
        return "~/cache"


@pytest.mark.parametrize("given", ["scratch", Path("scratch"), Folder(), "~/cache"])
def test_cache_dir_takes_text_and_paths(given: str | PathLike[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)  # whatever compiles in the background may write to it
    monkeypatch.setenv("HOME", str(tmp_path))
    with overridden(cache_dir=given) as inside:
        assert inside.cache_dir == tmp_path / Path(given).name


def test_cache_dir_stays_where_it_was_when_the_working_directory_changes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.chdir(tmp_path)
    with overridden(cache_dir="scratch") as inside:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir("elsewhere")
        assert inside.cache_dir == tmp_path / "scratch"


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("cache_dir", 3, "a path"),
        ("cache_dir", "", "a path"),
        ("cache_dir", b"scratch", "a path"),
        ("cache_dir", "a\0b", "a path"),
        ("threads", "4", "an integer, at least 1 and at most 4096"),
        ("threads", True, "an integer"),
        ("threads", 2.0, "an integer"),
        ("workers", 0, "an integer, at least 1"),
        ("cache", 1, "True or False"),
        ("cache_bytes", -1, "a number of bytes, at least 0"),
        ("worker_bytes", None, "a number of bytes"),
        ("compile_timeout", float("nan"), "a number of seconds"),
        ("compile_timeout", "60", "a number of seconds"),
        ("target", None, "one of cpu, interpret"),
    ],
)
def test_values_of_the_wrong_kind(name: str, value: Any, wanted: str):
    before = current()
    with pytest.raises(BadSetting) as caught:
        configure(**{name: value})
    assert caught.value.message.startswith(f"{name} is {value!r}, it must be {wanted}")
    assert caught.value.hint.startswith(f"write configure({name}=")
    assert current() is before


def test_numpys_integers_are_taken():
    with overridden(threads=np.int64(3)) as inside:  # pyright: ignore[reportArgumentType] - a number of NumPy counts as one
        assert inside.threads == 3
        assert type(inside.threads) is int
