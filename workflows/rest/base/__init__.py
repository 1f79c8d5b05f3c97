"""What every address of the API shares: who calls, how often, ids, bodies, lists, repeated calls."""
