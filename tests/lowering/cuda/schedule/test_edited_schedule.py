"""Schedules that were edited by hand: what is compiled then, and what is refused, at which line and with what remedy."""

import re
from dataclasses import replace

import pytest

from lowering.cuda.hopper import attention, product
from support.simulate import compile_cuda, compile_ptx, ptx_of
from tessera.core.compilation import AS_MLIR, FROM_IR
from tessera.core.errors.catalog import BadTileIR
from tessera.core.program.program import Program
from tessera.core.resources import Buffers
from tessera.core.tile.editable import FILE


def text_of(program: Program, stage: str = "cuda-fit") -> str:
    """The Tile IR behind a stage, as it can be edited."""
    shown = compile_cuda(replace(program, options={**program.options, AS_MLIR: True}))
    return next(listing.text for listing in shown.listings if listing.stage == stage)


def onward(program: Program, text: str) -> Program:
    return replace(program, options={**program.options, FROM_IR: text})


def test_an_edited_depth_is_the_depth_of_the_pipeline():
    program = product()
    text = text_of(program)
    assert "stages = 4 : i64" in text
    before, after = (
        compile_ptx(program),
        compile_ptx(onward(program, text.replace("stages = 4 : i64", "stages = 3 : i64"))),
    )
    assert Buffers("pipeline 0", 4, 49152) in before.resources.buffers
    assert Buffers("pipeline 0", 3, 49152) in after.resources.buffers
    assert ptx_of(before).count("mbarrier.init") == 8
    assert ptx_of(after).count("mbarrier.init") == 6


def test_passes_behind_an_earlier_stage_see_what_was_edited():
    program = product((128, 128, 64))
    text = text_of(program, "cuda-select-warps")
    edited = compile_cuda(onward(program, text.replace("num_warps = 8 : i64", "num_warps = 4 : i64")))
    stages = {listing.stage: listing.text for listing in edited.listings if listing.level == "tile"}
    assert "cuda-select-mma" not in stages
    assert " num_warps 4 " in stages["cuda-fit"].splitlines()[0]
    assert edited.artifact.launch.lanes_per_group == 128 + 128


@pytest.mark.parametrize(
    ("before", "after", "words", "remedy", "line"),
    [
        (r"stages = 4 : i64", "stages = 40 : i64", "`stages = 40` is not legal", "tessera.schedule", "func.func"),
        (r"stages = 4 : i64", "stages = 7 : i64", "pipelines take 376,944 of 232,448 bytes", "fewer `stages`", "func.func"),
        (r'"wgmma"', '"tcgen05"', '`tessera.instruction = "tcgen05"` is not legal', '"wgmma" or "mma" or "fma"', "dot"),
        (r"tessera.pipeline = 0", "tessera.pipeline = 3", "there is no pipeline 3", "another number", "load"),
        (r"num_warps = 8", "num_warps = 4", "this layout is for 8 warps, and there are 4", "cuda-rasterize", ""),
        (r"producer_warp = true, ", "", "there is none `producer_warp`", "edit both", "func.func"),
        (r"lanes \[1:2", "lanes [1:999", "`1:999` is no move inside a tile", "was printed with", ""),
    ],
)  # fmt: skip
def test_what_is_not_legal_is_said_at_its_line(before: str, after: str, words: str, remedy: str, line: str):
    program = product()
    text = re.sub(before, after, text_of(program))
    with pytest.raises(BadTileIR, match=re.escape(words)) as caught:
        compile_ptx(onward(program, text))
    assert remedy in caught.value.hint
    assert caught.value.span.file == FILE
    assert line in text.split("\n")[caught.value.span.line - 1]
    assert "^" in str(caught.value)


def test_a_text_of_another_kernel_is_refused():
    with pytest.raises(BadTileIR, match="this is not attention_forward for these arguments"):
        compile_ptx(onward(attention(), text_of(product())))


def test_a_stage_that_there_is_not_is_refused():
    text = text_of(product()).replace('"cuda-fit"', '"cuda-magic"')
    with pytest.raises(BadTileIR, match="`cuda-magic` is no pass of this target"):
        compile_ptx(onward(product(), text))
