"""`%%tessera` and `%tessera` in a shell."""

import base64
import json
import re
import zlib
from typing import Any

import numpy as np
import pytest
from IPython.core.completer import provisionalcompleter

import tessera
from support.shell import Shell
from tessera.core.errors.catalog import Race
from tessera.core.resources import ResourceReport
from tessera.kernels.kernel import Kernel
from tessera.session.compiled import Compiled

SCALE = """
@kernel
def scale(x: f32[n], y: mut f32[n], alpha: f32):
    i = tile.linear_id()
    if i < n:
        y[i] = alpha * x[i]
"""
CALL = """
import numpy as np
x, y = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
scale(x, y, 2.0)
y"""


def run(shell: Shell, text: str) -> Any:  # whatever the cell ends with
    result = shell.run_cell(text, store_history=True)
    result.raise_error()
    return result.result if result.result is not None else shell.user_ns.get("_")


def opened(html: str) -> list[str]:
    """The levels that the explorer in a page shows first."""
    found = re.search(r'class="tsr-data"( data-packed)?>(.*?)</script>', html, re.DOTALL)
    assert found is not None
    text = zlib.decompress(base64.b64decode(found[2])).decode() if found[1] else found[2]
    levels: list[str] = json.loads(text)["open"]
    return levels


def usage_error(shell: Shell, text: str, capsys: pytest.CaptureFixture[str]) -> str:
    shell.run_cell(text)
    error = capsys.readouterr().err
    assert error.startswith("UsageError: ")
    return error.removeprefix("UsageError: ").strip()


@pytest.mark.parametrize("target", ["interpret", "cpu"])
def test_a_cell_defines_and_runs_a_kernel(loaded: Shell, target: str) -> None:
    result = run(loaded, f"%%tessera --target {target}{SCALE}{CALL}")
    assert np.array_equal(result, [0, 2, 4, 6, 8])
    assert isinstance(loaded.user_ns["scale"], Kernel)
    assert loaded.user_ns["scale"].options.target == target
    assert "tile" not in loaded.user_ns


def test_a_kernels_own_target_goes_first(loaded: Shell) -> None:
    run(loaded, "%%tessera --target cpu" + SCALE.replace("@kernel", '@kernel(target="interpret")'))
    assert loaded.user_ns["scale"].options.target == "interpret"


def test_an_ordinary_cell_calls_the_kernel_later(loaded: Shell) -> None:
    run(loaded, f"%%tessera --target interpret{SCALE}")
    assert np.array_equal(run(loaded, CALL), [0, 2, 4, 6, 8])


def test_plain_python_kernels_work_in_ordinary_cells(loaded: Shell) -> None:
    plain = SCALE.replace("mut f32[n]", "mut[f32[n]]").replace("@kernel", '@kernel(target="interpret")')
    run(loaded, f"from tessera import kernel, tile\n{plain}")
    assert np.array_equal(run(loaded, CALL), [0, 2, 4, 6, 8])


def test_show_opens_the_viewer_at_the_levels_asked_for(
    loaded: Shell, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[dict[str, str]] = []
    monkeypatch.setattr(loaded.display_pub, "publish", lambda data, **_: shown.append(data))
    run(loaded, f"%%tessera --show tile,asm --out result{SCALE}")
    (bundle,) = shown
    assert bundle["text/plain"] == "scale for cpu: source, tile, target, llvm, asm"
    assert opened(bundle["text/html"]) == ["tile", "asm"]
    result = loaded.user_ns["result"]
    assert isinstance(result, Compiled)
    assert [symbol for symbol, *_ in result.artifact.symbols] == ["n", "n"]


def test_the_sanitizer_finds_a_race(loaded: Shell) -> None:
    race = SCALE.replace("y[i] = alpha", "y[0] = alpha")
    result = loaded.run_cell(f"%%tessera --sanitize{race}{CALL}", store_history=True)
    error = result.error_in_exec
    assert isinstance(error, Race)
    assert error.span.line == 6


def test_an_error_shows_the_caret_the_remedy_and_the_users_call_only(
    loaded: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    typo = SCALE.replace("linear_id", "linear_idd")
    loaded.run_cell(f"%%tessera --target interpret{typo}{CALL}", store_history=True)
    shown = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)
    number = loaded.execution_count - 1
    assert f"--> Cell In[{number}], line 4, column 9" in shown
    assert "    i = tile.linear_idd()\n     |         ^^^^" in shown
    assert "try: did you mean 'linear_id'?" in shown
    assert shown.rstrip().endswith(f"called from Cell In[{number}], line 10: scale(x, y, 2.0)")
    assert "Traceback" not in shown


def test_time_tells_what_was_compiled(loaded: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    run(loaded, f"%%tessera --time{SCALE}{CALL}")
    shown = capsys.readouterr().out
    assert re.search(r"^scale for cpu: compiled in [\d.]+ ms\ncell: [\d.]+ ms$", shown, re.MULTILINE)


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("%%tessera --shwo tile\n1", "%%tessera has no option --shwo; did you mean --show?"),
        ("%%tessera --target cup\n1", "there is no target 'cup'; did you mean cpu?"),
        ("%%tessera --show tile\n1", "the cell defines no kernel to show"),
        (f"%%tessera --show tile --name scala{SCALE}", "the cell defines no kernel 'scala'; did you mean scale?"),
        (
            f"%%tessera --target cuda --show asm{SCALE}",
            "cuda has no level asm (levels: source, tile, target,",
        ),
        ("%tessera dcotor", "%tessera has no command 'dcotor'; did you mean doctor?"),
        ("%tessera ir nothing", "there is no kernel 'nothing'"),
        ("%tessera resources nothing", "there is no kernel 'nothing' (%tessera resources NAME [--target TARGET])"),
        ("%tessera resources x --tarket cuda", "%tessera resources has no option --tarket; did you mean --target?"),
        ("%tessera resources x --target cuda y z", "%tessera resources takes at most 3 words more"),
        ("%tessera cache clean", "%tessera cache knows info and clear, not 'clean'; did you mean clear?"),
        ("%tessera doctor who", "%tessera doctor takes nothing more"),
        ("%tessera 'a", "cannot read the command"),
    ],
)
def test_what_does_not_exist_is_refused_in_words(
    loaded: Shell, capsys: pytest.CaptureFixture[str], cell: str, said: str
) -> None:
    assert said in usage_error(loaded, cell, capsys)


