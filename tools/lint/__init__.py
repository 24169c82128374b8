"""The project's own rules for its source. Each module's `findings` yields a line for each finding below the root."""
