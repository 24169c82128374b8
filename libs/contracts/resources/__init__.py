"""A module for each resource: its bodies and views, its commands and events, and examples of them.

Services import those that they use; ``registry`` has all.
"""
