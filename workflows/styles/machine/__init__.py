"""Declarative style: the stages of a machine, where they lead, and running one of them."""
