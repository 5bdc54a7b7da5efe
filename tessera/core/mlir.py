"""The one door to MLIR: every other module imports the bindings from here.

The wheel ships no type stubs, so `core/mlir.pyi` types these names as `Any`.  Never enable multithreading on a
context: a Python verifier or pass would deadlock.
"""

from torch_mlir import ir, passmanager, rewrite
from torch_mlir.dialects import ext

__all__ = ["ext", "ir", "passmanager", "rewrite", "translate_to_llvm_ir"]


def translate_to_llvm_ir(operation: object) -> str:
    """Translate a module or `gpu.module` that holds nothing but LLVM and NVVM operations to LLVM IR text.

    Callers check that first (see `lowering/target/llvm_ir.py`): a foreign operation would kill the process.
    """
    from torch_mlir.dialects import llvm  # noqa: PLC0415 - 23 ms, needed only by the last step

    return llvm.translate_module_to_llvmir(operation)
