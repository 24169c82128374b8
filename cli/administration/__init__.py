"""Companies, users and keys, worked on in the gateway's own database."""
