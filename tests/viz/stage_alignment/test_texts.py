"""What lines say, whatever their values are called."""

import pytest

from tessera.viz.stage_alignment.texts import Renaming, Text, blanked, gaps, text_fields, text_pairs


@pytest.mark.parametrize(
    ("level", "old", "new"),
    [
        ("target", "  %3 = arith.addi %1, %2 : i64", "%c0 = arith.addi %a, %b#1 : i64"),
        ("llvm", "br label %7, !dbg !12", "  br label %8, !dbg !13"),
        ("ptx", "\tadd.s32 \t%r22, %r26, 8;", "\tadd.s32 \t%r30, %r38, 8;"),
        ("ptx", "@%p1 bra $L__BB0_3;", "@%p2 bra $L__BB0_4;"),
        ("sass", "        /*0a30*/  IADD3 R4, UP0, UR4 ;", "  /*1b40*/  IADD3 R5, P1, UR9 ;"),
        ("asm", "vmovups (%rdi,%rax,4), %zmm0", "vmovups (%rsi,%rcx,4), %zmm3"),
    ],
)
def test_names_do_not_count(level: str, old: str, new: str):
    assert blanked(old, level) == blanked(new, level)


def test_numbers_count():
    assert blanked("add.s32 %r1, %r2, 8;", "ptx") != blanked("add.s32 %r1, %r2, 4;", "ptx")
    assert blanked("tile<64x32xf16>", "tile") != blanked("tile<64x64xf16>", "tile")


def test_a_renaming_is_what_most_lines_say():
    lines = [("%1 = f", "%a = f"), ("%2 = g %1", "%b = g %a"), ("%3 = h %1, %2", "%c = h %a, %b")]
    renaming = Renaming(lines)
    assert renaming.same_values(*lines[2])
    assert not renaming.same_values("%3 = h %1, %2", "%c = h %b, %b")
    assert not renaming.same_values("%3 = h %1", "%c = h %a, %b")


def test_marks_are_words_that_differ_but_not_renamed_values():
    renaming = Renaming([("%1 = f", "%a = f")])
    old, new = "  %2 = tessera.dot %1 : f32 scratch", "%7 = tessera.dot %a : f32 instruction wgmma"
    left, right = renaming.marks(old, new)
    assert [old[a:b] for a, b in left] == ["%2", "scratch"]
    assert [new[a:b] for a, b in right] == ["%7", "instruction wgmma"]
    assert renaming.marks("a b c", "a b c") == ((), ())
    assert renaming.marks("MOV R2, R4 ;", "MOV R7, R9 ;") == ((), ())


def test_in_what_two_lines_differ():
    assert text_fields("x {a = 1 : i64}", "x {a = 2 : i64}", "target") == ("attributes",)
    assert text_fields("x loc(#loc1)", "x loc(#loc2)", "target") == ("locations",)
    assert text_fields("x 1", "x 2", "target") == ("text",)


def test_pairs_in_order_then_by_name_then_elsewhere():
    before = Text(["a", "b", "}", "k", "c 1", "d"], ["a", "b", "", "k", "c", "d"])
    after = Text(["d", "a", "}", "k", "c 2", "e", "b"], ["d", "a", "", "k", "c", "e", "b"])
    assert sorted(text_pairs(before, after)) == [(0, 1), (1, 6), (2, 2), (3, 3), (4, 4), (5, 0)]


def test_gaps():
    assert list(gaps([(1, 1), (2, 4)], 5, 6)) == [(0, 1, 0, 1), (3, 5, 5, 6)]
    assert list(gaps([], 0, 3)) == []
