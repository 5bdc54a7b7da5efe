"""Compilations of which graphs are made: a product for Hopper's warp groups, and saxpy."""

from dataclasses import dataclass, replace

import pytest

from support.product_programs import matrix_product
from tessera.core.program_records import records_of_program
from tessera.core.resources import Buffers
from tessera.core.stage import Stage, stages_of
from tessera.core.targets import Target
from tessera.lowering.driver.compile import compile_program


@dataclass(frozen=True)
class Observed:
    """The stages of a compilation, and the buffers that it has in shared memory."""

    stages: tuple[Stage, ...]
    buffers: tuple[Buffers, ...]

    def tile(self, name: str) -> Stage:
        """The stage of Tile IR behind a pass."""
        return next(stage for stage in self.stages if stage.level == "tile" and stage.name == name)


@pytest.fixture(scope="session")
def product() -> Observed:
    program = replace(matrix_product((128, 256, 64)), options={})
    found = compile_program(program, Target("cuda", "sm_90a"), observe=True)
    return Observed(
        tuple(stages_of(records_of_program(program), found.listings, found.passes)), found.artifact.resources.buffers
    )
