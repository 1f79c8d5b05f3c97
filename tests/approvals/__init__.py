"""Tests of the app in which people decide, by its packages; of a module in its root, here."""
