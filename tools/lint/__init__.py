"""The project's own source checks, which `./aes check` runs in addition to other linters.

A rule is a module with a function `findings`. It reads the files below the root and yields a line per finding.
"""
