"""What a request carries and approvers fill in: facts, form values, secrets, edits.

Others show the payload with `request_facts` and `form_values`, hide with `secret_fields`, and find what is agreed on
with `edits`.
"""
