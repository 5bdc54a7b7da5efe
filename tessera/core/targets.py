"""The one table of targets: what each is called, runs on and shows, and the processors it compiles for.

A new target is one row of `TARGETS` and one folder: the row names the module that compiles for it and the module that
launches what was compiled.  Everything else asks a row for a property (`on_gpu`, `profiled`, ...) or an architecture
for a feature (`tma`, `wgmma`, ...), and never for its name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tessera.core.errors.catalog import BadSetting, UnknownArchitecture

_KIB: Final = 1024
_EXACT: Final = ("a", "f")
"""Suffixes of architectures whose code runs on that one compute capability alone, or on its family."""


@dataclass(frozen=True, slots=True, eq=False)
class Architecture:
    """One generation of GPU multiprocessors.

    name: as LLVM, ptxas and tileiras call it; a suffix "a" stands for code that runs on this generation alone
    capability: compute capability
    ptx: the LLVM feature that sets the PTX version: the oldest that knows the chip and its FP8 matrix products, so that
        the PTX also loads with older drivers; a lower one kills the process
    shared_bytes: the most shared memory one block may have; lanes: the most threads of a block
    warps, blocks, registers, shared_processor: what one multiprocessor holds at a time (shared memory in bytes)
    processors: multiprocessors of the largest part
    rates: operations a multiprocessor does in a cycle, by kind; empty where they are taken from an older generation
    tma: has the Tensor Memory Accelerator, which copies boxes of arrays
    wgmma: whole warpgroups multiply matrices
    fp8_mma: multiplies matrices of 8-bit floats
    cvt_tf32: one instruction rounds f32 to tf32, to nearest even
    dependent_launch: a kernel's blocks may begin before the kernel in front of it has ended
    """

    name: str
    capability: tuple[int, int]
    shared_bytes: int
    shared_processor: int
    ptx: str = ""
    lanes: int = 1024
    warps: int = 64
    blocks: int = 32
    registers: int = 65536
    processors: int = 108
    rates: Mapping[str, int] = field(default_factory=dict[str, int], repr=False)
    tma: bool = False
    wgmma: bool = False
    fp8_mma: bool = False
    cvt_tf32: bool = False
    dependent_launch: bool = False

    def runs_on(self, capability: tuple[int, int]) -> bool:
        """Return whether machine code for it runs on a GPU of this compute capability.

        Source: CUDA C++ Programming Guide, "Binary Compatibility": on the same major version, and no lower minor one.
        """
        if self.name.endswith(_EXACT):
            return capability == self.capability
        return capability[0] == self.capability[0] and capability[1] >= self.capability[1]


# Sources.  Limits: CUDA C++ Programming Guide, table of compute capabilities.  Multiprocessors: NVIDIA's data sheets of
# A100, RTX 3090, RTX 4090, H100 and H200, B200, RTX 5090.  Rates: the guide's table of arithmetic throughput (f32, f64,
# special; a fused multiply-add is two), and the peak rates of NVIDIA's architecture white papers over multiprocessors
# and clock (dense matrix products).
_SM_80: Final = Architecture(
    "sm_80", (8, 0), 163 * _KIB, 164 * _KIB, processors=108,
    rates={"f32": 128, "f64": 64, "special": 16, "dot 16": 2048, "dot 8": 4096, "dot f64": 128},
)  # fmt: skip
_SM_86: Final = Architecture(
    "sm_86", (8, 6), 99 * _KIB, 100 * _KIB, warps=48, blocks=16, processors=84,
    rates={"f32": 256, "f64": 4, "special": 16, "dot 16": 1024, "dot 8": 2048},
)  # fmt: skip
_SM_89: Final = Architecture(
    "sm_89", (8, 9), 99 * _KIB, 100 * _KIB, warps=48, blocks=24, processors=128, fp8_mma=True,
    rates={"f32": 256, "f64": 4, "special": 16, "dot 16": 1024, "dot 8": 2048},
)  # fmt: skip
_SM_90: Final = Architecture(
    "sm_90", (9, 0), 227 * _KIB, 228 * _KIB, processors=132,
    tma=True, wgmma=True, fp8_mma=True, cvt_tf32=True, dependent_launch=True,
    rates={"f32": 256, "f64": 128, "special": 16, "dot 16": 4096, "dot 8": 8192, "dot f64": 256},
)  # fmt: skip
_SM_100: Final = Architecture(
    "sm_100", (10, 0), 227 * _KIB, 228 * _KIB, processors=148,
    tma=True, fp8_mma=True, cvt_tf32=True, dependent_launch=True,
    rates={"f32": 256, "f64": 128, "special": 16, "dot 16": 8192, "dot 8": 16384, "dot f64": 256},
)  # fmt: skip
_SM_120: Final = Architecture(
    "sm_120", (12, 0), 99 * _KIB, 100 * _KIB, warps=48, blocks=24, processors=170,
    tma=True, fp8_mma=True, cvt_tf32=True, dependent_launch=True,
)  # fmt: skip
GENERATIONS: Final[Mapping[str, Architecture]] = {
    one.name: one for one in (_SM_80, _SM_86, _SM_89, _SM_90, _SM_100, _SM_120)
}
"""Every generation of GPUs that is known, oldest first."""


def generation(name: str) -> Architecture | None:
    """The generation that runs machine code for the architecture `name`, which may have a suffix; None: unknown."""
    return GENERATIONS.get(name.rstrip("".join(_EXACT)))


def rates_of(capability: tuple[int, int]) -> Mapping[str, int]:
    """Operations a multiprocessor of this compute capability does in a cycle: its own, else the next older known."""
    known = [one for one in GENERATIONS.values() if one.rates]
    return max((one for one in known if one.capability <= capability), key=_age, default=known[0]).rates


def _age(architecture: Architecture) -> tuple[int, int]:
    return architecture.capability


@dataclass(frozen=True, slots=True, eq=False)
class TargetKind:
    """One row of the table of targets.

    summary: what it is for, in words
    levels: those of its listings, in order
    backend, runtime: the modules that compile for it and launch what was compiled (`tessera.lowering.base.backends`,
        `tessera.runtime.launch.launchers`); no backend: a program is run as it is
    shown_as: the target whose levels are shown for a kernel that is not compiled itself
    on_gpu: whether it runs on GPUs, in whose memory its arrays lie
    native: whether code is made for the very processor at hand
    architectures: those it compiles for, oldest first; default: the one where none is named and no GPU is asked
    tools, packages: what else decides what comes out, by name: programs, Python packages
    cubin_lines: what the line numbers in its machine code count: lines of "ptx" or of the user's "source"
    profiled: whether its kernels can write profile records
    register_limits: whether users decide how registers are shared out, so that spills can be remedied
    schedule: the schedule options that its lowering reads (`core/schedule/options.py`)
    tile_elements: the most elements of 32 bits of a tile that its compiler is quick with; 0: any number
    lanes: whether a kernel can say what each lane does; without, it says what happens to tiles
    """

    name: str
    summary: str
    levels: tuple[str, ...]
    backend: str
    runtime: str
    shown_as: str = ""
    on_gpu: bool = False
    native: bool = False
    architectures: Mapping[str, Architecture] = field(default_factory=dict[str, Architecture])
    default: str = ""
    tools: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    cubin_lines: str = ""
    profiled: bool = False
    register_limits: bool = False
    schedule: tuple[str, ...] = ()
    tile_elements: int = 0
    lanes: bool = True

    def architecture(self, name: str) -> Architecture:
        """The architecture called `name`; the default one for an empty name.  Raises UnknownArchitecture."""
        found = self.architectures.get(name or self.default)
        if found is None:
            message = f"there is no GPU architecture {name!r} for the target {self.name}"
            raise UnknownArchitecture(message, hint=f"use one of {', '.join(self.architectures)}")
        return found

    def architecture_for(self, capability: tuple[int, int]) -> Architecture | None:
        """The newest architecture whose machine code runs on a GPU of this compute capability."""
        fitting = (one for one in self.architectures.values() if one.runs_on(capability))
        return max(fitting, key=_age, default=None)


def _named(*architectures: Architecture) -> dict[str, Architecture]:
    return {one.name: one for one in architectures}


_ON_GPU: Final = "tessera.runtime.launch.on_gpu"
TARGETS: Final[dict[str, TargetKind]] = {
    kind.name: kind
    for kind in (
        TargetKind(
            "cpu", "running kernels, vectorised, on all cores", ("source", "tile", "target", "llvm", "asm"),
            "tessera.lowering.cpu.backend", "tessera.runtime.launch.on_host", native=True, profiled=True,
            schedule=("rows_per_group",),
        ),
        TargetKind(
            "interpret", "the oracle: NumPy, and the sanitizer", (), "", "tessera.runtime.launch.interpreter",
            shown_as="cpu",
        ),
        TargetKind(
            "cuda", "NVIDIA GPUs", ("source", "tile", "target", "llvm", "ptx", "sass"),
            "tessera.lowering.cuda.to_nvvm", _ON_GPU,
            on_gpu=True, default="sm_90a", tools=("ptxas", "nvdisasm"), cubin_lines="ptx", profiled=True,
            register_limits=True,
            schedule=(
                "threads_per_block", "elements_per_thread", "num_warps", "vector_width", "warp_columns", "stages",
                "cluster", "raster_group", "overlap", "pipeline_first_mma", "pingpong", "pad_rows",
                "epilogue_per_warpgroup", "defer_epilogue", "epilogue_stages", "promotion_interval", "rows_per_group",
            ),
            architectures=_named(
                replace(_SM_80, ptx="+ptx78"),
                replace(_SM_89, ptx="+ptx84"),
                replace(_SM_90, name="sm_90a", ptx="+ptx84"),
                replace(_SM_100, name="sm_100a", ptx="+ptx86"),
            ),
        ),
        TargetKind(
            "cuda_tile", "NVIDIA GPUs by CUDA Tile", ("source", "tile", "target", "sass"),
            "tessera.lowering.cuda_tile.backend", _ON_GPU,
            on_gpu=True, default="sm_90", tools=("tileiras", "nvdisasm"), packages=("cuda-tile",), cubin_lines="source",
            schedule=("num_warps", "cluster", "min_blocks_per_sm", "rows_per_group"),
            # tileiras 13.5 on sums of columns: 2.5 s for 65,536 elements, 8 s for 131,072, 75 s for 524,288.
            tile_elements=1 << 16, lanes=False,
            architectures=_named(_SM_80, _SM_90, _SM_100, _SM_120),
        ),
    )
}  # fmt: skip
"""Every target, by name."""
DEFAULT: Final = "cpu"
"""The target of kernels where neither they nor the settings name one."""
DEFAULT_ON_GPU: Final = "cuda"
"""The target that takes over from a native one where a kernel's arrays lie in the memory of a GPU."""
ORACLE: Final = "interpret"
"""The target that all others are compared with, and that looks for mistakes in kernels."""


