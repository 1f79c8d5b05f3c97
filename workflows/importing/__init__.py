"""What Python finds under our names: packages of somebody else, and modules that have moved."""
