"""Requests and replies survive the pipe."""

import pickle

import pytest

from tessera.core.base.dtypes import ALL, DType
from tessera.core.targets import CPU
from tessera.lowering.service.protocol import Abort, Compile, Reply, Sleep, Warm
from tessera.lowering.service.warmup import trivial_program


@pytest.mark.parametrize("message", [Warm(CPU), Sleep(1.5), Abort("x"), Reply("done", (1, "a"), 5)])
def test_round_trip(message: object):
    assert pickle.loads(pickle.dumps(message)) == message


def test_programs_keep_their_links():
    program = pickle.loads(pickle.dumps(Compile(trivial_program(), CPU, observe=True))).program
    assert program.body.ops[2].operands[0] is program.body.ops[0].result
    assert program.parameters[0].value is program.body.ops[3].regions[0].ops[0].operands[0]


@pytest.mark.parametrize("dtype", ALL)
def test_dtypes_stay_themselves(dtype: DType):
    assert pickle.loads(pickle.dumps(dtype)) is dtype
