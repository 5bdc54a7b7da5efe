"""The disk cache: what is stored comes back, what is damaged does not, many processes agree."""

import json
import os
import subprocess
import sys
from pathlib import Path

import filelock
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.artifacts import SOURCE, SPAN, scale_artifact
from support.interrupts import ctrl_c_inside, interrupted_everywhere
from tessera.core.compilation import Compilation
from tessera.core.listing import Line, Listing
from tessera.lowering.artifact_cache.codec import Place
from tessera.lowering.artifact_cache.store import Cache, CacheEntry, entry_of

PLACE = Place(SOURCE, SPAN)
KEY = "ab" * 20
PLAIN = entry_of(Compilation(scale_artifact()))
OBSERVED = entry_of(Compilation(scale_artifact(), (Listing("tile", "", (Line("x", (SPAN,), (1,)),)),)))


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "kernels", 1 << 20)


def file_of(cache: Cache) -> Path:
    (path,) = cache.folder.glob("*.kernel")
    return path


def test_what_is_put_is_got(cache: Cache):
    assert cache.get(KEY, PLACE) is None
    cache.put(KEY, OBSERVED)
    entry = cache.get(KEY, PLACE)
    assert entry == OBSERVED
    assert entry.observed
    assert entry.levels()[0][0].text == "x"
    assert (cache.counters.hits, cache.counters.misses) == (1, 1)


def test_no_temporary_file_stays(cache: Cache):
    cache.put(KEY, PLAIN)
    assert [p.name for p in cache.folder.iterdir()] == [f"{KEY}.kernel"]


