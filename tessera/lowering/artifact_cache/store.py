"""The content-addressed store of compiled kernels on disk, shared by all processes of a user.

An entry is one file, named by its key: a header (format, sizes, checksum), the artifact as JSON, its machine code, and
the compressed listings.  Entries are written to a temporary file and renamed, so a reader sees all of one or nothing;
whatever is damaged, cut off or of another format is deleted and built again.  Processes that want one kernel at the
same time agree by a lock file on who builds it.
"""

import hashlib
import os
import struct
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tessera.core.artifact import Artifact
from tessera.core.base.interrupts import LOOK, DeferredInterrupts, deferred_interrupts
from tessera.core.compilation import Compilation
from tessera.core.events import PassRan
from tessera.core.listing import Listing
from tessera.core.private_files import Untrusted, make_folder, read_private, replace_file, require_private
from tessera.lowering.artifact_cache.codec import (
    Malformed,
    Place,
    pack_artifact,
    pack_levels,
    unpack_artifact,
    unpack_levels,
)

if TYPE_CHECKING:
    from filelock import BaseFileLock

FORMAT: Final = 1
_MAGIC: Final = b"TESSERA\0"
# Magic, format, then the sizes of the three parts, then a checksum of everything else, key included.
_HEADER: Final = struct.Struct("<8sIQQQ32s")
_SUFFIX: Final = ".kernel"
_PUTS_BETWEEN_SWEEPS: Final = 32


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """One stored kernel: its artifact, and its levels still packed (launching does not need them)."""

    artifact: Artifact
    packed: bytes

    @property
    def observed(self) -> bool:
        """Return whether the levels were recorded."""
        return bool(self.packed)

    def levels(self) -> tuple[tuple[Listing, ...], tuple[PassRan, ...]]:
        """Unpack the listings and pass records."""
        return unpack_levels(self.packed, Place(self.artifact.source, self.artifact.span))


def entry_of(compilation: Compilation) -> CacheEntry:
    """Return `compilation` as an entry."""
    return CacheEntry(compilation.artifact, pack_levels(compilation))


@dataclass(slots=True)
class Counters:
    """Count what one process has done with the cache since it started."""

    hits: int = 0
    misses: int = 0
    damaged: int = 0
    evicted: int = 0


@dataclass(frozen=True, slots=True)
class Statistics:
    """The cache at one moment: `entries` files of `bytes` in `folder`, and this process's counters."""

    folder: Path
    entries: int
    bytes: int
    limit: int
    hits: int
    misses: int
    damaged: int
    evicted: int


