"""Compilations as records; most of it is tested with kernels and sessions."""

import dataclasses

import numpy as np
import pytest

from support.artifacts import SPAN, scale_artifact
from tessera.api.source_module import compile_source
from tessera.core.compilation import Compilation
from tessera.core.errors.catalog import UnknownLevel
from tessera.core.events import PassRan
from tessera.core.listing import Line, Listing
from tessera.core.targets import Target
from tessera.lowering.artifact_cache.store import entry_of
from tessera.lowering.service.warmup import trivial_program
from tessera.session.compiled import Compiled

LISTINGS = (
    Listing("tile", "to-tile", (Line("before"),)),
    Listing("tile", "", (Line("after", (SPAN,), (3,)), Line("end"))),
    Listing("asm", "", (Line("ret"),)),
)
FULL = Compilation(scale_artifact(), LISTINGS, (PassRan("scale", "cpu", "tile", "to-tile", 0.5, True),))


def observe(_: Compiled):
    return entry_of(FULL)


def compiled(**changes: object) -> Compiled:
    entry = entry_of(dataclasses.replace(FULL, **changes))
    return Compiled(trivial_program(), entry, "compiler", 0.1, observe)


def test_levels_come_from_the_entry():
    record = Compiled(trivial_program(), entry_of(FULL), "disk", 0.1, lambda _: pytest.fail("compiled again"))
    assert record.listings == LISTINGS
    assert record.compilation == FULL
    assert record.levels == ("tile", "asm")
    assert record.passes == FULL.passes


def test_machine_code_of_a_gpu_is_read_when_somebody_looks(monkeypatch: pytest.MonkeyPatch):
    sass = Listing("sass", "", (Line("EXIT"),))
    looked: list[str] = []
    monkeypatch.setattr("tessera.session.compiled.has_machine_code", lambda artifact: True)
    monkeypatch.setattr(
        "tessera.session.compiled.with_machine_code", lambda a, ls: looked.append(a.name) or (*ls, sass)
    )
    record = compiled(artifact=dataclasses.replace(FULL.artifact, target=Target("cuda", "sm_90a")))
    assert record.levels == ("tile", "sass")
    assert record.ir("tile") == "after\nend"
    assert not looked
    assert record.ir("sass") == "EXIT"
    assert record.listings == (*LISTINGS, sass)
    assert looked == [FULL.artifact.name]


def test_levels_are_recorded_when_somebody_looks():
    assert compiled(listings=(), passes=()).ir("tile") == "after\nend"


def test_text():
    text = compiled().ir("tile", "to-tile")
    assert text == "before"
    assert text.listing is not None
    assert compiled().ir().listing.lines[0].ops == (3,)


def test_unknown():
    with pytest.raises(UnknownLevel, match="'ptx' is no level of a kernel compiled for cpu") as caught:
        compiled().ir("ptx")
    assert caught.value.hint == "choose one of tile, asm"
    with pytest.raises(UnknownLevel, match="'tile' has no stage 'x'") as caught:
        compiled().ir("tile", "x")
    assert caught.value.hint == "choose one of to-tile"


def test_resources_of_code_for_the_cpu():
    report = compiled().resources()
    assert (report.kernel, report.target, report.registers) == (FULL.artifact.name, str(FULL.artifact.target), None)
    assert report.code_bytes == len(FULL.artifact.code)


def test_code_identity():
    assert compiled().code_identity == compiled().code_identity
    other = compiled(artifact=scale_artifact(code=b"other"))
    assert other.code_identity != compiled().code_identity
    assert compiled(artifact=scale_artifact(key="k", name="n")).code_identity == compiled().code_identity


def test_repr():
    signature = "x: array<nxf32>, y: mut array<nxf32>, alpha: f32"
    assert repr(compiled()) == f"<compiled warm for cpu: {signature}; (n + 127) // 128 groups>"


def test_stages_are_data_from_the_program_to_machine_code():
    kernel = compile_source("""
@kernel
def total(x: f32[n], out: mut f32[1]):
    out[0] = 0.0
    for i in tile.range(0, n, step=64):
        out[0] += x[i : i + 64].sum()
""").total
    x = np.ones(256, np.float32)
    compiled = kernel.compile(x, x[:1].copy())
    assert len(compiled.phases) > 1
    assert [stage.level for stage in compiled.stages if stage.level == "program"] == ["program"] * len(compiled.phases)
    one = compiled.phases[0]
    assert [stage.name for stage in one.stages if stage.level == "tile"] == [
        listing.stage for listing in one.listings if listing.level == "tile"
    ]
    assert one.stages is one.stages
