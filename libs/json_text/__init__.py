"""Reads and writes JSON. Unpaired surrogates become U+FFFD, and integers keep all digits."""

from libs.json_text._json import NotJson, is_deeper, read_json, write_json
from libs.json_text._surrogates import PairedText, without_half_escapes, without_half_pairs, without_half_pairs_in

__all__ = [
    "NotJson",
    "PairedText",
    "is_deeper",
    "read_json",
    "without_half_escapes",
    "without_half_pairs",
    "without_half_pairs_in",
    "write_json",
]
