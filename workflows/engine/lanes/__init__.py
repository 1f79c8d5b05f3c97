"""Claiming by flow control: whose turn it is, and how many slots and tokens there are for it."""
