"""The listing of a CUDA Tile program."""

from support import programs
from support.tile_cases import attention, control
from support.tile_machine import lowered
from tessera.core.program.program import Program
from tessera.lowering.cuda_tile.text import target_listing

VIEW = "partition_view<tile=(128), padding_value=zero, tensor_view<?xf32, strides=[1]>>"


def printed(program: Program) -> list[str]:
    return target_listing(lowered(program)[1], program).text.split("\n")


def test_a_copy_reads_well():
    assert printed(programs.tile_copy()) == [
        "entry @tile_copy(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>, %n: tile<i64>) {",
        "  %0, %1, %2 = get_tile_block_id : tile<i32>",
        "  %group = exti unsigned %0 : tile<i64>",
        "  %token = make_token",
        "  %3 = assume bounded=0.. %n : tile<i64>",
        "  %4 = assume bounded=0.. %n : tile<i64>",
        "  %5 = make_tensor_view %x, %3 : tensor_view<?xf32, strides=[1]>",
        f"  %6 = make_partition_view %5 : {VIEW}",
        "  %7 = make_tensor_view %y, %4 : tensor_view<?xf32, strides=[1]>",
        f"  %8 = make_partition_view %7 : {VIEW}",
        "  %9 = muli %group, 128 : tile<i64>",
        "  %10 = shri unsigned %9, 7 : tile<i64>",
        "  %block, %token_1 = load_view_tko %6, %10, %token : tile<128xf32>",
        "  %token_2 = join_tokens %token, %token_1",
        "  %11 = mulf %block, 2.0 : tile<128xf32>",
        "  %12 = shri unsigned %9, 7 : tile<i64>",
        "  %token_3 = store_view_tko %11, %8, %12, %token_2 : tile<128xf32>",
        "}",
    ]


def test_loops_branches_and_reductions():
    text = "\n".join(printed(control()))
    assert "loop iter_values(" in text
    assert "} else {" in text
    assert "    break " in text or "      break " in text
    text = "\n".join(printed(attention(16, 16, 32)))
    assert " = for %n in (0 to %s, step 32) iter_values(%top = -inf, %total = 0.0, %acc = 0.0" in text
    assert "reduce maxf propagate_nan %" in text
    assert "permute permutation=[1, 0] %" in text


def test_every_name_is_defined_once_and_every_line_of_code_is_linked():
    program = attention(16, 16, 32)
    listing = target_listing(lowered(program)[1], program)
    names: list[str] = []
    for line in listing.lines:
        head, equals, _ = line.text.strip().partition(" = ")
        if equals and head.startswith("%"):
            names += head.split(", ")
    assert len(names) == len(set(names))
    linked = [line for line in listing.lines if line.ops]
    assert len(linked) > len(listing.lines) / 2
    operations = list(program.body.walk())
    for line in linked:
        assert all(span in {op.span for op in operations} for span in line.spans)
        assert max(line.ops) < len(operations)
