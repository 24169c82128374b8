"""The HTTP routes and command handlers, one module for each resource."""
