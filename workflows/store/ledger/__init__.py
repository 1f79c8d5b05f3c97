"""Statements about the ledger: seals, sums for metrics, tombstones, retention."""
