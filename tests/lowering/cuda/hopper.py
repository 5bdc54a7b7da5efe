"""Kernels for warp groups, and what the tests look for in their code."""

import re
from dataclasses import replace
from typing import cast

import numpy as np
from ml_dtypes import bfloat16
from numpy.typing import DTypeLike

from support.product_programs import matrix_product
from support.simulate import compile_ptx, ptx_of
from tessera import graph, op
from tessera.core.program.program import Program
from tessera.core.targets import GENERATIONS, Target
from tessera.graphs.function import GraphFunction
from tessera.graphs.steps import steps_of
from tessera.lowering.schedule.emit.to_program import to_program
from tessera.ops.tiles.attention import attention_backward_keys, attention_forward
from tessera.performance.machine_kind import MachineKind

TILE = (128, 256, 64)
COPY = "cp.async.bulk.tensor.2d.shared::cluster.global"


def product(
    tile: tuple[int, int, int] = TILE, *, turned: tuple[bool, bool] = (False, False), **options: int
) -> Program:
    """A product of aligned bf16 matrices."""
    return replace(matrix_product(tile, turned=turned), options=options)


def attention(*, causal: bool = False, length: int = 1024, width: int = 128) -> Program:
    """The library's attention kernel for [1, 2, length, width] arrays of bf16."""
    kernel = attention_forward.variant(BM=128, BN=128, CAUSAL=causal)
    q = np.zeros((1, 2, length, width), bfloat16)
    target = Target("cuda", "sm_90a")
    return kernel.compile(q, q, q, q, 0.1, 1, target=str(target)).program


def gradients(*, causal: bool = False, length: int = 1024, width: int = 128, **constants: int) -> Program:
    """The library's kernel for the gradients of keys and values, which keeps those of the scores."""
    kernel = attention_backward_keys.variant(**{"BM": 64, "BN": 128, **constants}, CAUSAL=causal)
    q, rows = np.zeros((1, 2, length, width), bfloat16), np.zeros((1, 2, length), np.float32)
    kept = np.zeros((1, 2, 1, length, -(-length // 64) * 64), bfloat16)
    return kernel.compile(q, q, q, q, rows, rows, kept, q, q, 0.1, 1, target="cuda:sm_90a").program


def code(program: Program) -> str:
    """The PTX for sm_90a."""
    return ptx_of(compile_ptx(program))


def places(text: str, pattern: str) -> list[int]:
    """Where a pattern stands in a text."""
    return [found.start() for found in re.finditer(pattern, text)]


def convolution(
    images: tuple[int, ...] = (32, 14, 14, 64), filters: int = 64, blocks: dict[int, int] | None = None,
    dtype: DTypeLike = bfloat16, stride: int = 1,
) -> Program:  # fmt: skip
    """A convolution of aligned images with 3 x 3 filters, the channels last; blocks: by axis, of the group's own."""
    x, w = np.zeros(images, dtype), np.zeros((filters, 3, 3, images[-1]), dtype)

    def convolved(x: DTypeLike, w: DTypeLike) -> object:
        return op.relu(op.conv2d(x, w, padding=1, layout="NHWC", stride=stride))

    made = cast("GraphFunction[..., object]", graph.module("convolution")(convolved))
    executable = made.executable_for(x, w)
    (group,) = executable.plan.groups
    chosen = steps_of(group, MachineKind(GENERATIONS["sm_90"]))
    aligned = dict.fromkeys((*group.inputs, *group.outputs), True)
    return to_program(
        group, {**chosen.blocks, **(blocks or {})}, chosen.options, executable.graph.source, aligned
    ).program
