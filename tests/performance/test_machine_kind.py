"""Properties of machines that default schedules depend on."""

from tessera.core.targets import GENERATIONS
from tessera.performance.machine_kind import MachineKind


def test_the_host_is_no_gpu():
    assert not MachineKind().is_gpu
    assert not MachineKind().wgmma
    assert not MachineKind().little_shared


def test_hopper_multiplies_by_warpgroups():
    hopper, ampere = MachineKind(GENERATIONS["sm_90"]), MachineKind(GENERATIONS["sm_80"])
    assert hopper.is_gpu
    assert hopper.wgmma
    assert not ampere.wgmma
