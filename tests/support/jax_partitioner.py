"""What JAX's partitioner makes of models, in a process of its own: `python -m support.jax_partitioner folder`.

XLA reads how many devices there are when JAX is imported first, so the caller sets XLA_FLAGS.  For each model the folder
then has its results (`.npz`) and the compiled HLO (`.hlo`).
"""

# JAX is no dependency, and has no types where it is not installed.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportMissingParameterType=false

import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np

from support.partitioned_models import AXES, EXTENTS, MODELS, Cut, PartitionedModel


def cross_entropy(logits, target):
    found = jax.numpy.take_along_axis(logits, target[..., None], axis=-1)[..., 0]
    return jax.numpy.mean(jax.nn.logsumexp(logits, axis=-1) - found)


OPERATORS = SimpleNamespace(
    **{
        name: getattr(jax.numpy, name)
        for name in ("exp", "matmul", "reshape", "sqrt", "square", "sum", "tanh", "transpose")
    },
    embedding=lambda table, index: jax.numpy.take(table, index, axis=0),
    cross_entropy=cross_entropy,
)


def run(model: PartitionedModel, derived: bool, name: Path) -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(EXTENTS), AXES)

    def cut(dims: Cut):
        spec = jax.sharding.PartitionSpec(*(tuple(each.split()) or None for each in dims))
        return jax.sharding.NamedSharding(mesh, spec)

    if derived:
        function = jax.grad(model.loss(OPERATORS), argnums=model.differentiated)
    else:

        def function(*given):
            return (model.body(OPERATORS, *given),)

    arrays = [jax.device_put(array, cut(dims)) for array, dims in zip(model.arrays, model.cuts, strict=True)]
    ends = tuple(map(cut, model.results(derived=derived)))
    compiled = jax.jit(function, out_shardings=ends).lower(*arrays).compile()
    np.savez(name.with_suffix(".npz"), *map(np.asarray, compiled(*arrays)))
    name.with_suffix(".hlo").write_text(compiled.as_text() or "", encoding="utf-8")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for place, model in enumerate(MODELS.values()):
        for derived in (False, True):
            run(model, derived, folder / f"{place}{'-derived' if derived else ''}")
    (folder / "version").write_text(jax.__version__, encoding="utf-8")
