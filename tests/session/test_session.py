"""The session: memory, disk, workers, and what a process that only runs cached kernels loads."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tessera.api.source_module import compile_source
from tessera.core import events
from tessera.core.base.source import Span
from tessera.core.errors.catalog import BadSetting
from tessera.core.settings import overridden
from tessera.core.targets import Target
from tessera.kernels.kernel import Kernel
from tessera.lowering.base.host_cpu import host_target
from tessera.lowering.service.warmup import trivial_program
from tessera.runtime.launch.cpu import CpuLauncher
from tessera.session.session import Session, resolve_target, session


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Session]:
    with overridden(cache_dir=tmp_path):
        found = Session()
        yield found
        found.close()


def test_compiler_then_memory_then_disk(own: Session):
    program = trivial_program()
    first = own.compile(program, host_target())
    assert (first.origin, first.name, first.target) == ("compiler", "warm", host_target())
    assert own.compile(program, host_target()) is first
    other = Session(own.service)
    second = other.compile(program, host_target())
    assert second.origin == "disk"
    assert second.artifact == first.artifact
    assert own.recent == (first,)


def test_every_compilation_says_where_it_came_from(own: Session):
    told: list[events.Compiled] = []
    program = trivial_program()
    with events.subscribe(told.append, events.Compiled):
        key = own.compile(program, host_target()).artifact.key
        own.compile(program, host_target())
        Session(own.service).compile(program, host_target())
    own.compile(program, host_target())
    assert [(e.kernel, e.target, e.key, e.origin) for e in told] == [
        ("warm", str(host_target()), key, origin) for origin in ("compiler", "memory", "disk")
    ]
    assert all(e.seconds > 0 for e in told)


def test_the_same_kernel_elsewhere_has_its_own_spans(own: Session):
    text = "@kernel\ndef f(x: mut f32[n]):\n    i = tile.linear_id()\n    x[i] = 1.0\n"
    kernels = [compile_source(text, "a.tsr").f, compile_source("\n\n" + text, "b.tsr").f]
    first, second = (Kernel(kernel.function, home=own).compile() for kernel in kernels)
    assert (first.origin, second.origin) == ("compiler", "disk")
    assert first.artifact.span == Span("a.tsr", 2, 1, 2, 6)
    assert second.artifact.span == Span("b.tsr", 4, 1, 4, 6)
    assert second.artifact.bindings[0].span.file == "b.tsr"
    assert second.listing("tile").lines[2].spans[0].line == first.listing("tile").lines[2].spans[0].line + 2
    assert len(own.recent) == 2


def test_what_the_worker_made_takes_the_fast_path(own: Session, tmp_path: Path):
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    for origin in ("compiler", "memory", "disk"):
        used = own if origin != "disk" else Session(own.service)
        compiled = used.compile(trivial_program(), host_target())
        assert compiled.origin == "compiler" if origin == "memory" else origin
        assert CpuLauncher(compiled.artifact).run((x, y, 2.0))
    assert (y == 2).all()


def test_looking_compiles_once_more(own: Session):
    compiled = own.compile(trivial_program(), host_target())
    assert not compiled.entry.observed
    assert {"tile", "asm"} <= set(compiled.levels)
    assert compiled.passes
    again = own.compile(trivial_program(), host_target(), observe=True)
    assert again.entry.observed
    assert Session(own.service).compile(trivial_program(), host_target()).entry.observed


def test_without_a_disk_cache(own: Session):
    with overridden(cache=False):
        without = own.cache
        assert without is None
        assert own.compile(trivial_program(), host_target()).origin == "compiler"
    assert own.cache.statistics().entries == 0


def test_the_cache_follows_the_settings(own: Session, tmp_path: Path):
    first = own.cache
    assert own.cache is first
    with overridden(cache_dir=tmp_path / "other", cache_bytes=5):
        assert own.cache.folder == tmp_path / "other" / "kernels"
        assert own.cache.limit == 5


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("interpret", Target("interpret", "")),
        ("cuda", Target("cuda", "sm_90a")),
        ("cuda:sm_80", Target("cuda", "sm_80")),
        ("cuda_tile", Target("cuda_tile", "sm_90")),
        ("cuda_tile:sm_120", Target("cuda_tile", "sm_120")),
    ],
)
def test_targets(name: str, target: Target):
    assert resolve_target(name) == target


def test_the_host_is_named_in_full():
    target = resolve_target("cpu")
    assert target.arch
    assert "+" in target.features


@pytest.mark.parametrize("name", ["gpu", "", "cpu:znver5", "interpret:x"])
def test_unknown_targets(name: str):
    with pytest.raises(BadSetting):
        resolve_target(name)


def test_warm_prepares_this_process_too(own: Session):
    own.warm()
    own.warm()
    own._preload.join()
    assert "tessera.frontend.build.build" in sys.modules
    assert "filelock" in sys.modules
    assert own.compile(trivial_program(), host_target()).origin == "compiler"
    assert len(own.service.process_ids) == 1


def test_one_session_a_process():
    assert session() is session()


CACHED = """
import sys
import numpy as np
import tessera
assert not {{"numpy.linalg.nothing", "torch_mlir", "llvmlite", "IPython"}} & set(sys.modules)
module = tessera.compile_source('''
@kernel
def add_one(x: f32[n], y: mut f32[n]):
    i = tile.linear_id()
    if i < n:
        y[i] = x[i] + 1.0
''')
x, y = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
module.add_one(x, y)
assert list(y) == [1, 2, 3, 4, 5], y
assert not any(name.split(".")[0] == "torch_mlir" for name in sys.modules)
assert "tessera.core.mlir" not in sys.modules
from tessera.session.session import session
print(module.add_one.last.origin, len(session().service.process_ids))
session().close()
"""


def test_a_cached_kernel_runs_without_mlir(tmp_path: Path):
    environment = {
        "TESSERA_CACHE_DIR": str(tmp_path),
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    said = [
        subprocess.run(
            [sys.executable, "-c", CACHED.format()], env=environment, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert said == ["compiler 1\n", "disk 0\n"]
