"""Values, money and moments as a reviewer reads them.

Others use `values.show_text` for every text from outside, `times` for moments, `money` for amounts.
"""
