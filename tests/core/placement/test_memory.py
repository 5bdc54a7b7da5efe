"""Memory of a mesh: known before anything is allocated, refused with what would fit."""

import pytest

from tessera.core.errors.catalog import MeshMemory
from tessera.core.placement.memory import MemoryPlan, amount
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.sharded_type import ShardedType

GIB = 1 << 30


def plan(mesh: Mesh, **types: str) -> MemoryPlan:
    return MemoryPlan(mesh, {name: ShardedType.parse(text) for name, text in types.items()})


def test_a_plan_in_words():
    mesh = Mesh.of(("tp", "pp", "dp"), range(72), memory=141 * GIB)
    given = plan(mesh, W="bf16[1000000@tp, 1000000@pp]", b="f32[1000]")
    assert given.require() is given
    assert given.bytes_of == {"W": 166_667 * 250_000 * 2, "b": 4000}
    assert str(given).splitlines() == [
        "W: bf16[1000000@tp, 1000000@pp], 77.6 GiB",
        "b: f32[1000], 3.9 KiB",
        "a device: 77.6 GiB of 141.0 GiB",
    ]


def test_what_does_not_fit_is_refused_with_what_would():
    mesh = Mesh.of(("tp", "pp", "dp"), range(72), memory=80 * GIB)
    given = plan(mesh, W="bf16[1000000@tp, 1000000]")
    with pytest.raises(MeshMemory) as raised:
        given.require()
    assert str(raised.value).splitlines()[0] == (
        "TSR-E604 does not fit the devices' memory: W, bf16[1000000@tp, 1000000], takes 310.4 GiB on each of 72 devices, "
        "which have 80.0 GiB"
    )
    assert str(raised.value).splitlines()[2].lstrip("0123456789 ") == "|         given.require()"
    assert raised.value.hint == "bf16[1000000@tp*pp, 1000000] takes 77.6 GiB a device"


def test_other_values_take_their_room():
    mesh = Mesh.of(("tp", "dp"), range(8), (4, 2), memory=4 * GIB)
    with pytest.raises(MeshMemory, match=r"the others take 2\.0 GiB") as raised:
        plan(mesh, W="f32[65536@tp, 65536]", b="f32[1024, 524288]").require()
    assert raised.value.hint == "f32[65536@tp*dp, 65536] takes 2.0 GiB a device"


def test_more_devices_than_there_are():
    mesh = Mesh.of("dp", range(2), memory=80 * GIB)
    with pytest.raises(MeshMemory) as raised:
        plan(mesh, W="bf16[1000000@dp, 1000000]").require()
    assert raised.value.hint == "cut over 24 devices or more it would fit"


def test_devices_of_unknown_memory_refuse_nothing():
    given = plan(Mesh.of("dp", range(2)), W="bf16[1000000, 1000000]")
    assert given.require() is given
    assert str(given).splitlines()[-1] == "a device: 1.8 TiB"


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 bytes"), (1023, "1,023 bytes"), (1024, "1.0 KiB"), (1 << 60, "1,024.0 PiB")]
)
def test_amounts(size: int, text: str):
    assert amount(size) == text
