"""What a request is about: the object, the change, the difference, the evidence.

Others freeze an object with `reference`, read and apply a proposed `change`, compare with `diff` and `current_state`.
"""
