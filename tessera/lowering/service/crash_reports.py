"""Crash reports: what the compiler was doing when it died, for a person to read and for the worker to replay."""

import os
import pickle
import platform
import re
import secrets
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tessera.core.private_files import make_folder, require_private, write_new
from tessera.core.program.program import Program
from tessera.core.program.text import to_text
from tessera.lowering.artifact_cache.key import toolchain
from tessera.lowering.service.protocol import Compile

_KEPT: Final = 20


@dataclass(frozen=True, slots=True)
class CrashReport:
    """One crash: the kernel's name, the cause in a line, what the compiler said last, and the request itself."""

    name: str
    cause: str
    details: str
    request: Compile


def write_report(report: CrashReport, folder: Path) -> Path:
    """Write NAME.pickle (to replay) and NAME.txt (to read) into `folder`, and return the former's path.

    The newest 20 reports are kept.  A report goes to a folder of the user's own in the temporary directory where
    `folder` cannot be written, or where others may write too.
    """
    try:
        require_private(folder.parent)
        make_folder(folder)
        path = _write(report, folder)
    except OSError:
        folder = _own_temporary_folder()
        path = _write(report, folder)
    for old in sorted(folder.glob("*.pickle"), key=_age)[:-_KEPT]:
        old.unlink(missing_ok=True)
        old.with_suffix(".txt").unlink(missing_ok=True)
    return path


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # another process tidied up first
        return 0.0


def _own_temporary_folder() -> Path:
    """One for all reports of a user; a new one where its name is taken by something that is not the user's alone."""
    owner = os.geteuid() if hasattr(os, "geteuid") else os.getpid()
    folder = Path(tempfile.gettempdir(), f"tessera-crashes-{owner}")
    try:
        if folder.is_symlink():
            raise FileExistsError(folder)
        make_folder(folder)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="tessera-crashes-"))
    return folder


def _write(report: CrashReport, folder: Path) -> Path:
    plain = re.sub(r"\W", "_", report.name, flags=re.ASCII)  # file systems differ in what they can spell
    path = folder / f"{plain}-{secrets.token_hex(4)}.pickle"
    write_new(path, pickle.dumps(report.request, protocol=pickle.HIGHEST_PROTOCOL))
    write_new(path.with_suffix(".txt"), _text(report, path).encode(errors="backslashreplace"))
    return path


def _text(report: CrashReport, path: Path) -> str:
    program, target = report.request.program, report.request.target
    versions = ", ".join(f"{name} {version}" for name, version in sorted(toolchain(target.name).items()))
    parts = [
        f"kernel:    {report.name} ({program.span})",
        f"cause:     {report.cause}",
        f"target:    {target}",
        f"options:   {dict(program.options)}",
        f"versions:  {versions}",
        f"platform:  {platform.platform()}, Python {platform.python_version()}",
        f"again:     python -m tessera.lowering.service.worker --replay {path}",
        "",
        "what the compiler said last:",
        report.details.rstrip() or "(nothing)",
        "",
        "the kernel:",
        program.source.text.rstrip(),
        "",
        "as a program:",
        _program_text(program),
        "",
    ]
    return "\n".join(parts)


def _program_text(program: Program) -> str:
    try:
        return to_text(program).rstrip()
    except Exception as error:  # noqa: BLE001 - a program that cannot be printed may be why the compiler failed
        return f"(cannot be printed: {error!r})"
