"""Folds, filters and branches, read off the texts of every level."""

from hypothesis import given
from hypothesis import strategies as st

from tessera.viz.ir.text_structure import Branch, Fold, branches, displayed, filter_text, folds, quiet_lines

PTX = """\
//
.version 8.4
.target sm_90a

.visible .entry k(
)
{
\t.reg .b32 \t%r<3>;
$L__func_begin0:
\t.loc\t1 7 3
\tmov.u32 \t%r1, %tid.x;
\t// begin inline asm
$L__BB0_1:
\tadd.s32 \t%r1, %r1, -1;
\t@%p1 bra \t$L__BB0_1;
\tret;
}""".splitlines()
SASS = """\
\t.target\tsm_90a

.text.k:
/*0000*/       LDC R1, c[0x0][0x28]
/*0010*/   @P0 BRA `(.L_x_2)
.L_x_1:
/*0020*/       FADD R1, R1, R1
.L_x_2:
/*0030*/       BRA `(.L_x_2)""".splitlines()
ASM = """\
\t.text
k:
\t.cfi_startproc
.LBB0_1:
\tvaddps\t%zmm0, %zmm1, %zmm0
\tjne\t.LBB0_1
\tretq""".splitlines()
LLVM = """\
; ModuleID = 'k'
define void @k() {
  br label %1

1:
  %2 = add i32 1, 2
  br i1 %c, label %1, label %done

done:
  ret void
}
!0 = !{}""".splitlines()


def test_the_filter_leaves_out_what_stands_there_for_tools():
    assert quiet_lines("ptx", PTX) == (0, 1, 2, 3, 8, 9, 11)
    assert quiet_lines("sass", SASS) == (0, 1, 5)
    assert quiet_lines("asm", ASM) == (0, 2)
    assert quiet_lines("llvm", LLVM) == (0, 3, 7, 11)
    assert quiet_lines("tile", ["#map = affine_map<()>", "func.func {", "}"]) == (0,)
    assert filter_text("ptx", 1) == "1 line of directives and comments hidden"


def test_branches_lead_from_every_jump_to_its_label():
    assert branches("ptx", PTX) == (Branch(12, (14,), 0),)
    assert branches("sass", SASS) == (Branch(7, (4, 8), 0),)
    assert branches("asm", ASM) == (Branch(3, (5,), 0),)
    assert branches("llvm", LLVM) == (Branch(4, (2, 6), 1), Branch(8, (6,), 0))
    assert branches("tile", ["bra $L__BB0_1;", "$L__BB0_1:"]) == ()


def test_arrows_that_would_cross_run_beside_each_other_and_the_rest_has_none():
    count = 8
    lines = [f"\tbra $L__BB0_{n};" for n in range(count)] + [f"$L__BB0_{n}:" for n in range(count)]
    lanes = [branch.lane for branch in branches("ptx", lines)]
    assert sorted(lanes) == [-1, -1, 0, 1, 2, 3, 4, 5]


def test_regions_and_blocks_fold():
    assert folds("tile", ["func {", "  scf.if {", "    a", "  } else {", "    b", "  }", "}"]) == (
        Fold(0, 6),
        Fold(1, 2),
        Fold(3, 5),
    )
    assert folds("ptx", PTX) == (Fold(6, 16), Fold(12, 15))
    assert folds("sass", SASS) == (Fold(5, 6), Fold(7, 8))


def test_instructions_of_sass_stand_beside_their_address():
    assert displayed("sass", "        /*0060*/              @!P0 FADD.FTZ R1, R2, R3 ;    ") == (
        "/*0060*/  @!P0 FADD.FTZ R1, R2, R3"
    )
    assert displayed("sass", "        /*0010*/                   EXIT ;") == "/*0010*/       EXIT"
    assert displayed("ptx", "\tret;") == "\tret;"


@given(st.lists(st.sampled_from(["a {", "}", "} else {", "$L__BB0_1:", "$L__BB0_2:", "bra $L__BB0_1;", "x"])))
def test_folds_nest(lines: list[str]):
    found = folds("ptx", lines)
    assert len({fold.head for fold in found}) == len(found)
    for one in found:
        assert 0 <= one.head < one.last < len(lines)
        for other in found:
            if one.head < other.head <= one.last:
                assert other.last <= one.last


@given(
    st.lists(st.one_of(st.integers(0, 5).map("$L__BB0_{}:".format), st.integers(0, 5).map("bra $L__BB0_{};".format)))
)
def test_arrows_in_one_column_do_not_touch(lines: list[str]):
    taken: set[tuple[int, int]] = set()
    for branch in branches("ptx", lines):
        places = (branch.target, *branch.sources)
        if branch.lane < 0:
            continue
        rows = {(branch.lane, row) for row in range(min(places), max(places) + 1)}
        assert taken.isdisjoint(rows)
        taken |= rows
