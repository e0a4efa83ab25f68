"""toolloom: verified training data for tool-using language models, from APIs."""
