"""How lanes and elements are named."""

import numpy as np
import pytest

from tessera.runtime.interpret.findings import element, lane_list
from tessera.runtime.interpret.memory import Memory


@pytest.mark.parametrize(
    ("lanes", "text"),
    [
        ([3], "lane 3"),
        ([0, 1, 2], "lanes 0 to 2"),
        ([0, 2, 3, 7], "lanes 0, 2 to 3, 7"),
        ([0, 2, 4, 6, 8], "lanes 0, 2, 4, ..."),
    ],
)
def test_lane_list(lanes: list[int], text: str) -> None:
    assert lane_list(np.isin(np.arange(10), lanes)) == text


def test_element() -> None:
    assert element(Memory("smem", np.zeros(8)), 3) == "smem[3]"
    assert element(Memory("A", np.zeros((3, 4))), 6) == "A[1, 2]"
