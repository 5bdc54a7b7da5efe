"""Descriptors for the CUDA driver: a launch's size, a tensor map's description, a kernel's name for reports."""

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.base.source import NOWHERE, Note, Source, Span
from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import ContextLost

_CLUSTER_DIMENSION: Final = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
_EARLY: Final = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig of cuda.h."""

    _fields_ = (
        *((name, ctypes.c_uint) for name in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared")),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    )


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute of cuda.h, holding the extents of a thread block cluster, or a number as the first of them."""

    _fields_ = (
        ("id", ctypes.c_int), ("padding", ctypes.c_int),
        ("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint), ("rest", ctypes.c_uint * 13),
    )  # fmt: skip


class KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS (version 2) of cuda.h."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        *((name, ctypes.c_uint) for name in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared")),
        ("parameters", ctypes.c_void_p), ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p), ("context", ctypes.c_void_p),
    )  # fmt: skip

    @staticmethod
    def of(function: ctypes.c_void_p, config: LaunchConfig, parameters: ctypes.c_void_p) -> "KernelNode":
        """Return the node of a launch of this size."""
        return KernelNode(
            function.value, config.grid_x, config.grid_y, config.grid_z, config.block_x, config.block_y,
            config.block_z, config.shared, parameters.value, None, None, None,
        )  # fmt: skip


def launch_config(
    blocks: int, lanes: int, shared: int, cluster: int = 1, stream: int = 0, *, early: bool = False
) -> LaunchConfig:  # fmt: skip
    """Describe a launch's size: `shared` bytes of dynamic shared memory a block, `cluster` blocks a cluster.

    early: blocks may begin before the kernel in front of them on the stream has ended
    """
    config = LaunchConfig(blocks, 1, 1, lanes, 1, 1, shared, stream or None, None, 0)
    wanted = [LaunchAttribute(_CLUSTER_DIMENSION, 0, cluster, 1, 1)] if cluster > 1 else []
    if early:
        wanted.append(LaunchAttribute(_EARLY, 0, 1, 0, 0))
    _set_attributes(config, wanted)
    return config


def in_turn(config: LaunchConfig) -> LaunchConfig:
    """Return the same launch with blocks that begin only when the kernel in front of them has ended."""
    made = LaunchConfig.from_buffer_copy(config)
    given = (LaunchAttribute * config.attribute_count).from_address(config.attributes) if config.attributes else ()
    _set_attributes(made, [attribute for attribute in given if attribute.id != _EARLY])
    return made


def _set_attributes(config: LaunchConfig, wanted: Sequence[LaunchAttribute]) -> None:
    attributes = (LaunchAttribute * len(wanted))(*wanted)
    config.attributes = ctypes.addressof(attributes) if wanted else None
    config.attribute_count = len(wanted)
    config.keep = attributes  # pyright: ignore[reportAttributeAccessIssue] - it lives as long as the configuration


@dataclass(frozen=True, slots=True)
class Launched:
    """The kernel of a launch, for the report of a fault."""

    name: str
    span: Span
    source: Source


@dataclass(frozen=True, slots=True)
class Encoding:
    """A tensor map's description, as cuTensorMapEncodeTiled takes it: innermost axis first, strides in bytes."""

    element: str
    address: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int


def fault(words: str, kernels: Sequence[Launched]) -> ContextLost:
    """Return the report of a fault: the driver does not say which of the kernels in flight it was."""
    hint = (
        "restart the process (in a notebook: the kernel) and run it with sanitize=True, which finds accesses out of "
        'bounds and races; where it finds nothing and target="cpu" is right, the fault is ours: please report it'
    )
    lost = "the process's CUDA context is lost, and what lay in it"
    if not kernels:
        return ContextLost(f"{words}; {lost}", hint=hint)
    last = kernels[-1]
    names = [kernel.name for kernel in kernels]
    which = f"kernel {last.name}" if len(kernels) == 1 else f"one of the kernels {', '.join(names)}"
    error = ContextLost(f"{which}: {words}; {lost}", last.span, hint, _notes(kernels[:-1]))
    error.with_source(last.source)
    return error


def _notes(kernels: Iterable[Launched]) -> list[Note]:
    return [
        Note(f"kernel {kernel.name}, line {kernel.span.line} of {kernel.source.name}", NOWHERE) for kernel in kernels
    ]


def after_fault(lost: TesseraError) -> ContextLost:
    """Return the report of everything that comes after a fault."""
    error = ContextLost(f"an earlier fault cost this process its CUDA context ({lost.message})", lost.span, lost.hint)
    if lost.source is not None:
        error.with_source(lost.source)
    return error
