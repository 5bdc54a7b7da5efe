"""Options: reading, refusing with the right name suggested, completing."""

import pytest
from IPython.core.error import UsageError

from tessera.core.targets import TARGETS
from tessera_magics import options, views


@pytest.mark.parametrize("name", ["cpu", "interpret", "cuda", "cuda:sm_90a", "cuda_tile", "cuda_tile:sm_90"])
def test_targets_are_accepted(name: str) -> None:
    assert options.target_name(name) == name


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cup", "there is no target 'cup'; did you mean cpu? (targets: cpu, interpret, cuda, cuda_tile)"),
        ("cuda:sm_99", "cuda has no architecture 'sm_99'; did you mean sm_89?"),
        ("cpu:zen", "cpu has no architecture 'zen'"),
    ],
)
def test_a_wrong_target_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        options.target_name(text)
    assert said in str(caught.value)


def test_levels_are_separated_by_commas() -> None:
    assert options.levels("tile, asm,") == ("tile", "asm")


@pytest.mark.parametrize(("text", "said"), [("tiel", "did you mean tile?"), ("", "--show needs a level: source, tile")])
def test_a_wrong_level_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        options.levels(text)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--shwo tile", "%%tessera has no option --shwo; did you mean --show?"),
        ("--target=cpu --sanitise", "did you mean --sanitize?"),
        ("-x", "%%tessera has no option -x"),
        ('--out "a', "cannot read the options"),
    ],
)
def test_a_wrong_option_is_refused(line: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        options.check_options(line)
    assert said in str(caught.value)


def test_right_options_and_their_beginnings_pass() -> None:
    options.check_options("--target cpu --sho tile,asm --time --out result")


def test_a_result_needs_a_name() -> None:
    assert options.python_name("result") == "result"
    with pytest.raises(UsageError, match="'2x' cannot be the name of a variable"):
        options.python_name("2x")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("%%tessera --s", ["--show", "--sanitize"]),
        ("%%tessera --target cuda:", ["cuda:sm_80", "cuda:sm_89", "cuda:sm_90a", "cuda:sm_100a"]),
        ("%%tessera --target cuda_tile:sm_1", ["cuda_tile:sm_100", "cuda_tile:sm_120"]),
        ("%%tessera --target cp", ["cpu"]),
        ("%%tessera --show tile,as", ["tile,asm"]),
        ("%%tessera --time --t", ["--target"]),
    ],
)
def test_cells_complete(line: str, found: list[str]) -> None:
    assert options.complete_cell(line) == found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (["scale"], (["scale"], None)),
        (["scale", "--target", "cuda:sm_80"], (["scale"], "cuda:sm_80")),
        (["--target=cuda_tile", "scale"], (["scale"], "cuda_tile")),
        ([], ([], None)),
    ],
)
def test_words_of_the_resources(line: list[str], found: tuple[list[str], str | None]) -> None:
    assert options.resource_words(line) == found


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["scale", "--tarket", "cuda"], "%tessera resources has no option --tarket; did you mean --target?"),
        (["scale", "--target"], "needs one target after --target"),
        (["--target", "cuda", "--target=cuda"], "needs one target after --target"),
        (["scale", "--target", "cuda:sm_99"], "cuda has no architecture 'sm_99'; did you mean sm_89?"),
        (
            ["scale", "--target", "cpu"],
            "cpu is no GPU, whose resources could be told (targets: cuda, cuda_tile, cuda:sm_80",
        ),
    ],
)
def test_wrong_words_of_the_resources_are_refused(words: list[str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        options.resource_words(words)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("%tessera do", ["doctor"]),
        ("%tessera ", ["doctor", "ir", "diff", *views.NAMES, "resources", "targets", "cache", "--version"]),
        ("%tessera resources s", ["saxpy", "scale"]),
        ("%tessera resources saxpy ", ["--target"]),
        ("%tessera resources --t", ["--target"]),
        ("%tessera resources saxpy --target cuda:sm_9", ["cuda:sm_90a"]),
        (
            "%tessera resources --target c",
            [
                "cuda",
                "cuda_tile",
                "cuda:sm_80",
                "cuda:sm_89",
                "cuda:sm_90a",
                "cuda:sm_100a",
                *(f"cuda_tile:{arch}" for arch in TARGETS["cuda_tile"].architectures),
            ],
        ),
        ("%tessera resources saxpy --target cuda ", []),
        ("%tessera ir s", ["saxpy", "scale"]),
        ("%tessera ir saxpy t", ["tile", "target"]),
        ("%tessera cache ", ["info", "clear"]),
        ("%tessera cache info ", []),
        ("%tessera doctor ", []),
    ],
)
def test_commands_complete(line: str, found: list[str]) -> None:
    assert options.complete_line(line, ["scale", "saxpy"]) == found
