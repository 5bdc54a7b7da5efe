"""Described transformers: parameters against published models, and mistakes."""

import pytest

from tessera.core.errors.catalog import BadModel
from tessera.core.planning.described_transformer import Transformer, short_number


def test_parameters_of_published_models():
    """GPT-3: 175 billion; Llama 3 70B; the trillion of Megatron-LM (arXiv 2104.04473): 128 layers of 25600."""
    gpt3 = Transformer(96, 12288, 96, 2048, 1536, 50257)
    llama = Transformer(80, 8192, 64, 8192, 512, 128_256, hidden=28672, groups=8, gated=True)
    trillion = Transformer(128, 25600, 160, 2048, 3072, 51200)
    assert gpt3.parameters == pytest.approx(175e9, rel=0.01)
    assert llama.parameters == pytest.approx(70.6e9, rel=0.01)
    assert trillion.parameters == pytest.approx(1.008e12, rel=0.01)
    assert str(trillion) == "transformer of 128 x 25600, 1.01 trillion parameters"


def test_operations_are_six_for_each_token_and_parameter_and_those_of_attention():
    model = Transformer(128, 25600, 160, 2048, 3072, 51200)
    once = model.layers * model.block_operations(model.tokens) + model.head_operations(model.tokens)
    products = 2 * model.tokens * (model.parameters - model.embedding_parameters - 2 * model.layers * model.width)
    assert once - products == 2 * model.layers * model.tokens * model.sequence * model.width


def test_what_a_block_keeps():
    """Korthikanti et al. (arXiv 2205.05198): 34 bytes a token and column, two of which are masks of dropout."""
    model = Transformer(96, 12288, 96, 2048, 1536)
    assert model.kept_elements * 2 / model.width == 32


@pytest.mark.parametrize(
    ("extents", "message", "hint"),
    [
        ((12, 768, 7, 1024, 8), "width=768 is not divided by heads=7", "choose heads that divide 768"),
        ((0, 768, 12, 1024, 8), "layers=0 is no extent", "write dist.Transformer(layers=96, "),
    ],
)
def test_mistakes(extents: tuple[int, int, int, int, int], message: str, hint: str):
    with pytest.raises(BadModel) as caught:
        Transformer(*extents)
    assert message in str(caught.value)
    assert (caught.value.hint or "").startswith(hint)
    with pytest.raises(BadModel, match="heads=12 is not divided by groups=5"):
        Transformer(12, 768, 12, 1024, 8, groups=5)


def test_numbers_in_words():
    assert [short_number(each) for each in (12, 1.3e4, 7e9, 1.01e12)] == [
        "12",
        "13 thousand",
        "7 billion",
        "1.01 trillion",
    ]
