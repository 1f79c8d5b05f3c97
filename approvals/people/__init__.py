"""Who somebody is: principals, viewers, look-up by name, and the SQL of whose reviews are whose."""
