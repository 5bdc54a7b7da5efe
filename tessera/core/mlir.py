"""The one door to MLIR: every other module imports the bindings from here.

The package ships no types; pyright finds those that `make stubs` writes into `typings`.  Never enable multithreading on
a context: a Python verifier or pass would deadlock.
"""

import sys
from types import ModuleType
from typing import TypeAlias

from torch_mlir import ir, passmanager, rewrite
from torch_mlir.dialects import ext

__all__ = ["AnyOp", "Index", "adopt_dialect", "ext", "ir", "passmanager", "rewrite", "translate_to_llvm_ir"]

AnyOp: TypeAlias = ir.Operation | ir.OpView
"""An operation: blocks and values hand out views of operations, `walk` and `create` the operations themselves."""
Index: TypeAlias = int | ir.Value
"""A number that is known while the code is written, or the value that will hold it."""


def adopt_dialect(name: str, module: ModuleType) -> None:
    """Say that `module` defines the dialect `name`.

    Whenever they meet one of its operations, the bindings import the dialect's module; one they do not find, they look
    for again each time, which takes longer than everything else that is done with the operation.
    """
    sys.modules.setdefault(f"torch_mlir.dialects.{name}", module)


def translate_to_llvm_ir(operation: AnyOp) -> str:
    """Translate a module or `gpu.module` that holds nothing but LLVM and NVVM operations to LLVM IR text.

    Callers check that first (see `lowering/base/llvm_ir.py`): a foreign operation would kill the process.
    """
    from torch_mlir.dialects import llvm  # noqa: PLC0415 - 23 ms, needed only by the last step

    return llvm.translate_module_to_llvmir(operation.operation)
