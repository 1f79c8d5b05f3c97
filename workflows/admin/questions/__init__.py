"""What the outside is asked, in the admin: interactions, units, parked answers, receipts of hooks."""
