"""The two programs of the CUDA toolkit: `ptxas` (PTX to machine code) and `nvdisasm` (machine code to SASS text).

They come from the packages nvidia-cuda-nvcc and nvidia-cuda-nvdisasm, which put them under
`site-packages/nvidia/*/bin`; a toolkit on PATH or in CUDA_HOME serves as well.  Neither needs a GPU.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

from tessera.core.errors.catalog import CompilerCrash, NotOnCuda, ToolMissing

PACKAGES: Final = {
    "ptxas": "nvidia-cuda-nvcc", "nvdisasm": "nvidia-cuda-nvdisasm", "tileiras": "nvidia-cuda-tileiras",
}  # fmt: skip

# Contraction is off twice: LLVM writes `mul.rn` and `add.rn`, which ptxas may not fuse, and `-fmad=false` forbids it.
_PTXAS_OPTIONS: Final = ("-v", "-O3", "-lineinfo", "-fmad=false")
_LINE_OPTIONS: Final = {"ptx": "-gp", "source": "-g"}

_REGISTERS: Final = re.compile(r"Used (\d+) registers")
_SPILLS: Final = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_SHARED: Final = re.compile(r"(\d+) bytes smem")
_STACK: Final = re.compile(r"(\d+) bytes stack frame")
_BARRIERS: Final = re.compile(r"used (\d+) barriers")
_MESSAGE: Final = re.compile(r"^\s*(?:ptxas )?(?:\S+ )?(?:info|warning|error)\s*:\s*(.+?)\s*$", re.MULTILINE)
# ptxas waits after every single wgmma (C7510 to C7514 and others: one wording, many causes): a tenth of the speed.
_SERIALISED: Final = "wgmma.mma_async instructions are serialized"
_NO_REGISTERS: Final = "insufficient register resources"
_INPUT: Final = re.compile(r"[^\s,]*tmpxft\w*-0_stdin")
# Not what was asked for, yet right: setmaxnreg ignored (C7508), waits and arrivals that ptxas adds (C7517, C7519), ...
_NOTEWORTHY: Final = re.compile(r"Potential Performance Loss|\(C75\d\d\)|\(C76\d\d\)|setmaxnreg|is injected")


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources reported by `ptxas -v`: registers a lane, bytes a lane (shared: a group), barriers of a group."""

    registers: int
    spill_bytes: int
    shared_bytes: int
    stack_bytes: int
    barriers: int = 0


@dataclass(frozen=True, slots=True)
class Assembled:
    """A cubin and what it uses; `log` is all that `ptxas` printed, `notes` what of it a person should know.

    serialised: what it says where all matrix instructions wait for each other, as they overlap as it cannot follow;
                such a cubin is not to be used
    """

    cubin: bytes
    usage: Usage
    log: str
    notes: tuple[str, ...] = ()
    serialised: str = ""


@cache
def find_tool(name: str) -> Path | None:
    """Find `name` ("ptxas" or "nvdisasm") in the environment's packages, then CUDA_HOME, then PATH; None without it."""
    candidates: list[Path] = []
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or []) if spec is not None else []:
        candidates += sorted(Path(root).glob(f"*/bin/{name}"), reverse=True)
    home = os.environ.get("CUDA_HOME")
    if home:
        candidates.append(Path(home) / "bin" / name)
    on_path = shutil.which(name)
    if on_path:
        candidates.append(Path(on_path))
    return next((path for path in candidates if os.access(path, os.X_OK)), None)


def tool(name: str) -> Path:
    """Return the path of `name`.

    Raises:
        ToolMissing: it is nowhere.
    """
    path = find_tool(name)
    if path is None:
        message = f"{name} is neither in this Python environment, nor in CUDA_HOME, nor on PATH"
        raise ToolMissing(message, hint=f"pip install {PACKAGES[name]}, or put a CUDA toolkit's bin folder on PATH")
    return path


@cache
def version(name: str) -> str:
    """Return the tool's version, such as "13.0.88", or "" where it is missing."""
    path = find_tool(name)
    if path is None:
        return ""
    found = re.search(r"V(\d+\.\d+\.\d+)", _run([str(path), "--version"]).stdout)
    return found[1] if found else "unknown"


def assemble(ptx: str, arch: str) -> Assembled:
    """Compile PTX text for `arch` ("sm_90a") to a cubin.

    Raises:
        ToolMissing: no ptxas.
        NotOnCuda: the kernel needs more registers than there are for its matrix instructions.
        CompilerCrash: ptxas refuses the text; the message is what it says.
    """
    with assembling(arch) as assembler:
        assembler.begin(ptx)
        return assembler.finish()


