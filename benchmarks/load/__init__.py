"""The load generator: a process of its own, so that its CPU time is told apart from what it measures."""
