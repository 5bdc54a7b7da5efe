"""The processor of this machine, as a target.  Loads LLVM, and no MLIR."""

from dataclasses import replace
from functools import cache

from tessera.core.targets import CPU, Target


@cache
def host_target() -> Target:
    """Return the CPU of this machine as a target: LLVM's name of it and all its features."""
    from llvmlite import binding  # noqa: PLC0415 - 30 ms

    return replace(CPU, arch=binding.get_host_cpu_name(), features=binding.get_host_cpu_features().flatten())
