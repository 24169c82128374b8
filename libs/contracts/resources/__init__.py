"""One module for each resource, with its bodies, views, commands, events and examples."""
