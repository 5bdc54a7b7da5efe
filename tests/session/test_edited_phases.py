"""Edited IR of kernels in phases: each phase gets its part, and mistakes stand where they were made."""

import numpy as np
import pytest

from support.view_cases import CASES
from tessera.core.compilation import FROM_IR, FROM_PTX
from tessera.core.errors.catalog import BadPtx, BadTileIR
from tessera.lowering.program.split_phases import phases
from tessera.session.edited_phases import from_edited_parts

TEXT = "// phase 1 of 2: lines 5 to 6\none\n// phase 2 of 2: line 7\ntwo\nthree\n"


def parts(option: str, text: str) -> list[object]:
    kernel = CASES["phases"].kernel()
    made = phases(kernel.variant().program(CASES["phases"].made()))
    for part in made:
        part.options[option] = text  # pyright: ignore[reportIndexIssue] - a dictionary here
    return [part.options[option] for part in from_edited_parts(made)]


@pytest.mark.parametrize("option", [FROM_IR, FROM_PTX])
def test_each_phase_gets_its_part(option: str):
    assert parts(option, TEXT) == ["one\n", "two\nthree\n"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (TEXT.replace("phase 1", "phase 2"), 1),
        (TEXT.replace("phase 2 of 2", "phase 2 of 3"), 3),
        (TEXT + "// phase 3 of 3\n", 6),
        (TEXT.partition("// phase 2")[0], 2),
        ("", 1),
    ],
)
def test_other_phases_are_a_mistake_at_their_line(text: str, line: int):
    for option, mistake in ((FROM_IR, BadTileIR), (FROM_PTX, BadPtx)):
        with pytest.raises(mistake, match="launched in 2 phases") as caught:
            parts(option, text)
        assert caught.value.span.line == line
        assert (
            caught.value.hint == "keep a line `// phase 1 of 2` in front of each phase, as in the text that was printed"
        )


def test_a_kernel_in_phases_is_compiled_onward_from_its_text():
    case = CASES["phases"]
    kernel, values = case.kernel(), case.made()
    text = kernel.compile(*values).mlir()
    assert text.count("// phase") == 2
    for factor, edited in ((2.0, text), (3.0, text.replace("2.000000e+00", "3.000000e+00"))):
        x, w, h, y = (np.array(value) for value in values)
        kernel.with_ir(edited)(x, w, h, y)
        np.testing.assert_array_equal(h, x * (w * np.float32(factor)))
        np.testing.assert_array_equal(y, h[::-1] - w * np.float32(factor))


def test_ptx_of_phases_is_compiled_for_each():
    case = CASES["phases"]
    kernel, values = case.kernel(), case.made()
    text = str(kernel.compile(*values, target="cuda:sm_90a").ir("ptx"))
    compiled = kernel.with_ir(text).compile(*values, target="cuda:sm_90a")
    assert str(compiled.ir("ptx")) == text
    at = text.rindex("ret;")
    with pytest.raises(BadPtx, match="rot") as caught:
        kernel.with_ir(text[:at] + "rot;" + text[at + 4 :]).compile(*values, target="cuda:sm_90a")
    assert caught.value.span.line == text[:at].count("\n") + 1
