"""Choose the target of a call: by the kernel's option, by the settings, and by the memory that its arrays lie in."""

from collections.abc import Sequence

from tessera.core.settings import current
from tessera.core.targets import DEFAULT_ON_GPU, ORACLE, TARGETS, Target, find_kind
from tessera.kernels.options import Options
from tessera.runtime.launch.launchers import runtime_of
from tessera.runtime.memory.device_arrays import device_of
from tessera.session.session import resolve_target


def chosen_target(options: Options, values: Sequence[object]) -> Target:
    """Return what a call on `values` runs on.

    Arrays on a GPU mean that GPU, and the architecture to compile for, wherever no other was named.
    """
    if options.sanitize:
        return resolve_target(ORACLE)
    name = _name(options)
    kind, architecture = find_kind(name)
    follows_arrays = kind.on_gpu or (kind.native and options.target is None)
    device = device_of(values) if follows_arrays and not architecture else None
    if device is None:
        return resolve_target(name)
    kind = kind if kind.on_gpu else TARGETS[DEFAULT_ON_GPU]
    return Target(kind.name, runtime_of(kind).architecture(kind, device))


def target_at_hand(options: Options, target: Target, values: Sequence[object]) -> Target:
    """Return `target` with the architecture of the GPU that a launch on `values` runs on, where none was named.

    Raises CudaFailure where there is no GPU.
    """
    if not target.kind.on_gpu or find_kind(_name(options))[1]:
        return target
    return Target(target.name, runtime_of(target.kind).architecture(target.kind, device_of(values)))


def _name(options: Options) -> str:
    return options.target or current().target
