"""What a request is about: the object, the change, the difference, the evidence."""
