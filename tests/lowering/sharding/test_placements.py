"""Placements as graphs have them."""

from tessera.core.base.dtypes import bf16
from tessera.core.graph.graph import Tensor
from tessera.core.placement.mesh import Mesh
from tessera.lowering.sharding.placements import dims_of, divides, joined, local_type, placed, text

MESH = Mesh.of(("dp", "tp"), range(8), (2, 4))
PARTIAL = placed([("tp", "dp"), ()], (), "sum")


def test_what_one_device_has():
    kind = Tensor(bf16, (64, 6))
    assert dims_of(PARTIAL) == (("tp", "dp"), ())
    assert local_type(kind, PARTIAL, MESH) == Tensor(bf16, (8, 6))
    assert divides(kind.shape, PARTIAL, MESH)
    assert not divides((12, 6), PARTIAL, MESH)


def test_partial_sums_are_joined():
    found = placed([(), ("tp",)], ("dp",), "max")
    assert text(Tensor(bf16, (4, 8)), found) == "bf16[4, 8@tp]{max: dp}"
    assert joined(found) == placed([(), ("tp",)])
