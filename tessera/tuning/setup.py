"""What a search runs on: its kernel for one target, its arguments, and where its record lies."""

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tessera.core.errors.catalog import TuningFailed
from tessera.core.program.arguments import Argument, ArrayArgument
from tessera.core.settings import current
from tessera.core.targets import DEFAULT, Target
from tessera.kernels.closure import FreeNames
from tessera.kernels.kernel import Kernel
from tessera.kernels.target_choice import target_at_hand
from tessera.lowering.artifact_cache.key import toolchain
from tessera.performance.device_model import this_machine
from tessera.runtime.arrays.host import AnyArray
from tessera.tuning.record import record_path


def pinned_kernel(kernel: Kernel, target: Target, values: Sequence[object]) -> Kernel:
    """The kernel for the target of a search: with the architecture of the GPU at hand, where none is named."""
    return kernel.on_target(target_at_hand(kernel.options, target, values))


def device_name(target: Target, values: Sequence[object]) -> str:
    """What a search runs on: the times of another device, or of another number of threads, mean nothing here."""
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
    """Constants of the program that the kernel's text names, but for those that are tuned."""
    free = FreeNames(kernel.function)
    used = {node.id for node in ast.walk(kernel.source.function) if isinstance(node, ast.Name)} - set(space)
    return [(name, free[name]) for name in sorted(used) if isinstance(free.get(name), int | float | str)]


def _kind(argument: Argument) -> tuple[object, ...]:
    if isinstance(argument, ArrayArgument):
        return (argument.dtype.name, argument.contiguous)
    return (argument.dtype.name,)


def synthesised(kernel: Kernel) -> tuple[object, ...]:
    """Return random arguments of the types and shapes of the kernel's last call.  Raises TuningFailed: none was."""
    described = kernel.last_arguments
    if described is None:
        raise TuningFailed(
            f"{kernel.source.name} was not called yet, so the search has nothing to run it on",
            hint=f"call it first, or write autotune.search(kernel={kernel.source.name}, params=..., args=(...))",
        )
    generator = np.random.default_rng(0)
    return tuple(_random(argument, generator) for argument in described.arguments)


def _random(argument: Argument, generator: np.random.Generator) -> AnyArray | float | int | bool:
    """Numbers that hurt no kernel: floats around 0, integers from 0 to 3 (they may be indices), scalars 1."""
    dtype = argument.dtype
    if not isinstance(argument, ArrayArgument):
        return {"float": 1.0, "bool": True}.get(dtype.kind, 1)
    if dtype.is_float:
        values: AnyArray = generator.standard_normal(argument.shape)
    else:
        values = generator.integers(0, 2 if dtype.kind == "bool" else 4, argument.shape)
    array = values.astype(dtype.numpy)
    return array if argument.contiguous else _with_gaps(array)


def _with_gaps(array: AnyArray) -> AnyArray:
    """The same numbers in every second place of a larger array."""
    roomy = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    roomy[..., ::2] = array
    return roomy[..., ::2]
