"""Several GPUs whose kernels the oracle runs, whatever is compiled, and whose folds NumPy does where they lie."""

import ctypes
from collections.abc import Sequence

import numpy as np
import pytest

from support import interpreted_gpu
from support.interpreted_gpu import InterpretedDriver
from tessera.core.placement.reduction_rules import RankReduction
from tessera.core.placement.reduction_trees import Fold
from tessera.core.program.program import Program
from tessera.core.targets import Target
from tessera.graphs.execution import engine_collectives
from tessera.runtime.dist import engines
from tessera.runtime.dist.collectives import fold_with_numpy
from tessera.runtime.dist.engine import Buffer
from tessera.session.compiled import Compiled
from tessera.session.session import Session


def on_host(array: Buffer) -> np.ndarray:
    """The elements of an array of the fake driver, where they lie."""
    memory = (ctypes.c_char * array.nbytes).from_address(array.address)
    return np.frombuffer(memory, array.dtype).reshape(array.shape)


def fold_in_place(
    parts: Sequence[Buffer], fold: Fold, what: RankReduction, root_of: int | None, outs: Sequence[Buffer], stream: object
) -> None:  # fmt: skip
    """Fold what lies on GPUs."""
    fold_with_numpy([on_host(part) for part in parts], fold, what, root_of, [on_host(out) for out in outs], stream)


def install(monkeypatch: pytest.MonkeyPatch, count: int) -> InterpretedDriver:
    """Let the runtime have `count` GPUs."""
    fake = interpreted_gpu.install(monkeypatch, InterpretedDriver(count))
    compile_one = Session._compile  # pyright: ignore[reportPrivateUsage]

    def noted(session: Session, program: Program, target: Target, *, observe: bool, exact: bool) -> Compiled:
        made = compile_one(session, program, target, observe=observe, exact=exact)
        if target.kind.on_gpu:
            fake.programs[made.artifact.code] = made.artifact, made.program
        return made

    monkeypatch.setattr(Session, "_compile", noted)
    monkeypatch.setattr(engine_collectives, "folder", lambda: fold_in_place)
    monkeypatch.setattr(engines, "_MADE", {})
    return fake
