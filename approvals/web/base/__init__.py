"""What every page of a reviewer shares: who opens it, and the visit of one request.

Views are wrapped by `page.for_people` and take a `page.Opened`; a page of one request is a
`request_visit.RequestVisit`. Addresses of lists are read and written by `filters`.
"""
