# The MLIR bindings ship no types; what passes through the door is Any.
from types import ModuleType
from typing import Any

ir: Any
passmanager: Any
rewrite: Any
ext: Any

def adopt_dialect(name: str, module: ModuleType) -> None: ...
def translate_to_llvm_ir(operation: Any) -> str: ...
