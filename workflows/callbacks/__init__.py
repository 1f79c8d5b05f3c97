"""`/resume/{token}`: the address of one question, for programs and as a page for people.

Its address is `token_view.resume`; a browser is answered by `answer_page`.
"""
