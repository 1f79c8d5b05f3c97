"""Several open questions of one run: asking, settling and withdrawing them, and telling of the ends of instances.

Questions with an address are opened in `questions`, like a single one; here is what else can be asked. All of them are
checkpoints, of functions and of the other styles alike.
"""
