"""Numbers under which a chunk is found by how much a term weighs in it.

A frequent word is in too many chunks to find them by it. It weighs much in few, which repeat it, and the best hits are
among these.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from services.ingestion.adapters.engines.analysis import NUMBER_OF_TERMS
from services.ingestion.adapters.engines.bm25 import TermWeights

# In a chunk of average length a term that occurs once weighs 1, twice 1.4, three times 1.6, six times 1.8.
LEAST_WEIGHTS: Final = (0.8, 1.3, 1.6, 1.8)
"""The least weight of a term at each level; at the lowest, 0, are all chunks that have it, few of which weigh less."""
# From a term's number to its number at a level: together all of an integer's range that terms leave.
_NUMBERS: Final = ((1, 0), (1, NUMBER_OF_TERMS), (-1, -1), (-1, -1 - NUMBER_OF_TERMS))


def number_at(term: int, level: int) -> int:
    """The number of a term at a level; at the lowest its own."""
    sign, offset = _NUMBERS[level]
    return sign * term + offset


def numbers_of(terms: Sequence[int]) -> list[int]:
    """The numbers of the terms at all levels."""
    return [number_at(term, level) for term in terms for level in range(len(LEAST_WEIGHTS))]


def with_levels(chunk: TermWeights) -> npt.NDArray[np.int32]:
    """The chunk's terms, and the numbers of those that weigh much in it at every level that they reach."""
    found = [chunk.terms]
    for least, (sign, offset) in zip(LEAST_WEIGHTS[1:], _NUMBERS[1:], strict=True):
        found.append(sign * chunk.terms[chunk.weights >= least] + np.int32(offset))
    return np.concatenate(found)
