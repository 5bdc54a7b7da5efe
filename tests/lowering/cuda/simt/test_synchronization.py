"""Synchronisation on every architecture: what the hardware has, and what stands in for it."""

import re

import pytest

from support.interpret_programs import Writer
from support.simulate import compile_ptx, ptx_of
from tessera.core.base.dtypes import f32
from tessera.core.errors.catalog import NotOnCuda
from tessera.core.program.program import Domain, Program
from tessera.core.targets import TARGETS, Target
from tessera.lowering.cuda.resources import resource_report
from tessera.lowering.driver.compile import compile_program


def meeting(lanes: int, size: int, shared: int = 0) -> Program:
    """Every lane writes, meets its cooperative group, and reads what another of them wrote."""
    b = Writer("meeting")
    x = b.array("x", f32, "n", mutable=True)
    buffer, lane = b.alloc(f32, max(lanes, shared)), b.id("lane")
    b.write(buffer, b.read(x, lane), lane)
    b.op("group_sync", size=size)
    other = b.value("xor", lane, b.const(1))
    b.write(x, b.shuffle(b.read(buffer, other), b.const(1), "xor"), lane)
    return b.program(group=(lanes,), domain=Domain("lanes", (lanes,)))


@pytest.mark.parametrize("arch", TARGETS["cuda"].architectures)
@pytest.mark.parametrize(("lanes", "size", "kind"), [(128, 8, "WARPSYNC"), (512, 64, "BAR"), (1024, 64, "SYNCS|ATOMS")])
def test_every_architecture_has_a_way_to_meet(arch: str, lanes: int, size: int, kind: str):
    artifact = compile_program(meeting(lanes, size), Target("cuda", arch), observe=False).artifact
    report = resource_report(artifact)
    assert report.occupancy is not None
    assert report.count("SHFL") >= 1
    assert report.count(*kind.split("|")) > 0


def test_one_barrier_object_a_group_and_no_more():
    artifact = compile_ptx(meeting(1024, 64))
    text = ptx_of(artifact)
    assert len(re.findall("mbarrier.init", text)) == 1
    assert artifact.resources.shared_bytes == 4 * 1024 + 16 * 8
    assert "mbarrier" not in ptx_of(compile_ptx(meeting(960, 64)))


def test_no_room_for_barrier_objects():
    with pytest.raises(NotOnCuda, match="shared memory"):
        compile_ptx(meeting(1024, 64, shared=227 * 256))
