"""How good and how fast the engines' answers are."""
