"""Checks every rule. Exits with 1 if there are findings."""

from pathlib import Path

from tools.lint import private_members, prose, sleeps, structure, vocabulary

_RULES = (private_members.findings, prose.findings, sleeps.findings, structure.findings, vocabulary.findings)


def main() -> int:
    found = [finding for findings in _RULES for finding in findings(Path(__file__).parents[2])]
    print("\n".join(found) if found else "No findings.")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
