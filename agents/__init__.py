"""One module for each agent: `ask` and `read` are pure, `run` holds the only await."""
