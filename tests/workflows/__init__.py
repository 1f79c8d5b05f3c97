"""Tests of the engine, by its packages; of a module in its root, here."""
