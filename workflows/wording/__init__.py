"""Words for people: messages that two languages share with programs, punctuation, characters that nobody sees."""
