from tessera.core.resources import Buffers, Instructions, Limit, Occupancy, ResourceReport

FULL = Occupancy(
    2, 16, 64, (Limit("warps", 8, 8, 64, "warps"), Limit("registers", 2, 32768, 65536, "registers"),
                Limit("shared memory", 2, 110000, 233472, "bytes")),
)  # fmt: skip
REPORT = ResourceReport(
    "gemm", "cuda:sm_90a", threads=256, elements=2, registers=128, spill_bytes=0, stack_bytes=8, shared_bytes=110000,
    scratch_bytes=4096, barriers=1, code_bytes=9000, occupancy=FULL, total=12,
    instructions=(
        Instructions("HGMMA", 4, "products"), Instructions("LDG.128", 5, "loads"), Instructions("LDG.32", 3, "more loads"),
    ),
    notes=("setmaxnreg ignored",), buffers=(Buffers("pipeline 0", 4, 24576), Buffers("stores", 1, 16384)),
)  # fmt: skip


def test_every_cause_that_allows_no_more_blocks_limits():
    assert FULL.limited_by == ("registers", "shared memory")
    assert FULL.fraction == 0.25


def test_counts_of_all_widths_or_of_one():
    assert REPORT.count("LDG") == 8
    assert REPORT.count("LDG.128") == 5
    assert REPORT.count("HGMMA", "QGMMA") == 4
    assert REPORT.count("QGMMA") == 0


def test_the_report_as_text():
    assert (
        str(REPORT)
        == """\
gemm for cuda:sm_90a
  lanes of a block           256 (8 warps), 2 elements each
  registers of a lane        128
  spilled                    0 bytes
  stack of a lane            8 bytes
  hardware barriers          1
  shared memory of a block   110,000 bytes
    pipeline 0               4 buffers of 24,576 bytes
    stores                   1 buffer of 16,384 bytes
  private memory of a block  4,096 bytes
  on a multiprocessor        2 blocks, 16 of 64 warps (25%), limited by registers and shared memory
  code                       9,000 bytes, 12 instructions
instructions
  HGMMA         4  products
  LDG.128       5  loads
  LDG.32        3  more loads
note: setmaxnreg ignored"""
    )


def test_a_target_that_says_little():
    assert (
        str(ResourceReport("k", "cpu", code_bytes=12))
        == """\
k for cpu
  shared memory of a block  0 bytes
  code                      12 bytes"""
    )