class Assembler:
    """A ptxas that has started: `begin` gives it its PTX, `finish` waits for what it makes of that."""

    def __init__(self, process: "subprocess.Popen[str]", target: Path) -> None:
        self._process = process
        self._target = target

    def begin(self, ptx: str) -> None:
        """Send the PTX text, without waiting."""
        stdin, self._process.stdin = self._process.stdin, None  # nothing else may write to it or close it
        if stdin is not None:
            with suppress(BrokenPipeError), stdin:  # who has ended already says why in its log
                stdin.write(ptx)

    def finish(self) -> Assembled:
        """Wait for the cubin and return it; see `assemble` for what is raised."""
        log = _INPUT.sub("kernel.ptx", self._process.communicate()[0].strip())
        notes, serialised = read_notes(log), read_serialised(log)  # which may have the cause of a failure
        if serialised:
            return Assembled(b"", read_usage(log), log, notes, serialised)
        if self._process.returncode or not self._target.is_file():
            message = f"ptxas refuses its input: {log}"
            raise CompilerCrash(message)
        return Assembled(self._target.read_bytes(), read_usage(log), log, notes)


@contextmanager
def assembling(arch: str) -> Generator[Assembler]:
    """Start ptxas for `arch` early, as starting it takes as long as compiling a small kernel.

    It runs beside the code inside the `with`, and is ended if that code leaves without waiting for it.

    Raises:
        ToolMissing: no ptxas.
    """
    with tempfile.TemporaryDirectory(prefix="tessera-") as folder:
        target = Path(folder, "kernel.cubin")
        command = [str(tool("ptxas")), *_PTXAS_OPTIONS, f"-arch={arch}", "-", "-o", str(target)]
        # It writes what it reads to a file of its own, which goes with the folder when ptxas is ended.
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
            env={**os.environ, "TMPDIR": folder},
        ) as process:  # fmt: skip
            try:
                yield Assembler(process, target)
            finally:
                process.kill()  # does nothing to a process that has ended


def read_notes(log: str) -> tuple[str, ...]:
    """Return the messages of `ptxas` that a user should see, each once, in order.

    Raises:
        NotOnCuda: it serialises wgmma instructions, as the kernel's tiles need more registers than there are.
    """
    messages = _noteworthy(log)
    for message in messages:
        if _SERIALISED in message and _NO_REGISTERS in message:
            raise NotOnCuda(
                f"its tiles need more registers than lanes have ({message})",
                hint="use smaller blocks, or more warps for as many rows (the option `num_warps`)",
            )
    return messages


def read_serialised(log: str) -> str:
    """Return what `ptxas` printed where it has matrix instructions wait for each other; "" where it has not."""
    return next((message for message in _noteworthy(log) if _SERIALISED in message), "")


def _noteworthy(log: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(message for message in _MESSAGE.findall(log) if _NOTEWORTHY.search(message)))


def read_usage(log: str) -> Usage:
    """Read what `ptxas -v` printed for a file with one kernel."""
    patterns = (_REGISTERS, _SPILLS, _SHARED, _STACK, _BARRIERS)
    registers, spills, shared, stack, barriers = (pattern.search(log) for pattern in patterns)
    return Usage(
        registers=int(registers[1]) if registers else 0,
        spill_bytes=int(spills[1]) + int(spills[2]) if spills else 0,
        shared_bytes=int(shared[1]) if shared else 0,
        stack_bytes=int(stack[1]) if stack else 0,
        barriers=int(barriers[1]) if barriers else 0,
    )


@lru_cache(maxsize=4)
def disassemble(cubin: bytes, lines: str = "ptx") -> str:
    """Disassemble a cubin into SASS text, with `//## File "...", line n` before the instructions of each line n.

    lines: whose lines these are: "ptx" or "source" (the user's text)

    Raises:
        ToolMissing: no nvdisasm.
        CompilerCrash: nvdisasm refuses the cubin.
    """
    with tempfile.TemporaryDirectory(prefix="tessera-") as folder:
        source = Path(folder, "kernel.cubin")
        source.write_bytes(cubin)
        done = _run([str(tool("nvdisasm")), _LINE_OPTIONS[lines], "-c", str(source)])
        if done.returncode:
            message = f"nvdisasm refuses its input: {done.stderr.strip()}"
            raise CompilerCrash(message)
        return done.stdout


def _run(command: list[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
