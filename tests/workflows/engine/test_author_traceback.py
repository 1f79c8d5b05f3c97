"""What the log tells of a step that raised: shortly, once for each attempt, in lines that only the log begins."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from django.contrib.auth.models import Group

import workflows
from workflows import Done, Stop, Workflow, durable, step
from workflows.testing import advance, assert_failed, drain

pytestmark = pytest.mark.django_db

ENGINE = Path(workflows.__file__).parent
EVIL = "line one\n2026-11-19 00:00:00 ERROR workflows: everything is lost\r\x1b[31m"


@pytest.fixture
def told(caplog):
    """The lines that a plain handler would write, record by record."""
    formatter = logging.Formatter("%(levelname)s %(message)s")

    def read():
        return [formatter.format(one).split("\n") for one in caplog.records if one.name == "workflows"]

    return read


def charge(depth=6):
    if depth:
        return charge(depth - 1)
    raise ValueError("declined")


def test_a_function_that_fails_in_a_step_tells_it_once_for_each_attempt_without_the_engines_lines(told):
    instance = workflows.start(durable(name="traces", max_attempts=2)(lambda ctx: ctx.step("charge", charge)), {})
    drain()
    advance("1h")
    assert_failed(instance, "ValueError: declined")
    first, second = told()
    for lines in (first, second):
        assert len(lines) < 15
        assert len([one for one in lines if "ValueError: declined" in one]) == 1
        assert not [one for one in lines if f"{ENGINE}/" in one]
        assert 'raise ValueError("declined")' in "\n".join(lines)
        assert lines[-1] == "ValueError: declined"
    assert first[0].startswith("WARNING step run of traces ")
    assert second[0].startswith("ERROR step run of traces ")


class Careless(Workflow):
    name = "traces.careless"

    @step
    def only(self, ctx):
        match ctx.input:
            case "evil":
                raise ValueError(EVIL)
            case "cause":
                try:
                    charge()
                except ValueError as error:
                    raise RuntimeError("the shop is closed\nfor ever") from error
            case "library":
                Group.objects.get(name="nobody")
            case "handle":
                raise KeyError("first")
        return Done()

    def handle(self, error, ctx):
        if ctx.input == "handle":
            raise ValueError("handle is broken")
        return Stop(str(error))


def start(input):
    instance = workflows.start(Careless, input)
    drain()
    return instance


def test_the_text_of_an_exception_cannot_write_lines_of_its_own(told):
    start("evil")
    [lines] = told()
    assert not [one for one in lines if one.startswith("2026")]
    assert "\\n2026-11-19" in lines[-1]
    assert not [one for one in lines if "\r" in one or "\x1b" in one]


def test_what_caused_an_error_is_told_in_one_line_each(told):
    start("cause")
    [lines] = told()
    assert len(lines) < 15
    assert lines[-2] == "RuntimeError: the shop is closed\\nfor ever"
    assert lines[-1].startswith("caused by ValueError: declined (File ")


def test_an_error_of_a_library_names_the_authors_line_and_the_one_that_raised(told):
    start("library")
    [lines] = told()
    assert len(lines) < 15
    assert [one for one in lines if "Group.objects.get" in one]
    assert [one for one in lines if "django/db/models/query.py" in one]


def test_an_error_of_handle_is_told(told):
    start("handle")
    [lines] = told()
    assert lines[-2] == "ValueError: handle is broken"
    assert lines[-1].startswith("caused by KeyError: 'first'")


def test_handlers_that_want_the_exception_itself_find_it(caplog):
    start("evil")
    [record] = [one for one in caplog.records if one.name == "workflows"]
    assert record.exc_info[0] is ValueError
    assert record.exc_info[2] is not None
