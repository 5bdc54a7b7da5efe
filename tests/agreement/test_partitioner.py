"""Graphs on meshes beside JAX's partitioner: the same results, and never more bytes that a device sends.

Both get the same models, arrays and placements of arguments and results.  JAX runs in a process of its own, on eight
devices of the host; its collectives are read out of the HLO that it compiled, ours out of the graph of one device.
"""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportArgumentType=false

import math
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Final

import numpy as np
import pytest

import tessera
from support.mesh_arrays import Sharded
from support.moved_bytes import Collective, of_graph, of_hlo
from support.partitioned_models import AXES, EXTENTS, MODELS, Cut, PartitionedModel
from tessera import op
from tessera.core.placement.mesh import Mesh
from tessera.graphs.mesh_executable import MeshExecutable
from tessera.lowering.sharding.placements import placed

DEVICES: Final = math.prod(EXTENTS)
MESH: Final = Mesh.of(AXES, range(DEVICES), EXTENTS)


class MoreBytes(AssertionError):
    """Ours moves more than JAX's: what some models are known for, while their results have to agree."""


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what JAX makes of all models; see `support/jax_partitioner.py`."""
    folder = tmp_path_factory.mktemp("jax")
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={DEVICES}",
    }  # fmt: skip
    command = [sys.executable, "-m", "support.jax_partitioner", str(folder)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return folder


# Of these models ours moves more, and why.
ONE_BY_ONE: Final = "nodes are cut one by one, in order: the placement of the result is not known to its operands"
NO_PERMUTE: Final = "no step permutes shards between two placements: what lies apart is gathered, then cut"
MORE_BYTES: Final = {
    ("products that all want one axis", False): ONE_BY_ONE,
    ("a product of transposed cuts", False): NO_PERMUTE,
    ("a sum of two that lie apart", False): NO_PERMUTE,
    ("a sum of two that lie apart", True): NO_PERMUTE,
}
CASES: Final = [
    pytest.param(
        name, derived, id=f"{name}, {'gradients' if derived else 'values'}",
        marks=[pytest.mark.xfail(reason=MORE_BYTES[name, derived], strict=True, raises=MoreBytes)]
        if (name, derived) in MORE_BYTES else [],
    )
    for name in MODELS for derived in (False, True)
]  # fmt: skip


def placement(cut: Cut):
    return placed(tuple(tuple(each.split()) for each in cut))


def ours(model: PartitionedModel, derived: bool) -> tuple[MeshExecutable, list[Sharded]]:
    """Return what runs a model, with its results placed as it says, and its arrays on the mesh."""
    if derived:
        function = tessera.grad(model.loss(op), argnums=model.differentiated)
    else:
        function = tessera.graph.module("ours")(lambda *given: model.body(op, *given))
    arrays = [Sharded.of(array, MESH, *cut) for array, cut in zip(model.arrays, model.cuts, strict=True)]
    traced = function.executable_for(*arrays).traced
    given = dict(zip(traced.inputs, map(placement, model.cuts), strict=True))
    return MeshExecutable(traced, MESH, given, tuple(map(placement, model.results(derived=derived)))), arrays


@pytest.mark.jax
@pytest.mark.parametrize(("name", "derived"), CASES)
def test_same_results_and_no_more_bytes(name: str, derived: bool, theirs: Path):
    model, file = MODELS[name], theirs / f"{list(MODELS).index(name)}{'-derived' if derived else ''}"
    executable, arrays = ours(model, derived)
    with np.load(file.with_suffix(".npz")) as wanted:
        for one, other in zip(executable(*arrays), wanted.values(), strict=True):
            assert isinstance(one, Sharded)
            np.testing.assert_allclose(one.whole, other, rtol=2e-3, atol=2e-4)
    mine = sum(each.sent for each in of_graph(executable.simplified))
    others = sum(each.sent for each in of_hlo(file.with_suffix(".hlo").read_text(encoding="utf-8"), DEVICES))
    if mine > others:
        raise MoreBytes(f"{float(mine)} bytes, and JAX {float(others)}")


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (
            "  %a = f32[4,8]{1,0} all-reduce(%p), channel_id=1, replica_groups={{0,1},{2,3}}, to_apply=%add",
            Collective("all_reduce", 128, 2),
        ),
        (
            "  %a = (f32[4]{0}, bf16[]) all-reduce(%p, %q), replica_groups=[2,4]<=[4,2]T(1,0), to_apply=%add",
            Collective("all_reduce", 18, 4),
        ),
        (
            "  ROOT %a = s32[6]{0} all-gather(%p), replica_groups=mesh['dp'=2,'tp'=4] {'tp'}, dimensions={0}",
            Collective("all_gather", 24, 4),
        ),
        ("  %a = f64[3]{0} reduce-scatter(%p), replica_groups={}, to_apply=%add", Collective("reduce_scatter", 24, 8)),
        (
            "  %a = pred[8]{0} collective-permute(%p), source_target_pairs={{0,0},{1,2},{2,1},{3,3}}",
            Collective("permute", 8, 8, Fraction(2, 8)),
        ),
    ],
)  # fmt: skip
def test_collectives_of_hlo(line: str, wanted: Collective):
    assert list(of_hlo(f"HloModule m\n\nENTRY %main {{\n  %p = f32[] parameter(0)\n{line}\n}}\n", 8)) == [wanted]


def test_collectives_of_loops_are_not_taken_for_one():
    line = "  %a = f32[4]{0} all-reduce(%p), replica_groups={}, to_apply=%add"
    with pytest.raises(AssertionError):
        list(of_hlo(f"HloModule m\n\n%body {{\n{line}\n}}\n\nENTRY %main {{\n  %p = f32[] parameter(0)\n}}\n", 8))


@pytest.mark.parametrize(
    ("kind", "sent"),
    [
        ("all_reduce", 150),
        ("all_gather", 75),
        ("reduce_scatter", 300),
        ("all_to_all", 75),
        ("permute", 100),
        ("slice", 0),
    ],
)
def test_bytes_that_a_device_sends(kind: str, sent: int):
    assert Collective(kind, 100, 4).sent == sent
