"""The rows that the examples decide about, so that a reviewer can follow the link to them."""

from django.contrib import admin

from examples.models import Access, Article, Contract, Invoice, Paper, Service, Supplier

for model in (Access, Article, Contract, Invoice, Paper, Service, Supplier):
    admin.site.register(model)
