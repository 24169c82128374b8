"""The load generator: a process of its own, so that its CPU time is counted separately."""
