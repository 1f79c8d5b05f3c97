"""People of the tests of approvals: Ann, who is asked, Ben, who asks, and the people of a card."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from tests.support.review_calls import make_person
from tests.support.worlds.cards import ask_about_the_order as ask_about_the_order
from tests.support.worlds.cards import make_people_of_cards as make_people_of_cards


@pytest.fixture
def ann() -> User:
    return make_person("ann")


@pytest.fixture
def ben() -> User:
    return make_person("ben")
