"""The shop Alder & Finch: six processes with people, requests and a past, to look around in.

The other examples are as short as a page that teaches can be; these are as rich as a day at work is. They share their
rows, their reasons and what their decisions do. Nothing here runs without DEBUG but the processes themselves.
"""
