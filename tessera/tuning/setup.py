"""The setup of a search: its kernel for one target, its arguments, and the place of its record."""

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path

from tessera.core.program.arguments import Argument, ArrayArgument
from tessera.core.settings import current
from tessera.core.targets import DEFAULT, Target
from tessera.kernels.closures.closure import FreeNames
from tessera.kernels.kernel import Kernel
from tessera.kernels.target_choice import target_at_hand
from tessera.lowering.artifact_cache.key import toolchain
from tessera.performance.device_model import this_machine
from tessera.tuning.record import record_path


def pinned_kernel(kernel: Kernel, target: Target, values: Sequence[object]) -> Kernel:
    """Return the kernel for the target of a search: with the architecture of the GPU at hand, where none is named."""
    return kernel.on_target(target_at_hand(kernel.options, target, values))


def device_name(target: Target, values: Sequence[object]) -> str:
    """Return the name of a search's device: times of another device, or number of threads, mean nothing here."""
    if target.kind.on_gpu:
        return f"{target} on {this_machine(target.kind, values).label}"
    return f"{target} x{current().threads}" if target.kind.backend else str(target)


def record_of(kernel: Kernel, values: tuple[object, ...], space: Mapping[str, object], device: str) -> Path:
    """Return where the record lies of searches with such values on a device."""
    source, options, described = kernel.source, kernel.options, kernel.described(values)
    key = (
        ast.unparse(source.function), options.tile, options.shared, options.fast, sorted(options.constants.items()),
        _surroundings(kernel, space), [_kind(argument) for argument in described.arguments], described.shape_class,
        device, toolchain(DEFAULT)["tessera"],
    )  # fmt: skip
    return record_path(current().cache_dir / "tuning", source.name, key)


def _surroundings(kernel: Kernel, space: Mapping[str, object]) -> list[tuple[str, object]]:
    """Return the constants of the program that the kernel's text names, but for those that are tuned."""
    free = FreeNames(kernel.function)
    used = {node.id for node in ast.walk(kernel.source.function) if isinstance(node, ast.Name)} - set(space)
    return [(name, free[name]) for name in sorted(used) if isinstance(free.get(name), int | float | str)]


def _kind(argument: Argument) -> tuple[object, ...]:
    if isinstance(argument, ArrayArgument):
        return (argument.dtype.name, argument.contiguous)
    return (argument.dtype.name,)
