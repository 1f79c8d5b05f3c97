"""Workflows that choose at random what they do, for the stress."""
