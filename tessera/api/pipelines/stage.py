"""One part of a pipeline: a function on the devices of its stage, with the graphs of its value and its gradients."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeAlias

from tessera.api.autodiff import grad, value_and_grad
from tessera.core.arrays.array_methods import Array
from tessera.core.base.dtypes import bf16, dtype_of, f16, f32
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.shard_spec import Distribution
from tessera.dist import tensors
from tessera.dist.tensors import Tensor
from tessera.graphs.function import GraphFunction
from tessera.graphs.structure import flatten, unflatten
from tessera.graphs.tracer import Tracer, as_tracer
from tessera.runtime.memory.device_shards import Shard, sent

Tree: TypeAlias = Array  # or tuples, lists, dicts and dataclasses of them, as functions take and return them
Function: TypeAlias = Callable[[Tree, Tree], Tree]
Loss: TypeAlias = Callable[[Tree, Tree], Tree]
_SHORT: Final = (f16, bf16)
_LOSSES: Final = 8
"""Losses whose graphs a stage keeps."""


@dataclass(frozen=True)
class Stage:
    """A part of a pipeline.

    function: takes (parameters, x), and returns the x of the next part
    mesh: the devices of the stage, without the axis of the pipeline
    weight: what the loss and its gradients of one micro-batch are multiplied by
    """

    number: int
    function: Function
    mesh: Mesh
    weight: float
    _turns: OrderedDict[Loss, GraphFunction[..., tuple[Tree, Tree, Tree]]] = field(
        default_factory=OrderedDict[Loss, Array], compare=False
    )

    @property
    def name(self) -> str:
        """Its name in graphs and messages."""
        return f"stage {self.number} ({getattr(self.function, '__name__', 'a function')})"

    @cached_property
    def forward(self) -> GraphFunction[[Tree, Tree], Tree]:
        """The graph of (parameters, x)."""
        return GraphFunction(self.function, f"{self.name}, forward")

    @cached_property
    def backward(self) -> GraphFunction[..., tuple[Tree, Tree]]:
        """The graph of (parameters, x, cotangent, sums, rounded) to (sums, cotangent of x).

        It computes the value of the function anew, as GPipe does, so that only the x of each micro-batch is kept.
        The first part has no cotangent of x: what it takes may be integers.
        """

        def compute(parameters: Tree, x: Tree, cotangent: Tree, sums: Tree, rounded: bool) -> tuple[Tree, Tree]:
            def weighed(parameters: Tree, x: Tree) -> Tree:
                return _inner_product(self.function(parameters, x), cotangent)

            if self.number:
                gradients, of_x = grad(weighed, (0, 1))(parameters, x)
            else:
                gradients, of_x = grad(weighed)(parameters, x), None
            return added(sums, gradients, rounded=rounded), of_x

        return GraphFunction(compute, f"{self.name}, backward")

    def turn(self, loss: Loss) -> GraphFunction[..., tuple[Tree, Tree, Tree]]:
        """Return the graph of the last part, where micro-batches turn back; one for each loss.

        It takes (parameters, x, target, sums, total, rounded), and returns (sums, cotangent of x, total): of losses.
        """

        def compute(
            parameters: Tree, x: Tree, target: Tree, sums: Tree, total: Tree, rounded: bool
        ) -> tuple[Tree, Tree, Tree]:  # fmt: skip
            def weighed(parameters: Tree, x: Tree) -> Tree:
                return loss(self.function(parameters, x), target) * self.weight

            if self.number:
                value, (gradients, of_x) = value_and_grad(weighed, (0, 1))(parameters, x)
            else:
                (value, gradients), of_x = value_and_grad(weighed)(parameters, x), None
            return added(sums, gradients, rounded=rounded), of_x, value if total is None else total + value

        if loss not in self._turns:
            self._turns[loss] = GraphFunction(compute, f"{self.name}, loss and backward")
            while len(self._turns) > _LOSSES:
                self._turns.popitem(last=False)
        return self._turns[loss]

    def stored(self, value: Tree, layout: Distribution | None) -> Tree:
        """Return arrays of any library as tensors on the devices of the stage."""
        return mapped(value, lambda array: tensors.array(array, layout, self.mesh))

    def receiving(self, value: Tree) -> "Transfer":
        """Return what brings a tree of tensors to the devices of this stage, each shard from its counterpart."""
        shards: list[tuple[Tensor, int, Callable[[], Shard]]] = []

        def declared(array: object) -> Tensor:
            assert isinstance(array, Tensor)
            tensor = Tensor(array.type, self.mesh, array.name)
            ranks = range(self.mesh.size() if array.stored else 0)
            shards.extend((tensor, rank, sent(self.mesh.devices[rank], array.shard(rank))) for rank in ranks)
            return tensor

        return Transfer(mapped(value, declared), shards)


@dataclass
class Transfer:
    """Values on their way to a stage.

    They arrive when they are asked for: a GPU that waited for the next ones sooner would not begin what it has.
    """

    value: Tree
    shards: list[tuple[Tensor, int, Callable[[], Shard]]] = field(default_factory=list[Array])

    def arrived(self) -> Tree:
        """Return the values in the memory of the stage."""
        for tensor, rank, bring in self.shards:
            tensor.put(rank, bring())
        self.shards.clear()
        return self.value


def _inner_product(value: Tree, cotangent: Tree) -> Tree:
    """Return the sum of products with a cotangent: its gradients are those of the value, integers have none."""
    leaves: list[Array] = []
    flatten(value, leaves)
    factors: list[Array] = []
    flatten(cotangent, factors)
    floats = [leaf for leaf in map(as_tracer, leaves) if leaf.dtype.is_float]
    products = [(leaf * factor).sum() for leaf, factor in zip(floats, factors, strict=True)]
    return sum(products[1:], products[0])


def mapped(value: Tree, function: Callable[[object], object]) -> Tree:
    """Apply a function to the arrays of a tree."""
    leaves: list[object] = []
    structure = flatten(value, leaves)
    return unflatten(structure, map(function, leaves).__next__)


def added(sums: Tree, gradients: Tree, *, rounded: bool) -> Tree:
    """Add the gradients of one micro-batch to the sums of those before it (None: there are none).

    Sums of floats of 16 bits are in f32; rounded: to the dtype of the gradients, as the last one is.
    """
    leaves: list[Array] = []
    structure = flatten(gradients, leaves)
    totals: list[Array] = [_wide(as_tracer(each)) for each in leaves]
    if sums is not None:
        before: list[Array] = []
        flatten(sums, before)
        totals = [as_tracer(a) + b for a, b in zip(before, totals, strict=True)]
    if rounded:
        totals = [total.astype(gradient.dtype) for total, gradient in zip(totals, leaves, strict=True)]
    return unflatten(structure, iter(totals).__next__)


def _wide(gradient: Tracer) -> Tracer:
    return gradient.astype(f32) if gradient.dtype in _SHORT else gradient


def holds_short_floats(parameters: Tree) -> bool:
    """Return whether gradients by parameters are summed in another dtype than theirs."""
    leaves: list[Array] = []
    flatten(parameters, leaves)
    return any(dtype_of(leaf.dtype) in _SHORT for leaf in leaves)
