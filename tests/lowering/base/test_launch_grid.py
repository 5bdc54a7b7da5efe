"""How many groups a launch has."""

import pytest

from support import programs
from support.builder import Builder
from support.mlir import lowered
from tessera.core.artifact import LaunchRule
from tessera.core.program.program import Domain, Program
from tessera.core.targets import TARGETS
from tessera.lowering.base.ir_walk import kernel
from tessera.lowering.base.launch_grid import launch_rule
from tessera.lowering.driver.pipelines import tile_passes

pytestmark = pytest.mark.usefixtures("mlir")


def grouped(domain: Domain):
    b = Builder("grouped")
    b.barrier()
    return b.program(domain=domain, group=(16, 8))


@pytest.mark.parametrize(
    ("program", "rule"),
    [
        (programs.saxpy(), LaunchRule("lanes", extents=("n",), lanes_per_group=512)),
        (programs.group_sum(), LaunchRule("groups", extents=("n",), group=(128,))),
        (grouped(Domain("groups", ("g", 4))), LaunchRule("groups", group=(16, 8), count=("g", 4))),
        (grouped(Domain("single")), LaunchRule("groups", group=(16, 8))),
        (programs.matmul(), LaunchRule("ranges", ranges=(("M", 64), ("N", 64)))),
        (programs.fused_mlp(), LaunchRule("ranges", ranges=((256, 64),))),
        (programs.countdown(), LaunchRule("single")),
    ],
    ids=lambda value: value.kind if isinstance(value, LaunchRule) else value.name,
)
def test_rules(program: Program, rule: LaunchRule):
    module = lowered(program, *tile_passes(TARGETS["cpu"]))
    assert launch_rule(kernel(module), program, 512) == rule
