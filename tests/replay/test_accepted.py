"""The accepted hashes in their files, and what counts as moved."""

from pathlib import Path

from replay.accepted import Accepted, Hashes, moved, read, write

PASSES = ("to-tile", "tile-simplify", "tile-mask-edges")
BEFORE = Hashes("1234", ("aa", "aa", "bb"), PASSES)


def test_what_is_written_is_read(tmp_path: Path):
    units = {
        ("cuda:sm_80", "shipped/gemm, odd"): BEFORE,
        ("cuda:sm_80", "shipped/gemm, odd #2"): Hashes("5678", ("cc",), ("to-tile",)),
        ("cpu:avx2", "generated/lanes 001"): Hashes("TSR-E701"),
    }
    write(Accepted("llvmlite 1, linux", units), tmp_path)
    found = read(tmp_path)
    assert found.versions == "llvmlite 1, linux"
    assert found.units == units
    assert list(found.of_case("shipped/gemm, odd", "cuda:sm_80")) == ["shipped/gemm, odd", "shipped/gemm, odd #2"]
    assert found.of_case("shipped/gemm", "cuda:sm_80") == {}


def test_there_is_nothing_before_the_first_run(tmp_path: Path):
    assert read(tmp_path) == Accepted("")


def test_a_pass_that_changes_nothing_takes_no_hash(tmp_path: Path):
    write(Accepted("", {("cpu:avx2", "a/b"): BEFORE}), tmp_path)
    assert (tmp_path / "tile_ir.txt").read_text().splitlines()[-1] == "cpu:avx2  a/b = 1 aa - bb"


def differences(now: Hashes) -> list[tuple[str, str]]:
    return list(moved({"a/b": BEFORE}, {"a/b": now}))


def test_other_names_of_passes_are_no_difference():
    assert differences(Hashes("1234", BEFORE.stages, ("one", "two", "three"))) == []


def test_machine_code_that_moved_says_where_tile_ir_differs_first():
    assert differences(Hashes("9999", BEFORE.stages, PASSES)) == [("a/b", "machine code (Tile IR is the same)")]
    changed = Hashes("9999", ("aa", "dd", "bb"), PASSES)
    assert differences(changed) == [("a/b", "machine code (Tile IR from 01 tile-simplify on)")]


def test_tile_ir_that_moved():
    assert differences(Hashes("1234", ("aa", "aa", "ee"), PASSES)) == [("a/b", "Tile IR from 02 tile-mask-edges on")]
    more = Hashes("1234", ("aa", "aa", "bb", "bb"), (*PASSES, "more"))
    assert differences(more) == [("a/b", "4 passes on Tile IR, 3 before")]


def test_programs_that_come_and_go():
    assert list(moved({}, {"a/b": BEFORE})) == [("a/b", "is new")]
    assert list(moved({"a/b": BEFORE}, {})) == [("a/b", "is gone")]
