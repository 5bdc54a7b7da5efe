"""Load a CPU artifact's object code into this process and find its entry point."""

import ctypes
import functools
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from types import ModuleType
from typing import Final, Protocol

from tessera.core.artifact import Artifact
from tessera.core.errors.catalog import CompilerCrash
from tessera.core.object_files import undefined_symbols

Entry = Callable[[bytes, int, int, int, int], int]
"""entry(slots, first group, past the last group, address of scratch, address of the cancel flag): 1 when it stopped."""

# The slots go in as the bytes object itself: its data is 8-byte aligned, and the kernel only reads it.
_SIGNATURE: Final = (
    ctypes.c_int32, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p,
)  # fmt: skip
_RELEASING: Final = ctypes.CFUNCTYPE(*_SIGNATURE)
_HOLDING: Final = ctypes.PYFUNCTYPE(*_SIGNATURE)
_KEPT: Final = 256
_lock: Final = threading.Lock()
_loaded: Final[OrderedDict[str, "Loaded"]] = OrderedDict()
_for_good: Final[list[object]] = []


class _Engine(Protocol):
    """The part of llvmlite's `ExecutionEngine` that is used here."""

    def get_function_address(self, name: str) -> int:
        """Return the address of a function, 0 for an unknown one."""
        ...


class Loaded:
    """An artifact's code in memory; the code lives as long as this object.

    address: of its first instruction; entry: runs without the interpreter's lock
    quick: keeps it: for work of some microseconds, after which getting the lock back could take milliseconds
    """

    def __init__(self, artifact: Artifact) -> None:
        self._engine = _engine(artifact)
        address = self._engine.get_function_address(artifact.entry)
        if not address:
            message = f"the code of kernel {artifact.name!r} has no entry point {artifact.entry!r}"
            raise CompilerCrash(message, artifact.span)
        self.address = address
        self.entry: Entry = _RELEASING(address)
        self.quick: Entry = _HOLDING(address)


def load(artifact: Artifact) -> Loaded:
    """Return `artifact` ready to run, loading it once; the 256 last used stay loaded.

    Raises CompilerCrash for code that refers to functions this process does not have.
    """
    with _lock:
        found = _loaded.get(artifact.key)
        if found is None:
            found = _loaded[artifact.key] = Loaded(artifact)
            if len(_loaded) > _KEPT:
                _loaded.popitem(last=False)
        else:
            _loaded.move_to_end(artifact.key)
        return found


def native_function(text: str, name: str) -> int:
    """Compile LLVM IR for this process, for good, and return the address of one of its functions."""
    library = _binding()
    machine = library.Target.from_default_triple().create_target_machine(jit=True)
    engine = library.create_mcjit_compiler(library.parse_assembly(text), machine)
    engine.finalize_object()
    _for_good.append(engine)
    return engine.get_function_address(name)


def prepare() -> None:
    """Load LLVM's part of this process, which the first launch needs."""
    _binding()


@functools.cache
def _binding() -> ModuleType:
    library = _llvm()
    library.initialize_native_target()
    library.initialize_native_asmprinter()
    if sys.platform.startswith("linux"):
        library.load_library_permanently("libm.so.6")  # fmodf and its like
    return library


def _llvm() -> ModuleType:
    from llvmlite import binding  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs] - 30 ms

    return binding


def _engine(artifact: Artifact) -> _Engine:
    library = _binding()
    try:
        needed = undefined_symbols(artifact.code)
    except ValueError as error:
        raise CompilerCrash(f"the code of kernel {artifact.name!r} is damaged: {error}", artifact.span) from None
    # `_GLOBAL_OFFSET_TABLE_` is the linker's own.
    missing = [n for n in needed if n != "_GLOBAL_OFFSET_TABLE_" and not library.address_of_symbol(n)]
    if missing:
        message = f"the code of kernel {artifact.name!r} calls {', '.join(missing)}, which this process does not have"
        raise CompilerCrash(message, artifact.span)
    machine = library.Target.from_default_triple().create_target_machine(jit=True)
    engine = library.create_mcjit_compiler(library.parse_assembly(""), machine)
    engine.add_object_file(library.ObjectFileRef.from_data(artifact.code))
    engine.finalize_object()
    return engine
