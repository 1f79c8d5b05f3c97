"""One review with all that bears on it: how a person stands to it, what they may do, and its locks.

Others read a review as a `case.Case`, and work on it as a `held_case.HeldCase` (`open_case`, `read_id`, `check_actor`);
`permissions` answers who may (`Permissions`, `explain`, `sees`), `electorate` counts (`count_votes`, `is_stranded`),
and `answer` tells whose answer it is.
"""