def test_every_cut_is_noticed(cache: Cache):
    cache.put(KEY, PLAIN)
    whole = file_of(cache).read_bytes()
    for size in (0, 1, 20, len(whole) // 2, len(whole) - 1):
        file_of(cache).write_bytes(whole[:size])
        assert cache.get(KEY, PLACE) is None
        cache.put(KEY, PLAIN)
    assert cache.counters.damaged == 5


@given(st.data())
def test_every_changed_byte_is_noticed(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject):
    cache = Cache(tmp_path_factory.mktemp("cache"), 1 << 20)
    cache.put(KEY, PLAIN)
    path = file_of(cache)
    whole = bytearray(path.read_bytes())
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(whole)
    assert cache.get(KEY, PLACE) is None
    assert not path.exists()


def test_an_entry_under_another_key_is_refused(cache: Cache):
    cache.put(KEY, PLAIN)
    file_of(cache).rename(cache.folder / f"{'cd' * 20}.kernel")
    assert cache.get("cd" * 20, PLACE) is None


def test_an_older_format_is_rebuilt(cache: Cache):
    cache.put(KEY, PLAIN)
    path = file_of(cache)
    data = bytearray(path.read_bytes())
    data[8] += 1
    path.write_bytes(data)
    assert cache.get_or_build(KEY, PLACE, lambda: OBSERVED) == OBSERVED
    assert cache.get(KEY, PLACE) == OBSERVED


def test_a_wish_to_look_builds_again(cache: Cache):
    cache.put(KEY, PLAIN)
    assert cache.get_or_build(KEY, PLACE, lambda: OBSERVED) == PLAIN
    assert cache.get_or_build(KEY, PLACE, lambda: OBSERVED, observed=True) == OBSERVED
    assert cache.get_or_build(KEY, PLACE, lambda: pytest.fail("built again")) == OBSERVED


def test_a_failed_build_leaves_nothing(cache: Cache):
    def fail() -> CacheEntry:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        cache.get_or_build(KEY, PLACE, fail)
    assert cache.statistics().entries == 0
    assert cache.get_or_build(KEY, PLACE, lambda: PLAIN) == PLAIN


def test_least_recently_used_goes_first(tmp_path: Path):
    cache = Cache(tmp_path, 1 << 30)
    keys = [f"{i:02x}" * 20 for i in range(10)]
    for age, key in enumerate(keys):
        cache.put(key, PLAIN)
        os.utime(cache.folder / f"{key}.kernel", (1000 + age, 1000 + age))
    cache.get(keys[0], PLACE)  # used just now
    size = cache.statistics().bytes // 10
    small = Cache(tmp_path, 5 * size)
    small.put("ff" * 20, PLAIN)
    left = {path.stem for path in tmp_path.glob("*.kernel")}
    assert keys[0] in left
    assert "ff" * 20 in left
    assert keys[1] not in left
    assert len(left) == 4
    assert small.counters.evicted == 7


def test_clear_and_statistics(cache: Cache):
    cache.put(KEY, PLAIN)
    cache.put("cd" * 20, OBSERVED)
    found = cache.statistics()
    assert found.entries == 2
    assert found.bytes == sum(path.stat().st_size for path in cache.folder.glob("*.kernel"))
    assert cache.clear() == 2
    assert cache.statistics().entries == 0


def test_a_folder_that_cannot_be_written_costs_a_warning(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    cache = Cache(tmp_path / "file" / "kernels", 1 << 20)
    with pytest.warns(RuntimeWarning, match="compiled kernels are not kept"):
        assert cache.get_or_build(KEY, PLACE, lambda: PLAIN) == PLAIN
    assert cache.get_or_build(KEY, PLACE, lambda: PLAIN) == PLAIN  # warned once


@pytest.mark.parametrize("shared", [".", "kernels"])
@pytest.mark.parametrize("bits", [0o777, 0o1777, 0o775])
def test_a_folder_that_others_may_write_is_not_used(tmp_path: Path, shared: str, bits: int):
    folder = tmp_path / "cache"
    own = Cache(folder / "kernels", 1 << 20)
    own.put(KEY, OBSERVED)
    (folder / shared).chmod(bits)
    cache = Cache(folder / "kernels", 1 << 20)
    with pytest.warns(RuntimeWarning) as caught:
        assert cache.get_or_build(KEY, PLACE, lambda: PLAIN) == PLAIN
    path = folder / shared
    remedy = f"Try: chmod -R go-w {folder}, or set TESSERA_CACHE_DIR to a folder of your own"
    messages = [str(warning.message) for warning in caught]
    assert messages == [f"compiled kernels are not kept: others may write to {path}. {remedy}"]
    assert cache.get_or_build(KEY, PLACE, lambda: PLAIN) == PLAIN  # warned once
    assert not (folder / "kernels" / "locks").exists()
    (folder / shared).chmod(0o755)
    assert own.get(KEY, PLACE) == OBSERVED  # as it was


def test_a_planted_entry_is_not_run(cache: Cache):
    cache.put(KEY, OBSERVED)
    file_of(cache).chmod(0o666)
    assert cache.get_or_build(KEY, PLACE, lambda: PLAIN) == PLAIN
    assert cache.counters.damaged == 1
    assert file_of(cache).stat().st_mode & 0o777 == 0o600


def test_another_users_entry_is_not_run(cache: Cache, monkeypatch: pytest.MonkeyPatch):
    cache.put(KEY, OBSERVED)
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    monkeypatch.setattr(
        "tessera.lowering.artifact_cache.store.require_private", lambda *_: None
    )  # the folders count as fit
    assert cache.get(KEY, PLACE) is None


def test_a_link_in_place_of_an_entry_is_replaced(cache: Cache, tmp_path: Path):
    cache.put(KEY, OBSERVED)
    kept = tmp_path / "kept"
    file_of(cache).rename(kept)
    (cache.folder / f"{KEY}.kernel").symlink_to(kept)
    assert cache.get(KEY, PLACE) is None
    cache.put(KEY, PLAIN)
    assert cache.get(KEY, PLACE) == PLAIN
    assert not file_of(cache).is_symlink()
    assert kept.exists()


WORKER = """
import sys, time, os
from pathlib import Path
sys.path[:0] = [{root!r}, {tests!r}]
from support.artifacts import SOURCE, SPAN, scale_artifact
from tessera.core.compilation import Compilation
from tessera.lowering.artifact_cache.store import Cache, entry_of
from tessera.lowering.artifact_cache.codec import Place
folder = Path({folder!r})
def build():
    with open(folder / "builds", "a") as file:
        file.write("built\\n")
    while len((folder / "asked").read_text()) < 8:  # until all of them are about to ask
        pass
    return entry_of(Compilation(scale_artifact()))
print("ready", flush=True)
sys.stdin.readline()
with open(folder / "asked", "a") as file:
    file.write(".")
entry = Cache(folder, 1 << 20).get_or_build("{key}", Place(SOURCE, SPAN), build)
print(entry.artifact.name, len(entry.artifact.code))
"""


def test_eight_processes_build_once(tmp_path: Path):
    root = Path(__file__).resolve().parents[3]
    script = WORKER.format(root=str(root), tests=str(root / "tests"), folder=str(tmp_path), key=KEY)
    processes = [
        subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate()[0] for process in processes]
    assert answers == [f"scale {len(scale_artifact().code)}\n"] * 8
    assert (tmp_path / "builds").read_text() == "built\n"


def test_ctrl_c_between_any_two_lines_leaves_no_key_locked(cache: Cache):
    def check(line: int) -> None:
        cache.clear()
        with filelock.FileLock(cache.folder / "locks" / KEY[:2], timeout=0):  # a Timeout is a failure
            pass

    def build() -> None:
        cache.get_or_build(KEY, PLACE, lambda: PLAIN)

    build()
    check(-1)
    assert interrupted_everywhere(build, check, "artifact_cache/store.py", "/filelock/") > 200


def test_ctrl_c_ends_the_wait_for_another_who_builds(cache: Cache):
    cache.get_or_build(KEY, PLACE, lambda: PLAIN)
    cache.clear()
    with filelock.FileLock(cache.folder / "locks" / KEY[:2]), ctrl_c_inside(Cache.get_or_build):
        cache.get_or_build(KEY, PLACE, lambda: PLAIN)
    assert cache.get(KEY, PLACE) is None


def test_the_entry_is_no_pickle(cache: Cache):
    cache.put(KEY, PLAIN)
    data = file_of(cache).read_bytes()
    start = data.index(b"{")
    assert json.loads(data[start : data.index(PLAIN.artifact.code)])["name"] == "scale"
