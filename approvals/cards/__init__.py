"""A review as every door shows it: card, status, timeline, refusals, form of the decision.

Others build a `card`, or ask `status` for one sentence; `refusal_message` is for the person who was refused, and
`refusal_history` for those who read of it later; `decision_form` is the form below a card.
"""
