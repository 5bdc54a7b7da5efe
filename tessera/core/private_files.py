"""Files that only their user can have written: compiled kernels, which are machine code, tuning logs and crash reports.

A file is trusted when the user owns it and no one else may write it, and a folder when its owner is the user or root
and no one else may put files there, sticky ones like /tmp included.  New folders are 0700 and new files 0600, whatever
the umask; files are opened without following links.  Systems without owners of files trust everything.
"""

import errno
import os
import stat
import tempfile
from pathlib import Path
from typing import Final

_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
_SAFELY: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_FILE: Final = 0o600
_FOLDER: Final = 0o700


class Untrusted(OSError):
    """A file or folder that another user may have written."""

    def __init__(self, fault: str) -> None:
        super().__init__(errno.EPERM, fault)
        self.fault = fault

    def __str__(self) -> str:
        return self.fault


def folder_fault(folder: Path) -> str:
    """Say why files in `folder` are not to be trusted; an empty string when they are, or when it does not exist."""
    try:
        status = folder.stat()
    except OSError:
        return ""
    return _fault(folder, status, root=True)


def require_private(*folders: Path) -> None:
    """Raise Untrusted for the first of `folders` that has a fault."""
    for folder in folders:
        fault = folder_fault(folder)
        if fault:
            raise Untrusted(fault)


def make_folder(folder: Path) -> None:
    """Create `folder` and what is missing above it, for the user alone.  Raises OSError, Untrusted."""
    missing = [folder]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for one in reversed(missing):
        one.mkdir(mode=_FOLDER, exist_ok=True)
    require_private(folder)


def read_private(path: Path) -> bytes:
    """Return the bytes of a file that the user alone can have written.  Raises OSError, Untrusted."""
    with open(path, "rb", opener=_open) as file:
        status = os.fstat(file.fileno())
        fault = _fault(path, status) if stat.S_ISREG(status.st_mode) else f"{path} is not a file"
        if fault:
            raise Untrusted(fault)
        return file.read()


def write_new(path: Path, data: bytes) -> None:
    """Create a file that does not exist.  Raises OSError where something, be it a link, has its name."""
    with open(path, "xb", opener=_open) as file:
        file.write(data)


def replace_file(path: Path, data: bytes) -> None:
    """Write a file whole or not at all: readers see the old one or the new one.  Raises OSError."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _open(path: str, flags: int) -> int:
    """Open without following a link, and without waiting at a pipe that lies in place of the file."""
    return os.open(path, flags | _SAFELY, _FILE)


def _fault(path: Path, status: os.stat_result, *, root: bool = False) -> str:
    if not hasattr(os, "geteuid"):
        return ""
    if status.st_uid != os.geteuid() and not (root and status.st_uid == 0):
        return f"{path} belongs to another user (uid {status.st_uid})"
    return f"others may write to {path}" if status.st_mode & _OTHERS else ""
