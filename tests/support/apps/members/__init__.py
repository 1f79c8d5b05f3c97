"""Two user models of a project's own: one with a UUID as key, no groups and no permissions, and one with a text as key.

Lives here: the models, the settings of a run with one of them, and what has to hold in it (`cases`, which
`test_absences_and_user_models` runs in a process of its own, because a project has one user model).
"""
