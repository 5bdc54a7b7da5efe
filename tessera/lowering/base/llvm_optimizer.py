"""LLVM's optimizer: a machine to compile for, a pipeline of passes, and what each pass of it changes.

LLVM prints what its passes change only to standard error, and only in a process that was asked to before it began.  So
the passes are printed by a process of their own, which runs this file: it may import nothing but llvmlite.
"""

import json
import re
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import Final

from llvmlite import binding

_PRINTED: Final = ("--print-changed=quiet", "--print-module-scope")
_DUMP: Final = re.compile(r"^\*\*\* IR Dump After (\S+) on .* \*\*\*\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Machine:
    """A processor that LLVM generates code for; the names are LLVM's own."""

    triple: str
    cpu: str
    features: str
    speed: int
    reloc: str
    codemodel: str

    def make(self) -> binding.TargetMachine:
        """Return the target machine.  Raises RuntimeError where LLVM has no code generator for it."""
        target = binding.Target.from_triple(self.triple)
        return target.create_target_machine(
            cpu=self.cpu, features=self.features, opt=self.speed, reloc=self.reloc, codemodel=self.codemodel
        )


@dataclass(frozen=True, slots=True)
class LlvmPipeline:
    """LLVM's standard passes.

    speed: the 3 of O3; vectorize: loops and straight-line code; per_function: only those passes of the level that
    need no more than one function
    """

    speed: int
    vectorize: bool = False
    per_function: bool = False

    def run(self, module: binding.ModuleRef, machine: binding.TargetMachine) -> None:
        """Optimize `module`, in place."""
        options = binding.create_pipeline_tuning_options(speed_level=self.speed)
        if self.vectorize:
            options.loop_vectorization = options.slp_vectorization = True
        builder = binding.create_pass_builder(machine, options)
        if not self.per_function:
            builder.getModulePassManager().run(module, builder)
            return
        passes = builder.getFunctionPassManager()
        for function in module.functions:
            if not function.is_declaration:
                passes.run(function, builder)


@dataclass(frozen=True, slots=True)
class PassDump:
    """The module as it stood after a pass that changed it; `name` is LLVM's name of the pass (`InstCombinePass`)."""

    name: str
    text: str


def pass_dumps(text: str, machine: Machine, pipeline: LlvmPipeline) -> tuple[PassDump, ...]:
    """Optimize LLVM IR in a process of its own, and return the module after each pass that changed it, in order.

    Raises RuntimeError, with what LLVM said, where LLVM refuses the text.
    """
    task = json.dumps({"text": text, "machine": asdict(machine), "pipeline": asdict(pipeline)})
    done = subprocess.run(
        [sys.executable, "-I", __file__], input=task, capture_output=True, encoding="utf-8", check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    _, *parts = _DUMP.split(done.stderr)
    return tuple(PassDump(name, dump) for name, dump in zip(parts[::2], parts[1::2], strict=True))


def _print_passes() -> None:
    """Read a task from standard input and let LLVM print what its passes change to standard error."""
    task = json.load(sys.stdin)
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    for option in _PRINTED:
        binding.set_option("tessera", option)
    machine = Machine(**task["machine"]).make()
    module = binding.parse_assembly(task["text"])
    LlvmPipeline(**task["pipeline"]).run(module, machine)


if __name__ == "__main__":
    _print_passes()
