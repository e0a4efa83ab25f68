"""Templates that people write, in YAML, and samples made of needs."""
