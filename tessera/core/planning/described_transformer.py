"""Describe a transformer by its extents: what its blocks hold, compute and keep, without a line of its code."""

from dataclasses import dataclass

from tessera.core.base.dtypes import DType, bf16
from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import BadModel


@dataclass(frozen=True, slots=True)
class Transformer:
    """A decoder of equal blocks: attention, then two products with an activation between, three where it is gated.

    layers: blocks; width: of the residual stream; heads: of the queries; sequence: tokens of one sequence
    batch: sequences of one step of training; hidden: of the products, 0: four times the width
    groups: heads of keys and values, 0: as many as of queries; vocabulary: rows of the embedding, and of the head
    """

    layers: int
    width: int
    heads: int
    sequence: int
    batch: int
    vocabulary: int = 131_072
    hidden: int = 0
    groups: int = 0
    gated: bool = False
    dtype: DType = bf16

    def __post_init__(self) -> None:
        """Raise BadModel for extents that make no transformer."""
        for name in ("layers", "width", "heads", "sequence", "batch", "vocabulary"):
            if getattr(self, name) < 1:
                hint = "write dist.Transformer(layers=96, width=12288, heads=96, sequence=2048, batch=1536)"
                raise at_call(BadModel(f"{name}={getattr(self, name)} is no extent", hint=hint))
        for what, whole, part in (("width", self.width, self.heads), ("heads", self.heads, self.kv_heads)):
            if whole % part:
                name = "heads" if what == "width" else "groups"
                hint = f"choose {name} that divide {whole}"
                raise at_call(BadModel(f"{what}={whole} is not divided by {name}={part}", hint=hint))

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values."""
        return self.groups or self.heads

    @property
    def kv_width(self) -> int:
        """The width of keys, and of values."""
        return self.width // self.heads * self.kv_heads

    @property
    def inner(self) -> int:
        """The extent between the products of a block."""
        return self.hidden or 4 * self.width

    @property
    def block_parameters(self) -> int:
        """Parameters of one block: the weights of its products, and of two normalizations."""
        attention = self.width * (2 * self.width + 2 * self.kv_width)
        return attention + (3 if self.gated else 2) * self.width * self.inner + 2 * self.width

    @property
    def embedding_parameters(self) -> int:
        """Parameters of the embedding; as many again are those of the head."""
        return self.vocabulary * self.width

    @property
    def parameters(self) -> int:
        """All parameters."""
        return self.layers * self.block_parameters + 2 * self.embedding_parameters

    @property
    def tokens(self) -> int:
        """Tokens of one step."""
        return self.sequence * self.batch

    def block_operations(self, tokens: int) -> int:
        """Return the operations of one block forwards: a product is two an element; causal attention is half."""
        products = 2 * tokens * (self.block_parameters - 2 * self.width)
        return products + 2 * tokens * self.sequence * self.width

    def head_operations(self, tokens: int) -> int:
        """Return the operations of the head forwards."""
        return 2 * tokens * self.embedding_parameters

    @property
    def kept_elements(self) -> int:
        """Elements a token that a block keeps for its backward pass: what its products and normalizations read.

        The inputs and results of two normalizations, queries, keys, values, the result of attention, and what is
        before and behind the activation.  Attention computes its weights again.
        """
        return 6 * self.width + 2 * self.kv_width + (3 if self.gated else 2) * self.inner

    def __str__(self) -> str:
        return f"transformer of {self.layers} x {self.width}, {short_number(self.parameters)} parameters"


def short_number(number: float) -> str:
    """Return a number with three digits and a word: `1.01 trillion`."""
    for size, word in ((1e12, " trillion"), (1e9, " billion"), (1e6, " million"), (1e3, " thousand")):
        if number >= size:
            return f"{number / size:.3g}{word}"
    return f"{number:g}"
