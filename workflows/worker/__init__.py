"""Beside the rows: the pump, its lease keeper, deadlines, and what is done once a minute."""