def test_line_commands(loaded: Shell) -> None:
    assert run(loaded, "%tessera --version") == f"tessera {tessera.__version__}"
    assert [row[0] for row in run(loaded, "%tessera targets").rows] == ["cpu", "interpret", "cuda", "cuda_tile"]
    rows = {row[0]: row for row in run(loaded, "%tessera doctor").rows}
    assert rows["target cpu"][1].startswith("ready")
    assert rows["cache"][1] == "0 kernels"
    run(loaded, f"%%tessera{SCALE}{CALL}")
    assert run(loaded, "%tessera cache").startswith("1 compiled kernels, ")
    assert run(loaded, "%tessera cache clear") == "1 compiled kernel deleted"


def test_ir_shows_a_kernel_as_its_last_call_compiled_it(loaded: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict[str, str]] = []
    monkeypatch.setattr(loaded.display_pub, "publish", lambda data, **_: shown.append(data))
    run(loaded, f"%%tessera{SCALE}{CALL}")
    run(loaded, "%tessera ir scale asm")
    assert opened(shown[-1]["text/html"]) == ["asm"]


@pytest.mark.parametrize(("asked", "target"), [("", "cuda:sm_90a"), (" --target cuda:sm_80", "cuda:sm_80")])
def test_resources_of_a_kernel_on_a_gpu(loaded: Shell, asked: str, target: str) -> None:
    run(loaded, f"%%tessera{SCALE}")
    report = run(loaded, f"%tessera resources scale{asked}")
    assert isinstance(report, ResourceReport)
    assert (report.kernel, report.target, report.spill_bytes) == ("scale", target, 0)
    assert report.occupancy is not None
    assert report.count("LDG") == report.count("STG") > 0
    bundle, _ = loaded.display_formatter.format(report)
    assert bundle["text/plain"] == str(report)
    assert "blocks on a multiprocessor" in bundle["text/html"]


def test_resources_are_those_of_the_kernels_own_gpu(loaded: Shell) -> None:
    run(loaded, f"%%tessera --target cuda:sm_89{SCALE}")
    assert run(loaded, "%tessera resources scale").target == "cuda:sm_89"


def test_a_kernel_whose_types_nothing_tells_cannot_be_shown(loaded: Shell) -> None:
    result = loaded.run_cell("%%tessera --show tile\n@kernel\ndef f(X):\n    X[0] = 1.0\n")
    assert type(result.error_in_exec).__name__ == "UnknownLevel"


def test_help_lists_the_options(loaded: Shell) -> None:
    text = loaded.object_inspect("%%tessera")["docstring"]
    for option in ("--target", "--show", "--name", "--time", "--sanitize", "--out"):
        assert option in text
    for command in ("doctor", "ir NAME", "resources NAME", "targets", "cache"):
        assert f"%tessera {command}" in loaded.object_inspect("%tessera")["docstring"]


def test_completion_offers_options_and_kernels(loaded: Shell) -> None:
    def complete(text: str) -> list[str]:
        with provisionalcompleter():
            return [found.text for found in loaded.Completer.completions(text, len(text))]

    assert "--sanitize" in complete("%%tessera --sa")
    assert "--sanitize" in complete("%%tessera --target cpu --sa")
    run(loaded, f"%%tessera{SCALE}")
    assert "scale" in complete("%tessera ir sc")
