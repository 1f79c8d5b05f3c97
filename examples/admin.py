"""The rows that the examples decide about, so that a reviewer can follow the link to them."""

from django.contrib import admin

from examples.models import Article, Contract, Invoice, Supplier

for model in (Article, Contract, Invoice, Supplier):
    admin.site.register(model)
