"""The project's own checks of its source, which `./aes check` runs beside the linters of others.

A rule is a module with a function `findings`, which reads the files below the root and yields a line per finding.
"""
