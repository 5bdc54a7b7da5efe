"""`%tessera doctor` and `%tessera targets`: what this machine can do, what is missing, and how to get it."""

import ctypes
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Final

import tessera
from tessera.core.private_files import folder_fault
from tessera.core.settings import current
from tessera.core.targets import TARGETS, TargetKind
from tessera.lowering.base.cuda_toolkit import PACKAGES, find_tool, version
from tessera.session.session import resolve_target, session
from tessera.viz.table import Table

_PACKAGES: Final = (
    ("numpy", "arrays"),
    ("torch-mlir", "MLIR, the compiler's levels"),
    ("llvmlite", "LLVM, machine code"),
    ("ml_dtypes", "bfloat16"),
    ("ipython", "magics and display"),
)
_MIB: Final = 1 << 20


def doctor() -> Table:
    """Return a report on versions, targets, tools, the cache and the compiler process."""
    rows = [
        ("tessera", tessera.__version__, f"Python {platform.python_version()} on {platform.machine()}"),
        *(_package(name, use) for name, use in _PACKAGES),
        *(("target " + name, state, what) for name, what, state in _targets()),
        *(_tool(name) for name in PACKAGES),
        _cache(),
        _worker(),
    ]
    return Table("", ("what", "state", "remark"), tuple(rows))


def targets() -> Table:
    """Return a table of the targets: what each is for, and whether it works here."""
    return Table("", ("target", "for", "here"), tuple(_targets()))


def _targets() -> list[tuple[str, str, str]]:
    gpus = _gpu_count()
    found: list[tuple[str, str, str]] = []
    for kind in TARGETS.values():
        purpose = ": ".join(filter(None, [kind.summary, ", ".join(kind.architectures)]))
        state = f"{_compiles(kind)}; GPUs found: {gpus}" if kind.on_gpu else "ready"
        if kind.native:
            state += f": {resolve_target(kind.name).arch}"
        found.append((kind.name, purpose, state + (" (default)" if kind.name == current().target else "")))
    return found


def _compiles(kind: TargetKind) -> str:
    """Return how far kernels for GPUs are compiled with the tools that are installed."""
    if all(find_tool(name) for name in kind.tools):
        return "compiles, to look at"
    if "ptx" in kind.levels:
        return f"compiles to PTX; SASS needs {' and '.join(kind.tools)}"
    return "needs " + " and ".join(name for name in kind.tools if find_tool(name) is None)


def _package(name: str, use: str) -> tuple[str, str, str]:
    try:
        return name, metadata.version(name), use
    except metadata.PackageNotFoundError:
        return name, "missing", f"{use}: pip install {name}"


def _tool(name: str) -> tuple[str, str, str]:
    path = find_tool(name)
    if path is None:
        purpose = "the target cuda_tile" if name == "tileiras" else "the level sass"
        return name, "missing", f"for {purpose}: pip install {PACKAGES[name]}"
    return name, version(name), shown_path(path)


def _cache() -> tuple[str, str, str]:
    cache = session().cache
    if cache is None:
        return "cache", "off", "switched off by the setting `cache` (TESSERA_CACHE)"
    fault = folder_fault(cache.folder.parent) or folder_fault(cache.folder)
    if fault:
        return "cache", "not used", f"{fault}: chmod -R go-w {cache.folder.parent}, or set TESSERA_CACHE_DIR"
    found = cache.statistics()
    return "cache", f"{found.entries} kernels", f"{found.bytes / _MIB:.1f} MiB in {shown_path(found.folder)}"


def _worker() -> tuple[str, str, str]:
    running = session().service.process_ids
    if running:
        return "compiler", "running", f"{len(running)} process{'es' if len(running) > 1 else ''} in the background"
    return "compiler", "not started", "starts with the first kernel"


def shown_path(path: Path) -> str:
    """Return a path with `~` for the home folder, so that a saved notebook does not show the user's name."""
    if path.is_relative_to(sys.prefix):
        return "in this Python environment"
    return f"~/{path.relative_to(Path.home())}" if path.is_relative_to(Path.home()) else str(path)


def _gpu_count() -> int:
    """Count the GPUs that NVIDIA's driver knows; 0 where there is no driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value
