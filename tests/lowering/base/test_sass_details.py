"""Control codes and live registers of SASS, of encodings that are known and of PTX that ptxas compiles here."""

import re

import pytest

from tessera.core.errors.catalog import CompilerCrash
from tessera.lowering.base.cuda_toolkit import assemble, disassemble
from tessera.lowering.base.sass_details import ControlCode, control_code, instruction_details, read_details

PTX = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q) {
  .reg .b64 %a<4>;
  .reg .f32 %f<4>;
  ld.param.u64 %a0, [p];
  ld.param.u64 %a1, [q];
  ld.global.f32 %f0, [%a0];
  ld.global.f32 %f1, [%a0+4];
  add.f32 %f2, %f0, %f1;
  st.global.f32 [%a1], %f2;
  ret;
}
"""


@pytest.mark.parametrize(
    ("high", "code", "text"),
    [
        # LDC R1, c[0x0][0x28]
        (0x000FE20000000800, ControlCode(1, False, None, None, (), ()), "B------:R-:W-:-:S01"),
        # S2R R4, SR_TID.X
        (0x000E2E0000002100, ControlCode(7, False, 0, None, (), ()), "B------:R-:W0:-:S07"),
        # every field: waits for 0 and 5, sets 2 when read and 1 when written, yields, keeps operands 0 and 1
        (0b11 << 58 | 0b100001 << 52 | 2 << 49 | 1 << 46 | 0 << 45 | 4 << 41,
         ControlCode(4, True, 1, 2, (0, 5), (0, 1)), "B0----5:R2:W1:Y:S04"),
    ],
)  # fmt: skip
def test_control_codes_are_decoded(high: int, code: ControlCode, text: str):
    found = control_code(high << 64 | 0xFFFFFFFFFFFFFFFF)
    assert found == code
    assert found.text == text


def test_a_control_code_in_words():
    assert ControlCode(1, False, None, None, (), ()).words == "next instruction after 1 cycle"
    assert ControlCode(4, True, 1, 2, (0, 5), (0,)).words == (
        "waits for scoreboard 0, 5; next instruction after 4 cycles; its result is ready when scoreboard 1 is released;"
        " its operands were read when scoreboard 2 is released; another warp may go first;"
        " operand 0 stays in the reuse cache"
    )


def test_an_addition_waits_for_the_scoreboards_of_its_loads():
    cubin = assemble(PTX, "sm_90a").cubin
    details = instruction_details(cubin)
    rows = dict(re.findall(r"/\*([0-9a-f]{4,})\*/\s+(\w.*?)\s*;", disassemble(cubin)))
    assert {address for _, address in details} <= {int(address, 16) for address in rows}
    listed = {
        text: details["k", int(address, 16)] for address, text in rows.items() if ("k", int(address, 16)) in details
    }
    codes = {text: control_code(each.encoding) for text, each in listed.items()}
    loads = [code for text, code in codes.items() if text.startswith("LDG")]
    (add,) = [code for text, code in codes.items() if text.startswith("FADD")]
    assert len(loads) == 2
    assert all(load.write is not None for load in loads)
    assert {load.write for load in loads} <= set(add.waits)
    assert add.write is None
    live = {text: each.live.get("GPR", 0) for text, each in listed.items()}
    (sum_,) = [count for text, count in live.items() if text.startswith("FADD")]
    (exit_,) = [count for text, count in live.items() if text.startswith("EXIT")]
    assert sum_ > exit_


def test_what_is_no_cubin_is_refused():
    with pytest.raises(CompilerCrash, match="nvdisasm refuses"):
        instruction_details(b"no cubin")


def test_rows_without_live_registers_are_read_too():
    text = """
\t.section\t.text.f,"ax",@progbits
        /*0000*/   NOP ;   /* 0x0000000000007918 */
                           /* 0x000fc00000000000 */
"""
    details = read_details(text)
    assert list(details) == [("f", 0)]
    assert details["f", 0].encoding == 0x000FC000000000000000000000007918
    assert details["f", 0].live == {}
