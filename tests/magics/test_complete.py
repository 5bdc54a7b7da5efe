"""Completion as IPython asks for it, without names that cannot stand there."""

import pytest
from IPython.core.completer import provisionalcompleter

from support.shell import Shell


def complete(shell: Shell, text: str) -> list[str]:
    with provisionalcompleter():
        return [found.text for found in shell.Completer.completions(text, len(text))]


BODY = "%%tessera\n@kernel\ndef k(x: f32[n], y: mut f32[n]):\n    "


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("%%tessera --target inter", ["interpret"]),
        ("%%tessera --target ", ["cpu", "interpret", "cuda", "cuda_tile"]),
        ("%%tessera --show tile,ll", ["tile,llvm"]),
        ("%tessera cache ", ["info", "clear"]),
        (BODY + "tile.warp_shuffle_d", ["warp_shuffle_down"]),
        (BODY + "cp_async.shared.", ["global"]),
        ("%%tessera\n@kernel\ndef k(x: bf", ["bf16", "bfloat16"]),
        ("%%tessera\n@kernel(sh", ["shared="]),
    ],
)
def test_only_what_can_stand_there(loaded: Shell, text: str, found: list[str]) -> None:
    assert complete(loaded, text)[: len(found)] == found
    assert not {"and", "if", "in", "is", "not", "filter"} & set(complete(loaded, text))


def test_beside_the_users_names(loaded: Shell) -> None:
    loaded.user_ns["tile_width"] = 3
    assert {"tile", "tile_width"} <= set(complete(loaded, BODY + "v = til"))


def test_other_cells_are_left_alone(loaded: Shell) -> None:
    assert complete(loaded, "tile.soft") == []
    assert "print" in complete(loaded, "pri")
