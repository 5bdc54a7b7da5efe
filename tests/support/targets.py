"""The targets that this machine can run: a GPU's too, where there is one."""

import importlib.util
import shutil
import subprocess
from typing import Final

from tessera.runtime.driver.devices import count


def missing_gpu() -> str:
    """Why tests that need a GPU cannot run, or an empty string."""
    smi = shutil.which("nvidia-smi")
    if smi is None or subprocess.run([smi, "-L"], capture_output=True, check=False).returncode != 0:
        return "no NVIDIA GPU"
    return "" if importlib.util.find_spec("cupy") else "no cupy: pip install tessera[cuda13]"


def missing_gpus() -> str:
    """Why tests that need several GPUs cannot run, or an empty string."""
    return missing_gpu() or ("" if gpu_count() > 1 else "one NVIDIA GPU, and not two")


def gpu_count() -> int:
    """The number of GPUs that this process may use; 0 without a driver."""
    return 0 if missing_gpu() else count()


RUNNABLE: Final = ("interpret", "cpu") if missing_gpu() else ("interpret", "cpu", "cuda")
