"""The block of the documents that makes an array over a domain, word for word."""

import numpy as np
import pytest

import tessera
from support.documents import BLOCKS
from tessera.api.source_module import run_cell


@pytest.mark.parametrize("in_a_cell", [False, True])
def test_the_block_of_the_documents(in_a_cell: bool):
    text = BLOCKS["domain"].partition("\n@jit")[0]
    tessera.dist.Mesh(("dp", "tp"), range(6), (2, 3))
    found: dict[str, object] = {"tessera": tessera, "B": 4, "S": 9, "Dm": 8}
    if in_a_cell:
        run_cell(text, found, name="<domain>")
    else:
        exec(text, found)
    x = found["X"]
    assert isinstance(x, tessera.dist.Tensor)
    assert str(x.type) == "bf16[4@dp, 9@tp, 8]"
    x[...] = 2
    np.testing.assert_array_equal(np.asarray(x, np.float32), np.full((4, 9, 8), 2))
