"""The demo's people: who they are, which groups they are in, and how they read.

Invariants owned: they can be told from everybody else by the address that only they have; whoever else has one of their
names is left alone; and all of them have the same password, so they are made with DEBUG only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group, Permission, User
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from approvals.models import Preference
from workflows.models import Workspace

PASSWORD = "demo"
DOMAIN = "alder-finch.example"
SHOP = "Alder & Finch"


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody of the shop; the login is the first name."""

    name: str
    groups: tuple[str, ...]
    #: What the login page says, before it says what waits.
    note: str | Promise
    language: str = "en"
    time_zone: str = "Europe/Berlin"
    is_operator: bool = False
    permissions: tuple[str, ...] = ()

    @property
    def username(self) -> str:
        return self.name.partition(" ")[0].lower()

    @property
    def initials(self) -> str:
        return "".join(word[0] for word in self.name.split())

    @property
    def email(self) -> str:
        return f"{self.username}@{DOMAIN}"


PEOPLE = (
    Person(
        "Maya Lindqvist",
        ("Finance", "Legal", "Editors", "People", "Release board"),
        _("Leads Finance. Decides a bit of everything."),
        permissions=("reassign_review", "extend_review"),
    ),
    Person("Ana Ruiz", ("Finance", "Directors", "Editors", "Release board"), _("Finance and Directors.")),
    Person(
        "Lena Fischer",
        ("Finance", "Legal", "Editors", "Release board"),
        _("Finance and Legal. Reads German."),
        language="de",
    ),
    Person("Tom Becker", ("Finance", "Legal"), _("Finance. He is away; Ines stands in for him.")),
    Person(
        "Ines Duarte",
        ("People", "Editors"),
        _("People and texts. Stands in for Tom."),
        time_zone="Europe/Lisbon",
    ),
    Person(
        "Ben Okafor", (), _("Support. Asks for refunds and follows what became of them."), time_zone="Europe/London"
    ),
    Person("Priya Nair", (), _("Purchasing. Asks for suppliers and contracts."), time_zone="Asia/Kolkata"),
    Person(
        "Samir Haddad",
        ("People", "Directors"),
        _("Operator. Sees what runs and what is stuck; may use the admin."),
        is_operator=True,
    ),
)
#: Those whom other examples ask; the demo's people are in none of them.
OTHER_GROUPS = ("Sales leads",)


def make_people(*, addresses: bool = True) -> dict[str, User]:
    """Those who are missing, by their username; everybody else stays as they are.

    Without addresses nobody is mailed; give them their addresses with `write_addresses`.
    """
    groups = {
        name: Group.objects.get_or_create(name=name)[0]
        for name in dict.fromkeys([*(name for one in PEOPLE for name in one.groups), *OTHER_GROUPS])
    }
    password = make_password(PASSWORD)  # once: it is slow, and no secret
    made = {one.username: _make_person(one, password, groups) for one in PEOPLE}
    Workspace.objects.filter(slug="default", name="").update(name=SHOP)
    if addresses:
        write_addresses()
    return made


def write_addresses() -> None:
    """From now on they are mailed, and can be told from others."""
    for one in PEOPLE:
        User.objects.filter(username=one.username, email="", last_name=one.name.partition(" ")[2]).update(
            email=one.email
        )


def find_person(username: str) -> Any | None:
    """The account of one of the demo's people; nobody else's, whatever it is called."""
    person = next((one for one in PEOPLE if one.username == username), None)
    if person is None:
        return None
    return get_user_model()._default_manager.filter(username=username, email=person.email, is_active=True).first()


def _make_person(person: Person, password: str, groups: dict[str, Group]) -> User:
    first, _space, last = person.name.partition(" ")
    user, is_new = User.objects.get_or_create(
        username=person.username,
        defaults={
            "first_name": first,
            "last_name": last,
            "password": password,
            "is_staff": person.is_operator,
            "is_superuser": person.is_operator,
        },
    )
    if is_new:
        user.groups.set([groups[name] for name in person.groups])
        user.user_permissions.set(
            Permission.objects.filter(content_type__app_label="holdpoint_approvals", codename__in=person.permissions)
        )
        Preference.objects.create(user=user, language=person.language, time_zone=person.time_zone)
    return user
