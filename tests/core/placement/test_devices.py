"""Names of devices: what is read, what is refused, and how many of them are written."""

import numpy as np
import pytest

from tessera.core.errors.catalog import BadMesh
from tessera.core.placement.devices import Device, ranges, read_device, read_devices


def test_names_numbers_and_devices():
    assert read_device("cuda:3") == Device("cuda", 3)
    assert read_device(" cpu:0 ") == Device("cpu", 0)
    assert read_device(17) == Device("sim", 17)
    assert read_device(np.int32(4), "cuda") == Device("cuda", 4)
    assert read_device(Device("cpu", 1)) == Device("cpu", 1)
    assert str(Device("sim", 17)) == "sim:17"


@pytest.mark.parametrize("given", ["cuda", "gpu:0", "cuda:-1", "cuda:0:1", -1, 1.5, True, None, b"cuda:0"])
def test_anything_else_is_refused(given: object):
    with pytest.raises(BadMesh) as raised:
        read_device(given)
    assert str(raised.value).splitlines() == [
        f"TSR-E601 not a mesh: {given!r} is no device",
        f"  --> {__file__}, line {raised.value.span.line}, column 9",
        f"{raised.value.span.line:>4} |         read_device(given)",
        f"     |         {'^' * 18}",
        '  try: write "cuda:0", "cpu:3", "sim:17", or a number from 0 on',
    ]


def test_one_device_twice():
    assert read_devices(range(3), "cpu") == (Device("cpu", 0), Device("cpu", 1), Device("cpu", 2))
    with pytest.raises(BadMesh, match="device sim:2 is named twice"):
        read_devices([2, "sim:2"])


def test_ranges():
    assert ranges(read_devices(range(72))) == "sim:0 to sim:71"
    assert ranges(read_devices(["cuda:0", "cuda:1", "sim:2", "cpu:0", 4])) == ("cuda:0 to cuda:1, sim:2, cpu:0, sim:4")
    assert ranges([]) == ""
