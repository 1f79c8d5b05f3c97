"""What Django asks of a user model, and no more."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, BaseUserManager, PermissionsMixin
from django.db import models


class Manager(BaseUserManager[Any]):
    """Django's own."""


class Member(AbstractBaseUser):
    """Logs in by e-mail; has no name, no groups, no permissions, and `is_active` is no column."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    email = models.EmailField(unique=True)

    objects = Manager()

    USERNAME_FIELD = "email"
    EMAIL_FIELD = "email"

    def __str__(self) -> str:
        return self.email


class Account(AbstractBaseUser, PermissionsMixin):
    """Its key is the text that it logs in by."""

    login = models.CharField(max_length=100, primary_key=True)
    is_active = models.BooleanField(default=True)

    objects = Manager()

    USERNAME_FIELD = "login"

    def __str__(self) -> str:
        return self.login
