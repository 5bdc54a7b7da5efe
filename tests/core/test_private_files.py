"""Files of the user's own: modes, owners, links."""

import os
from pathlib import Path

import pytest

from tessera.core.private_files import (
    Untrusted,
    folder_fault,
    make_folder,
    read_private,
    replace_file,
    require_private,
    write_new,
)

OTHER = 65534


@pytest.fixture(autouse=True)
def _generous_umask():
    """The files' modes must not depend on it."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_folders_are_the_users_alone(tmp_path: Path):
    make_folder(tmp_path / "a" / "b")
    assert (mode(tmp_path / "a"), mode(tmp_path / "a" / "b")) == (0o700, 0o700)
    make_folder(tmp_path / "a" / "b")
    assert folder_fault(tmp_path / "a" / "b") == ""


def test_files_are_the_users_alone(tmp_path: Path):
    write_new(tmp_path / "new", b"1")
    replace_file(tmp_path / "replaced", b"2")
    replace_file(tmp_path / "replaced", b"3")
    assert (mode(tmp_path / "new"), mode(tmp_path / "replaced")) == (0o600, 0o600)
    assert (read_private(tmp_path / "new"), read_private(tmp_path / "replaced")) == (b"1", b"3")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "replaced"]


def test_a_failed_replacement_leaves_nothing(tmp_path: Path):
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    with pytest.raises(OSError, match="folder"):
        replace_file(tmp_path / "folder", b"")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("bits", [0o777, 0o1777, 0o770, 0o707, 0o720])
def test_folders_that_others_may_write(tmp_path: Path, bits: int):
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(bits)
    with pytest.raises(Untrusted) as caught:
        require_private(tmp_path, folder)
    assert str(caught.value) == caught.value.fault == f"others may write to {folder}"
    with pytest.raises(Untrusted):
        make_folder(folder)


@pytest.mark.parametrize("bits", [0o700, 0o755, 0o500])
def test_folders_that_only_the_user_may_write(tmp_path: Path, bits: int):
    tmp_path.chmod(bits)
    require_private(tmp_path, tmp_path / "missing")
    tmp_path.chmod(0o700)


@pytest.mark.parametrize("bits", [0o666, 0o620, 0o602])
def test_files_that_others_may_write(tmp_path: Path, bits: int):
    path = tmp_path / "file"
    write_new(path, b"data")
    path.chmod(bits)
    with pytest.raises(Untrusted, match="others may write"):
        read_private(path)


def test_another_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "file"
    write_new(path, b"data")
    monkeypatch.setattr(os, "geteuid", lambda: OTHER)
    with pytest.raises(Untrusted, match=f"belongs to another user .uid {path.stat().st_uid}."):
        read_private(path)
    # Folders of root's are the system's; files of root's are not the user's own.
    assert (folder_fault(tmp_path) == "") is (tmp_path.stat().st_uid == 0)


def test_links_are_not_followed(tmp_path: Path):
    write_new(tmp_path / "precious", b"precious")
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="link"):
        read_private(tmp_path / "link")
    with pytest.raises(FileExistsError):
        write_new(tmp_path / "link", b"junk")
    replace_file(tmp_path / "link", b"own")
    assert (tmp_path / "precious").read_bytes() == b"precious"
    assert not (tmp_path / "link").is_symlink()


def test_what_is_no_file(tmp_path: Path):
    with pytest.raises(IsADirectoryError):
        read_private(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Untrusted, match="is not a file"):
        read_private(tmp_path / "pipe")
    with pytest.raises(OSError, match="pipe"):
        write_new(tmp_path / "pipe", b"")
