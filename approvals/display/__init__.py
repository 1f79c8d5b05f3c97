"""Values, money and moments as a reviewer reads them."""
