"""Settings: where they come from, what is refused."""

from pathlib import Path

import pytest

from tessera.core.mistakes import BadSetting
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
        configure(thread=2)
