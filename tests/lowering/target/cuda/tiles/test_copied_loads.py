"""Which loads go to shared memory as they are."""

import pytest

from lowering.target.cuda.tiles.cases import plan_of
from lowering.target.cuda.tiles.hopper import gradients


@pytest.mark.parametrize(("length", "along"), [(1024, 3), (1026, 1)], ids=["aligned", "rows of 4104 bytes"])
def test_vectors_of_aligned_arrays_come_with_a_factor(length: int, along: int):
    """A head's 1026 f32 do not begin at multiples of 16 bytes: lanes read them from the array."""
    plan, _ = plan_of(gradients(length=length))
    assert plan is not None
    assert max(len(ring.loads) for ring in plan.rings) == along
