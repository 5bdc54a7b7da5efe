"""Load a CPU artifact's object code into this process and find its entry point."""

import ctypes
import functools
import itertools
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Final

from tessera.core.artifact import Artifact
from tessera.core.errors.catalog import CompilerCrash
from tessera.core.object_files import undefined_symbols

Entry = Callable[["bytes | ctypes.Array[ctypes.c_char]", int, int, int, int], int]
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
_numbers: Final = itertools.count()
"""Of the libraries that were linked: a name is used once."""


class Loaded:
    """An artifact's code in memory; the code lives as long as this object.

    address: of its first instruction; entry: runs without the interpreter's lock
    quick: keeps it: for work of some microseconds, after which getting the lock back could take milliseconds
    """

    def __init__(self, artifact: Artifact) -> None:
        self._library = _linked(artifact)
        self.address: int = self._library[artifact.entry]
        self.entry: Entry = _RELEASING(self.address)
        self.quick: Entry = _HOLDING(self.address)


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
    (address,) = native_functions(text, name)
    return address


def native_functions(text: str, *names: str) -> tuple[int, ...]:
    """Compile LLVM IR for this process, for good, and return the addresses of its functions."""
    builder = _binding().JITLibraryBuilder().add_ir(text).add_current_process()
    for name in names:
        builder.export_symbol(name)
    library = builder.link(_linker(), f"native {next(_numbers)}")
    _for_good.append(library)
    return tuple(library[name] for name in names)


def prepare() -> None:
    """Load LLVM's part of this process, which the first launch needs."""
    _linker()


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


@functools.cache
def _linker() -> object:
    """Return this process's linker: JITLink, which places all sections of an object in one piece of memory.

    The older one, of MCJIT, has a piece for each kind of section.  In a process with many threads or with CUDA, whose
    reservations fill the addresses, two of them can lie more than 2 GiB apart: too far for the relative addresses in
    the code, and LLVM ends the process (llvm/llvm-project#71963).
    """
    library = _binding()
    machine = library.Target.from_default_triple().create_target_machine(jit=True)
    return library.create_lljit_compiler(machine, use_jit_link=True, suppress_errors=True)


def _linked(artifact: Artifact) -> Mapping[str, int]:
    """Return the address of an artifact's entry; its code is unloaded with what is returned."""
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
    builder = library.JITLibraryBuilder().add_object_img(artifact.code).add_current_process()
    try:
        return builder.export_symbol(artifact.entry).link(_linker(), f"kernel {next(_numbers)}")
    except RuntimeError as error:
        message = f"the code of kernel {artifact.name!r} cannot be linked: {error}"
        raise CompilerCrash(message, artifact.span) from None
