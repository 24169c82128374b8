"""One module for each resource, with its bodies, views, commands, events and examples.

Services import the modules they use; ``registry`` imports all of them.
"""
