"""What can stand at the cursor of a cell."""

import pytest

from tessera_magics.language.names import complete_body, find

KERNEL = "@kernel\ndef k(x: f32[n], y: mut f32[n]):\n    "


def names(text: str, own: tuple[str, ...] = ()) -> list[str]:
    found = complete_body(text, own)
    return [] if found is None else [name for name, _ in found.names]


@pytest.mark.parametrize(
    ("text", "some"),
    [
        (KERNEL + "tile.", ["softmax", "dot", "range", "exp"]),
        (KERNEL + "y[:] = tile.so", ["softmax"]),
        (KERNEL + "cp_async.", ["shared"]),
        (KERNEL + "cp_async.shared.", ["global"]),
        (KERNEL + "launch.", ["thread_id", "grid"]),
        (KERNEL + "tshared.", ["alloc"]),
        ("kernel.", ["autotune", "inspect_ir"]),
        ("autotune.", ["search", "follow"]),
        ("@kernel\ndef k(x: f", ["f16", "f32", "float32"]),
        ("@kernel\ndef k(x: ", ["f32", "i32", "bf16", "mut", "tensor", "Tensor"]),
        ("@kernel\ndef k(x: f32[n, m], y: mut b", ["bf16", "bfloat16"]),
        ("@kernel(", ["tile=", "shared=", "target=", "sanitize=", "fast=", "space="]),
        ("@kernel(tile=(128,), sh", ["shared="]),
        ('@kernel(target="c', ["cpu", "cuda", "cuda_tile"]),
        ("@kernel.autotune(", ["space=", "stages=", "num_warps="]),
        ("k.variant(", ["stages=", "rows_per_group="]),
        ("autotune.search(", ["kernel=", "params=", "budget=", "progress="]),
        (KERNEL + "for t in tile.range(n, ", ["step=", "prefetch=", "axis="]),
        (KERNEL + "for t in tile.range(min(n, 5), st", ["step="]),
        (KERNEL + "s = tshared.alloc[f32](", ["dtype=", "swizzle="]),
        (KERNEL + "v = ti", ["tile"]),
        (KERNEL + "v = tile.cast(x[0], bf", ["bf16", "bfloat16"]),
    ],
)
def test_names_of_the_language(text: str, some: list[str]) -> None:
    assert set(some) <= set(names(text))


@pytest.mark.parametrize(
    "text",
    [
        KERNEL + "x.",  # the user's own
        KERNEL + "# tile.",
        KERNEL + 'text = "tile.',
        KERNEL + "tile.softmax.",
        KERNEL + "y[",
        KERNEL + "y[:] = (1 + ",
        KERNEL,
        "@kernel\ndef k(x",
        "@kernel\ndef k(x: f32[n",
    ],
)
def test_nothing_to_say(text: str) -> None:
    assert [name for name in names(text) if not name.startswith(("x", "n"))] == []


def test_what_is_said_alone() -> None:
    assert complete_body(KERNEL + "tile.", ()).alone
    assert complete_body("@kernel(", ()).alone
    assert not complete_body(KERNEL + "v = ti", ()).alone  # the user has names, too
    assert not complete_body(KERNEL + "tile.range(n, st", ()).alone


def test_what_was_given_is_not_offered_again() -> None:
    offered = names("@kernel(tile=(128,), target='cpu', ")
    assert "shared=" in offered
    assert not {"tile=", "target="} & set(offered)
    assert names("@kernel(tile=") == []


def test_the_users_own_names_go_first() -> None:
    assert names(KERNEL + "tile.", ("tile",)) == []
    assert "tile" not in names(KERNEL + "v = ti", ("tile",))
    assert find(["tile", "softmax"], ("tile",)) is None
    assert find(["tile", "nothing"], ()) is None


def test_types_are_told() -> None:
    kinds = dict(complete_body(KERNEL + "v = t", ()).names)
    assert (kinds["tile"], kinds["tbarrier"], kinds["tf32"]) == ("module", "function", "function")
    assert dict(complete_body("def k(x: f", ()).names)["f32"] == "class"
