"""Name the devices of a mesh: GPUs, shards of the CPU, simulated ones."""

import operator
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import BadMesh

KINDS: Final = ("cuda", "cpu", "sim")
"""A GPU; a shard in this process's memory, with threads; a simulated device, computed as a shard of the CPU is."""
ON_GPU, ON_CPU, SIMULATED = KINDS
ON_HOST: Final = ("cpu", "sim")
"""Kinds whose shards lie in this process's memory."""
_NAME: Final = re.compile(r"(cuda|cpu|sim):(\d+)")


@dataclass(frozen=True, slots=True, order=True)
class Device:
    """One device: its kind, one of KINDS, and its number among those of that kind."""

    kind: str
    index: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}" if self.kind else str(self.index)


def read_device(given: object, integers: str = "sim") -> Device:
    """Return the device that `"cuda:0"`, a number, or a Device names; numbers are devices of the kind `integers`.

    Raises BadMesh for anything else.
    """
    if isinstance(given, Device):
        return given
    if isinstance(given, str):
        if found := _NAME.fullmatch(given.strip()):
            return Device(found[1], int(found[2]))
    elif not isinstance(given, bool):
        try:
            index = operator.index(given)  # pyright: ignore[reportArgumentType] - asks whether it is a number
        except TypeError:
            index = -1
        if index >= 0:
            return Device(integers, index)
    hint = 'write "cuda:0", "cpu:3", "sim:17", or a number from 0 on'
    raise at_call(BadMesh(f"{given!r} is no device", hint=hint))


def read_devices(given: Iterable[object], integers: str = "sim") -> tuple[Device, ...]:
    """Return the devices that are named.  Raises BadMesh where one is no device, or is named twice."""
    devices = tuple(read_device(each, integers) for each in given)
    seen: set[Device] = set()
    for device in devices:
        if device in seen:
            hint = "give each place of a mesh a device of its own; simulated ones cost nothing"
            raise at_call(BadMesh(f"device {device} is named twice", hint=hint))
        seen.add(device)
    return devices


def ranges(devices: Iterable[Device]) -> str:
    """Return names in few words: "cuda:0 to cuda:7, sim:9"."""
    runs: list[list[Device]] = []
    for device in devices:
        if runs and (runs[-1][-1].kind, runs[-1][-1].index + 1) == (device.kind, device.index):
            runs[-1].append(device)
        else:
            runs.append([device])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
