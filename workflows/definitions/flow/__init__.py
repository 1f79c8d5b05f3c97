"""Flow control as authors write it: limits, keys made of inputs, and where in the order an instance stands."""