@dataclass(slots=True)
class Cache:
    """The store in `folder`, kept below `limit` bytes by dropping what was not used for longest.

    Entries are machine code, which runs in the user's name: those of folders that others may write to, or that belong
    to another user, are neither read nor written (see `tessera.core.private_files`).
    """

    folder: Path
    limit: int
    counters: Counters = field(default_factory=Counters)
    _puts: int = 0
    _warned: bool = False

    def get(self, key: str, place: Place) -> CacheEntry | None:
        """Return the entry of `key`, as if compiled from `place`, or None."""
        path = self._path(key)
        try:
            require_private(*self._folders)
        except Untrusted as error:
            self._warn(error)
            self.counters.misses += 1
            return None
        try:
            entry = _parse(read_private(path), key, place)
        except (Malformed, Untrusted):
            self.counters.damaged += 1
            self.counters.misses += 1
            _remove(path)
            return None
        except OSError:
            self.counters.misses += 1
            return None
        self.counters.hits += 1
        _touch(path)
        return entry

    def put(self, key: str, entry: CacheEntry) -> None:
        """Store `entry`; a folder that cannot be written costs one warning and nothing else."""
        try:
            make_folder(self.folder)
            require_private(*self._folders)
            replace_file(self._path(key), _serialise(key, entry))
        except OSError as error:
            self._warn(error)
            return
        if self._puts % _PUTS_BETWEEN_SWEEPS == 0:
            self._sweep()
        self._puts += 1

    def get_or_build(
        self, key: str, place: Place, build: Callable[[], CacheEntry], *, observed: bool = False
    ) -> CacheEntry:
        """Return the entry of `key`, building and storing it when it is missing (or was not observed but must be).

        Of many processes that ask at once, one builds and the others wait for it; when it fails, each tries itself.
        """
        entry = self.get(key, place)
        if entry is not None and (entry.observed or not observed):
            return entry
        with deferred_interrupts() as deferral:
            lock = self._lock(key, deferral)
            try:
                with deferral.lifted():
                    if lock is not None:
                        entry = self.get(key, place)
                        if entry is not None and (entry.observed or not observed):
                            return entry
                    entry = build()
                    self.put(key, entry)
            finally:
                if lock is not None:
                    lock.release()
        return entry

    def statistics(self) -> Statistics:
        """Return what the cache holds and what this process did with it."""
        files = list(self._files())
        counters = self.counters
        return Statistics(
            self.folder, len(files), sum(size for _, size, _ in files), self.limit,
            counters.hits, counters.misses, counters.damaged, counters.evicted,
        )  # fmt: skip

    def clear(self) -> int:
        """Delete every entry and return how many there were."""
        count = 0
        for _, _, path in list(self._files()):
            count += _remove(path)
        return count

    @property
    def _folders(self) -> tuple[Path, Path]:
        """Return the folder and its parent: a user who may write there could put another folder in its place."""
        return self.folder.parent, self.folder

    def _warn(self, error: OSError) -> None:
        if self._warned:
            return
        self._warned = True
        text = f"compiled kernels are not kept: {error}"
        if isinstance(error, Untrusted):
            text += f". Try: chmod -R go-w {self.folder.parent}, or set TESSERA_CACHE_DIR to a folder of your own"
        warnings.warn(text, RuntimeWarning, stacklevel=2)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{_SUFFIX}"

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        """Return last use (seconds), size and path of every entry."""
        try:
            listing = list(os.scandir(self.folder))
        except FileNotFoundError:
            return
        for item in listing:
            if not item.name.endswith(_SUFFIX):
                continue
            try:
                status = item.stat()
            except FileNotFoundError:  # another process dropped it
                continue
            yield status.st_mtime, status.st_size, Path(item.path)

    def _sweep(self) -> None:
        """Drop the entries used longest ago until a tenth of the limit is free again."""
        files = sorted(self._files())
        total = sum(size for _, size, _ in files)
        if total <= self.limit:
            return
        for _, size, path in files:
            if total <= self.limit * 9 // 10:
                break
            total -= size
            self.counters.evicted += _remove(path)

    def _lock(self, key: str, deferral: DeferredInterrupts) -> "BaseFileLock | None":
        """Return the lock of `key`, taken; None where the folder allows no locks."""
        import filelock  # noqa: PLC0415 - needed only to build

        try:
            require_private(*self._folders)
            folder = self.folder / "locks"
            make_folder(folder)
            # 256 lock files for all keys: they are never deleted, since deleting a lock file races with its users.
            lock = filelock.FileLock(folder / key[:2], mode=0o600, poll_interval=0.01)
            while not lock.is_locked:
                deferral.deliver()
                with suppress(filelock.Timeout):
                    lock.acquire(LOOK)
        except OSError:
            return None
        return lock


def _checksum(key: str, *parts: bytes) -> bytes:
    digest = hashlib.blake2b(key.encode(), digest_size=32)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.digest()


def _serialise(key: str, entry: CacheEntry) -> bytes:
    parts = (pack_artifact(entry.artifact), entry.artifact.code, entry.packed)
    return _HEADER.pack(_MAGIC, FORMAT, *map(len, parts), _checksum(key, *parts)) + b"".join(parts)


def _parse(data: bytes, key: str, place: Place) -> CacheEntry:
    if len(data) < _HEADER.size:
        raise Malformed("shorter than its header")
    magic, version, meta_size, code_size, levels_size, checksum = _HEADER.unpack_from(data)
    if magic != _MAGIC or version != FORMAT:
        raise Malformed(f"format {version}")
    if len(data) != _HEADER.size + meta_size + code_size + levels_size:
        raise Malformed("cut off")
    code_at = _HEADER.size + meta_size
    levels_at = code_at + code_size
    parts = (data[_HEADER.size : code_at], data[code_at:levels_at], data[levels_at:])
    if _checksum(key, *parts) != checksum:
        raise Malformed("checksum")
    return CacheEntry(unpack_artifact(parts[0], parts[1], place), parts[2])


def _touch(path: Path) -> None:
    """Mark as used now; a read-only cache is still a cache."""
    try:
        os.utime(path)
    except OSError:
        return


def _remove(path: Path) -> int:
    try:
        path.unlink()
    except OSError:  # gone already, or not ours to delete
        return 0
    return 1


__all__ = ["FORMAT", "Cache", "CacheEntry", "Counters", "Place", "Statistics", "entry_of"]
