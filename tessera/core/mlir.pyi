# The MLIR bindings ship no types; what passes through the door is Any.
from typing import Any

ir: Any
passmanager: Any
rewrite: Any
ext: Any

def translate_to_llvm_ir(operation: Any) -> str: ...
