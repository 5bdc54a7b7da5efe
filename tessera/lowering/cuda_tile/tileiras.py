"""`tileiras`, which compiles CUDA Tile bytecode to machine code.

It comes from the package nvidia-cuda-tileiras and needs no GPU.
"""

import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tessera.core.errors.catalog import CompilerCrash, NotOnCudaTile
from tessera.lowering.base.cuda_toolkit import tool

_OPTIONS: Final = ("-O3", "--lineinfo")
# tileiras takes its libnvvm and ptxas from there in front of those that lie beside it, and older ones do not fit it.
_ELSEWHERE: Final = ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT")
# What is said when a kernel fits no processor, or needs instructions that this one does not have.
_TOO_MUCH: Final = re.compile(r"[Uu]ses too much|too many resources|exceeds|out of resource|[Ii]ncompatib")


def assemble(bytecode: bytes, arch: str) -> bytes:
    """Compile bytecode for `arch` ("sm_90") to a cubin.

    Raises:
        ToolMissing: no tileiras.
        NotOnCudaTile: the kernel needs more than the machine has.
        CompilerCrash: tileiras refuses the bytecode; the message is what it says.
    """
    with tempfile.TemporaryDirectory(prefix="tessera-") as folder:
        source, target = Path(folder, "kernel.tileirbc"), Path(folder, "kernel.cubin")
        source.write_bytes(bytecode)
        command = [str(tool("tileiras")), *_OPTIONS, f"--gpu-name={arch}", str(source), "-o", str(target)]
        environment = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, env=environment
        )
        if done.returncode or not target.is_file():
            log = (done.stdout + done.stderr).strip().replace(str(source), "kernel.tileirbc")
            if _TOO_MUCH.search(log):
                message = f"tileiras has no room or no instructions for the kernel on {arch}: {log}"
                raise NotOnCudaTile(message, hint="use smaller tiles, or another architecture")
            message = f"tileiras refuses its input: {log or f'exit status {done.returncode}'}"
            raise CompilerCrash(message)
        return target.read_bytes()
