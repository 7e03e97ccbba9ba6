"""MDI adaptation of n-gram language models."""
