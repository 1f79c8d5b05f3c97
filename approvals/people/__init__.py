"""Who somebody is: principals, viewers, look-up by name, and the SQL of whose reviews are whose.

Others type an account as `person.Person`, name and load it with `principals`, find users and groups that an author
names with `lookup`, and ask for reviews as a `viewer.Viewer`.
"""
