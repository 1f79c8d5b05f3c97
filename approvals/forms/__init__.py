"""What a request carries and approvers fill in: facts, form values, secrets, edits."""
