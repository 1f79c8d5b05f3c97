"""`/resume/{token}`: the address of one question, for programs and as a page for people."""
