"""A module per resource: its bodies, views, commands, events and examples.

Services import the modules they use; ``registry`` imports all.
"""
