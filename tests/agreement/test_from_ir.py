"""Tile IR of every kernel of the library, printed and read again behind the last pass: the code is the same."""

import re
from dataclasses import replace
from unittest import mock

import pytest

from agreement.test_shipped import CALLS
from tessera.core.compilation import AS_MLIR, FROM_IR
from tessera.core.program.program import Program
from tessera.core.settings import overridden
from tessera.core.targets import Target
from tessera.lowering.cuda import to_nvvm
from tessera.lowering.cuda.ptx import Ptx
from tessera.lowering.driver.compile import compile_program

_PLACE = re.compile(r" loc\(.*|^#loc.*", re.MULTILINE)


def target_ir(program: Program, target: Target, *, observe: bool = False) -> tuple[str, dict[str, str]]:
    """The Target IR without places of the source, and the stages of Tile IR."""
    with (
        mock.patch.object(to_nvvm, "find_tool", return_value=None),
        mock.patch.object(to_nvvm, "_to_ptx", lambda module, *_: (Ptx(str(module), ""), [])),
    ):
        made = compile_program(program, target, observe)
    stages = {listing.stage: listing.text for listing in made.listings if listing.level == "tile"}
    return _PLACE.sub("", made.artifact.code.decode()), stages


@pytest.mark.parametrize("call", CALLS)
def test_what_is_printed_and_read_gives_the_same_code(call: str):
    target = Target("cuda", "sm_90a")
    with overridden(target=str(target)):
        programs = [launch.kernel.program(launch.arguments) for launch in CALLS[call]().launches]
    for program in programs:
        options = dict(program.options)
        code, stages = target_ir(replace(program, options={**options, AS_MLIR: True}), target, observe=True)
        again, _ = target_ir(replace(program, options={**options, FROM_IR: stages["cuda-fit"]}), target)
        assert again == code