@dataclass(frozen=True, slots=True)
class Target:
    """One machine to compile for.

    `name` is that of a row of `TARGETS`; `arch` is LLVM's name of the processor ("znver5") or the GPU's ("sm_90a");
    `features` is LLVM's feature string (part of the cache key, so an artifact never runs on a lesser CPU).
    """

    name: str
    arch: str
    features: str = ""

    @property
    def kind(self) -> TargetKind:
        """Its row of the table."""
        return TARGETS[self.name]

    def __str__(self) -> str:
        return f"{self.name}:{self.arch}" if self.arch else self.name


CPU = Target("cpu", "")
"""The host: `arch` and `features` are filled in by the compile service."""


def find_kind(text: object) -> tuple[TargetKind, str]:
    """Return the row, and the architecture or "", that a user calls "cpu", "cuda" or "cuda_tile:sm_90".

    Raises BadSetting for a target that does not exist, or that has no architectures to choose from.
    """
    name, _, arch = text.partition(":") if isinstance(text, str) else ("", "", "")
    found = TARGETS.get(name)
    if found is None or (arch and not found.architectures):
        example = TARGETS[DEFAULT_ON_GPU]
        hint = f"choose {', '.join(TARGETS)}, or {example.name}:{example.default} and the like"
        raise BadSetting(f"there is no target {text!r}", hint=hint)
    return found, arch


def every_level() -> tuple[str, ...]:
    """The levels of all targets, in order."""
    return tuple(dict.fromkeys(level for kind in TARGETS.values() for level in kind.levels))


def target_showing(level: str, kind: TargetKind) -> TargetKind:
    """The target whose listings have `level`: `kind`, or, where it runs on the host and has it not, the first that has.

    A kernel for the CPU is compiled for a GPU where its PTX is asked for.
    """
    shown = TARGETS[kind.shown_as] if kind.shown_as else kind
    if kind.on_gpu or level in shown.levels:
        return kind
    return next((other for other in TARGETS.values() if level in other.levels), kind)
