"""Runs PTX text on NumPy arrays: the part of the ISA that LLVM emits for our kernels, without a GPU.

One block at a time; the lanes of a block are executed warp by warp in an order drawn from a seed, so that a missing
barrier shows.  Copies of `cp.async` arrive only when they are waited for.  Every access is checked against the buffers
that exist.
"""

from support.ptx_machine import accesses, arithmetic, bits, conversions, exchange, matrices
from support.ptx_machine.execution import run
from support.ptx_machine.parsing import Kernel, PtxFault, parse
from support.ptx_machine.state import PROCESSORS, Memory

EXECUTORS = (accesses, arithmetic, bits, conversions, exchange, matrices)
"""The modules that execute instructions: importing them registers what they do."""

__all__ = ["EXECUTORS", "PROCESSORS", "Kernel", "Memory", "PtxFault", "parse", "run"]
