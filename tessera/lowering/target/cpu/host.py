"""The processor of this machine, as a target.  Loads LLVM, and no MLIR."""

from functools import cache

from tessera.core.targets import Target


@cache
def host_target() -> Target:
    """Return the CPU of this machine as a target: LLVM's name of it and all its features."""
    # 30 ms; a process that only reads kernels does not need it.
    from llvmlite import binding  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs]

    return Target("cpu", binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten())
