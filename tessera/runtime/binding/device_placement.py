"""Placement of a launch's arrays on a GPU: all on one device, but for NumPy arrays, which are copied there for it."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from tessera.core.artifact import Binding
from tessera.core.base.dtypes import f32
from tessera.core.base.source import Span
from tessera.core.errors.catalog import NotAnArray, WrongDevice
from tessera.core.program.types import Array
from tessera.runtime.arrays.host import is_array
from tessera.runtime.arrays.interop import library_of
from tessera.runtime.driver import driver as door
from tessera.runtime.driver.driver import Driver
from tessera.runtime.memory.device_arrays import device_of_array, device_view, is_on_device

_MOVES: Final = {
    "torch": '{name}.to("cuda:{device}")',
    "jax": 'jax.device_put({name}, jax.devices("cuda")[{device}])',
}


def require_together(values: Sequence[object], names: Sequence[str], spans: Sequence[Span]) -> None:
    """Raise what a launch on a GPU raises of arrays that lie apart, for what works on copies of them all.

    names, spans: the parameters'.  Arrays of the host alone may be anywhere on it.
    """
    if any(is_array(value) and is_on_device(value) for value in values):
        arrays = [(value, n, s) for value, n, s in zip(values, names, spans, strict=True) if is_array(value)]
        parameters = [_parameter(name, span) for _, name, span in arrays]
        launch_device(door.driver(), [value for value, *_ in arrays], parameters)


def _parameter(name: str, span: Span) -> Binding:
    """Return an array parameter without more than its name and place."""
    return Binding(name, Array(f32, ()), mutable=False, span=span)


def launch_device(api: Driver, arguments: Sequence[object], bindings: Sequence[Binding]) -> int:
    """Return the device that a launch runs on: where its arrays lie, or the current one for NumPy arrays alone.

    Raises WrongDevice where they lie apart, and NotAnArray for what is none.
    """
    found: dict[int, list[Binding]] = {}
    hosts: list[tuple[object, Binding]] = []
    for value, binding in zip(arguments, bindings, strict=False):
        if not isinstance(binding.type, Array):
            continue
        if is_on_device(value):
            view = device_view(value, binding.name, binding.span, mutable=binding.mutable)
            if view.size:
                found.setdefault(device_of_array(value, view), []).append(binding)
        elif not isinstance(value, np.ndarray):
            hosts.append((value, binding))
    device = next(iter(found), api.device())
    if hosts:
        raise _on_the_host(*hosts[0], device, found)
    if len(found) > 1:
        stray = next(places[0] for other, places in found.items() if other != device)
        kind = library_of(arguments[bindings.index(stray)])
        message = f"the arrays of one launch lie on several GPUs: {_where(found)}"
        raise WrongDevice(message, stray.span, hint=_remedy(kind, stray.name, device))
    return device


def _on_the_host(value: object, binding: Binding, device: int, found: dict[int, list[Binding]]) -> Exception:
    name, kind = binding.name, type(value).__name__
    if not is_array(value):
        return NotAnArray(f"{name} needs an array on the GPU or a NumPy array, got a {kind}", binding.span)
    others = f", and {_where(found)}" if found else f", and this kernel runs on cuda:{device}"
    message = f"{name}, of type {kind}, lies in the memory of the CPU{others}"
    return WrongDevice(message, binding.span, hint=_remedy(library_of(value), name, device))


def _where(found: dict[int, list[Binding]]) -> str:
    """Say it of all of them: x and y lie on cuda:0, z on cuda:1."""
    parts: list[str] = []
    for device, places in found.items():
        names = " and ".join(binding.name for binding in places)
        verb = "" if parts else (" lies" if len(places) == 1 else " lie")
        parts.append(f"{names}{verb} on cuda:{device}")
    return ", ".join(parts)


def _remedy(library: str, name: str, device: int) -> str:
    return "pass " + _MOVES.get(library, "cupy.asarray({name}) made on cuda:{device}").format(name=name, device=device)
