"""Ways in for one person: personal links, and the password asked again."""
