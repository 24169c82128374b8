"""The project's own rules for its source, which `./aes check` checks in addition to other linters.

A rule is a module with a function `findings`, which reads the files below the root and yields a line for each finding.
"""
