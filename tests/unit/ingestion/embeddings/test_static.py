import importlib.util
from pathlib import Path

import numpy as np
import pytest
from wordllama import WordLlama

from services.ingestion.adapters.embeddings import static
from services.ingestion.adapters.embeddings.static import StaticEmbedder
from services.ingestion.domain.embedding import EmbeddingRefused

DOCUMENTS = Path(__file__).parents[4] / "examples" / "documents"
ODD = [
    "a",
    "  leading and   inner    spaces ",
    "tabs\tand\nnew lines\n\n\n",
    "Grüße aus München: 東京は日本の首都です。 🎉",
    "def f(x):\n    return x ** 2\n",
    "x" * 5000,
    "1234,5678é9 café=naïve_id",
]


def passages() -> list[str]:
    texts = [path.read_text() for path in sorted(DOCUMENTS.glob("*.md"))]
    return [text[start : start + 1000] for text in texts for start in range(0, len(text), 1000)] + ODD


async def test_vectors_are_those_of_the_package() -> None:
    origin = importlib.util.find_spec("wordllama")
    assert origin.origin is not None
    package = WordLlama.load(cache_dir=Path(origin.origin).parent, disable_download=True)
    texts = passages()
    expected = package.embed(texts, norm=True)
    embedder = StaticEmbedder()
    for _ in range(2):
        assert np.abs(await embedder.embed(texts) - expected).max() < 1e-5


def test_no_piece_of_the_vocabulary_goes_over_the_end_of_a_run() -> None:
    # What is remembered of runs would be wrong otherwise, for texts that no other test has.
    pieces = static._pieces()._tokenizer.get_vocab()
    written = [piece.replace("▁", " ") for piece in pieces if not piece.startswith("<")]
    assert len(written) > 30_000
    assert [piece for piece in written if len(static._RUNS.findall(piece)) != 1] == []


async def test_fewer_dimensions_are_the_first_ones() -> None:
    [long], [short] = await StaticEmbedder(256).embed(["a harbour"]), await StaticEmbedder(64).embed(["a harbour"])
    assert np.allclose(long[:64] / np.linalg.norm(long[:64]), short, atol=1e-6)


async def test_likeness_is_likeness_in_meaning() -> None:
    boat, ship, tax = await StaticEmbedder().embed(["a small boat", "the ship at sea", "income tax return"])
    assert boat @ ship > boat @ tax


@pytest.mark.parametrize("text", ["", " ", " \n\t "])
async def test_a_text_without_content_is_refused(text: str) -> None:
    with pytest.raises(EmbeddingRefused):
        await StaticEmbedder().embed(["some", text])


def test_dimensions_it_does_not_have_are_refused() -> None:
    with pytest.raises(EmbeddingRefused, match="64, 128, 256"):
        StaticEmbedder(100)
