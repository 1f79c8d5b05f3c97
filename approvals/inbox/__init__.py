"""The reviewer's inbox without HTTP: which list an address asks for, what stands in it, who else is looking.

Must not live here: requests, templates, and any rule about who may what.
"""
