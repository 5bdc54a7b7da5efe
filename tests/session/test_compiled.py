"""Compilations as records; most of it is tested with kernels and sessions."""

import dataclasses
import re

import numpy as np
import pytest

from support.artifacts import SPAN, scale_artifact
from tessera.api.source_module import compile_source
from tessera.core.artifact import Artifact
from tessera.core.compilation import Compilation
from tessera.core.errors.catalog import UnknownLevel
from tessera.core.events import PassRan
from tessera.core.listing import Line, Listing
from tessera.core.targets import Target
from tessera.kernels.kernel import Kernel
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

    def with_sass(artifact: Artifact, listings: tuple[Listing, ...]) -> tuple[Listing, ...]:
        looked.append(artifact.name)
        return (*listings, sass)

    monkeypatch.setattr("tessera.session.compiled.with_machine_code", with_sass)
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
    assert 0 < report.code_bytes < len(FULL.artifact.code)  # without its symbols


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
    assert [stage.level for stage in compiled.stages if stage.level == "program"] == ["program"]
    last = [one.stage("tile") for one in compiled.phases]
    joined = compiled.stage("tile").records
    assert [record.name for record in joined] == [record.name for stage in last for record in stage.records]
    assert len({record.id for record in joined}) == len(joined)
    one = compiled.phases[0]
    assert [stage.name for stage in one.stages if stage.level == "tile"] == [
        listing.stage for listing in one.listings if listing.level == "tile"
    ]
    assert one.stages is one.stages


TWICE = """
@kernel
def twice(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=64):
        y[t:t+64] = 2.0 * x[t:t+64]
"""


def unnumbered(listing: Listing) -> str:
    """The text; LLVM numbers structs of a name by how many it saw in this process."""
    return re.sub(r'\.\d+"', '"', listing.text)


@pytest.mark.parametrize("target", ["cpu", "cuda:sm_90a"])
def test_llvm_ir_after_each_pass_of_llvm(target: str):
    kernel: Kernel = compile_source(TWICE).twice
    compiled = kernel.compile(target=target)
    whole = compiled.with_llvm_passes()
    stages = [listing for listing in whole.listings if listing.level == "llvm"]
    names = [listing.stage for listing in stages]
    assert names[0] == "mlir-translate"
    assert "InstCombine" in names
    assert names[-1] == ""
    assert len(set(names)) == len(names)
    # Nothing else differs from a compilation that nobody looked at so closely, and every stage has its places.
    assert unnumbered(stages[-1]) == unnumbered(compiled.listing("llvm"))
    assert all(any(span.line == 5 for line in listing.lines for span in line.spans) for listing in stages)
    assert [listing for listing in whole.listings if listing.level != "llvm"] == [
        listing for listing in compiled.listings if listing.level != "llvm"
    ]


def test_llvm_passes_of_a_kernel_in_phases():
    source = TWICE + "    for t in tile.range(n, step=64):\n        y[t:t+64] = y[n-t-64:n-t] + 1.0\n"
    kernel: Kernel = compile_source(source).twice
    compiled = kernel.compile()
    assert len(compiled.phases) == 2
    names = [listing.stage for listing in compiled.with_llvm_passes().listings if listing.level == "llvm"]
    assert "mlir-translate" in names
    assert "InstCombine" in names


def test_a_warning_points_at_the_line_that_calls():
    kernel = compile_source("""
@kernel
def outer(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=64):
        y[t:t+65] = x[t:t+65]
""").outer
    x = np.ones((1 << 20) + 64, np.float32)
    with pytest.warns(RuntimeWarning, match="run one after the other") as record:
        kernel(x, x.copy())
    assert {each.filename for each in record} == {__file__}


CHAIN = """
@kernel
def chain(u: f32[64, 128], v: mut f32[64, 128]):
    for i in tile.range(64, step=8):
        up = u[i : i + 8, :]
        doubled = up + up
        shifted = doubled - 4.0
        scaled = 0.1 * shifted
        v[i : i + 8, :] = scaled * up
"""


def test_every_line_of_a_fused_chain_has_its_instructions():
    compiled = compile_source(CHAIN).chain.compile(target="cpu")
    for level in ("target", "llvm", "asm"):
        lines = {span.line for line in compiled.listing(level).lines if line.ops for span in line.spans}
        assert {5, 6, 7, 8, 9} <= lines, level
