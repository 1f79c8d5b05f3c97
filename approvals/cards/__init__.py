"""A review as every door shows it: card, status, timeline, refusals, form of the decision."""
