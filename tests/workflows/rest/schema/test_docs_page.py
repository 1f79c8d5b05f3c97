"""/v1/docs: the whole document is told, as text, in a page that needs nothing from elsewhere."""

import re
import subprocess
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from django.http import HttpResponse
from django.test import RequestFactory, override_settings

from workflows.rest.schema import docs_page
from workflows.rest.schema.docs_outline import Outline
from workflows.rest.schema.docs_shapes import Shapes
from workflows.rest.schema.docs_text import Block, TextRun, read_text
from workflows.rest.schema.openapi import describe_api

LIMITS = docs_page.SiteLimits("https://holdpoint.example", 512 * 1024, 16 << 20, (60_000, 60))
#: Elements without an end.
VOID = {"meta", "link", "br", "hr", "img", "input"}

PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
UUID = {"type": "string", "format": "uuid"}

#: As the generator writes such documents: small, with one of everything.
SAMPLE = {
    "openapi": "3.1.0",
    "info": {"title": "Test API", "version": "1.2.3", "description": "One paragraph.\n\n- an item with `code`"},
    "security": [{"key": []}],
    "tags": [{"name": "instances", "description": "Rows that run."}, {"name": "silent"}],
    "paths": {
        "/v1/instances": {
            "get": {
                "operationId": "list_instances",
                "summary": "List instances",
                "tags": ["instances"],
                "x-holdpoint-scope": "read",
                "parameters": [
                    {"name": "status", "in": "query", "schema": {"type": "string", "enum": ["awaiting", "done"]}},
                    {"$ref": "#/components/parameters/Limit"},
                ],
                "responses": {
                    "200": {
                        "description": "A page.",
                        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Page"}}},
                    },
                    "401": {"$ref": "#/components/responses/Unauthorized"},
                },
            },
            "post": {
                "operationId": "start_instance",
                "summary": "Start an instance",
                "tags": ["instances"],
                "x-holdpoint-scope": "start",
                "parameters": [
                    {"name": "Idempotency-Key", "in": "header", "required": True, "schema": {"type": "string"}}
                ],
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Start"}}},
                },
                "responses": {
                    "201": {
                        "description": "It was started.",
                        "headers": {"Location": {"description": "Its address.", "schema": {"type": "string"}}},
                        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Instance"}}},
                    },
                    "409": {
                        "description": "The key is taken.",
                        "content": {
                            "application/problem+json": {
                                "schema": {"$ref": "#/components/schemas/Problem"},
                                "examples": {"taken": {"summary": "Key taken", "value": {"status": 409}}},
                            }
                        },
                    },
                },
            },
        },
        "/v1/instances/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": UUID}],
            "get": {
                "operationId": "read_instance",
                "tags": ["instances"],
                "deprecated": True,
                "responses": {
                    "200": {
                        "description": "",
                        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Instance"}}},
                    },
                    "4XX": {"description": "Refused.", "content": PROBLEM},
                    "default": {"description": "Anything else.", "content": PROBLEM},
                },
            },
        },
        "/resume/{token}": {
            "post": {
                "operationId": "resume",
                "summary": "Answer a callback",
                "security": [],
                "requestBody": {"content": {"application/json": {"example": {"data": "it's done"}, "schema": {}}}},
                "responses": {"200": {"description": "Taken."}},
            }
        },
    },
    "components": {
        "parameters": {
            "Limit": {
                "name": "limit",
                "in": "query",
                "description": "Rows of a page.",
                "schema": {"type": "integer", "minimum": 1, "maximum": 500, "default": 50},
            }
        },
        "responses": {"Unauthorized": {"description": "No key.", "content": PROBLEM}},
        "schemas": {
            "Problem": {
                "type": "object",
                "properties": {"type": {"type": "string"}, "status": {"type": "integer"}},
                "required": ["type", "status"],
            },
            "Start": {
                "type": "object",
                "properties": {
                    "workflow": {
                        "type": "string",
                        "maxLength": 200,
                        "pattern": "^[A-Z]",
                        "description": "Its name.",
                        "example": "Ship",
                    },
                    "input": {"description": "What it starts with."},
                    "key": {"type": ["string", "null"], "minLength": 1, "maxLength": 200, "default": None},
                },
                "required": ["workflow"],
                "additionalProperties": False,
            },
            "Instance": {
                "type": "object",
                "properties": {
                    "id": {**UUID, "readOnly": True},
                    "status": {"$ref": "#/components/schemas/Status"},
                    "parent": {"oneOf": [{"$ref": "#/components/schemas/Instance"}, {"type": "null"}]},
                    "children": {"type": "array", "items": {"$ref": "#/components/schemas/Instance"}},
                    "state": {"type": "object", "additionalProperties": {}},
                },
            },
            "Status": {"type": "string", "enum": ["awaiting", "done"], "description": "Where it is."},
            "Page": {
                "type": "object",
                "properties": {
                    "results": {"type": "array", "items": {"$ref": "#/components/schemas/Instance"}},
                    "next": {"type": ["string", "null"], "format": "uri"},
                },
            },
        },
    },
}

#: Instances of markup, of addresses and of what ends a quotation, for wherever a document has a text.
HOSTILE = """<script src="//evil.example">alert(1)</script>"'><img src=x onerror=alert(1)>`$(id)`{{ 7|add:7 }}"""


class Page(HTMLParser):
    """What a browser would see."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.headings: list[tuple[int, str]] = []
        #: The text of every section, by the id that names it.
        self.sections: dict[str, str] = {}
        self.open: list[tuple[str, str]] = []
        self.unbalanced: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append((int(tag[1]), ""))
        if tag not in VOID:
            self.open.append((tag, dict(attrs).get("aria-labelledby") or ""))

    def handle_endtag(self, tag):
        self.handle_text(" ")
        if not self.open or self.open[-1][0] != tag:
            self.unbalanced.append(tag)
        else:
            self.open.pop()

    def handle_data(self, data):
        if self.open and re.fullmatch(r"h[1-6]|a", self.open[-1][0]) and self.headings:
            level, text = self.headings[-1]
            self.headings[-1] = (level, text + data)
        self.handle_text(data)

    def handle_text(self, data: str) -> None:
        for _, section in self.open:
            if section:
                self.sections[section] = self.sections.get(section, "") + data

    def list_values(self, attribute: str) -> list[str]:
        return [value for _, name, value in self.attributes if name == attribute]


def render(document) -> Page:
    return Page(docs_page.render_docs(document, language="en", limits=LIMITS))


def list_operations(document):
    """Path, method and operation of each."""
    for path, item in document["paths"].items():
        for method in ("get", "post", "put", "patch", "delete"):
            if method in item:
                yield path, method, item[method]


def find_section(page: Page, path: str, method: str) -> str:
    """The text of the section that tells this operation."""
    found = [text for text in page.sections.values() if re.search(rf"\b{method.upper()}\s+{re.escape(path)}\s", text)]
    return min(found, key=len)


both = pytest.mark.parametrize("describe", [lambda: SAMPLE, describe_api], ids=["sample", "site"])


# --- what is told ------------------------------------------------------------------------------------------


@both
def test_every_operation_has_a_section_with_its_summary_and_a_call(describe):
    document = describe()
    page = render(document)
    count = 0
    for path, method, told in list_operations(document):
        section = find_section(page, path, method)
        assert told.get("summary", told["operationId"]) in section
        assert f'"$HOLDPOINT_URL{path}' in section
        count += 1
    assert count == sum(anchor.startswith("op-") for anchor in page.list_values("id")) > 3


@both
def test_every_status_of_every_operation_is_shown(describe):
    document = describe()
    page = render(document)
    for path, method, told in list_operations(document):
        section = find_section(page, path, method)
        assert [status for status in told["responses"] if not re.search(rf"\b{status}\b", section)] == []


@both
def test_every_parameter_and_every_member_of_a_body_is_named(describe):
    document = describe()
    page = render(document)
    shapes = Shapes(document)
    for path, method, told in list_operations(document):
        section = find_section(page, path, method)
        names = [shapes.resolve(one)["name"] for one in told.get("parameters", [])]
        for media in shapes.resolve(told.get("requestBody", {})).get("content", {}).values():
            names += shapes.resolve(media.get("schema", {})).get("properties", {})
        assert [name for name in names if name not in section] == []


@both
def test_every_header_of_an_answer_is_named(describe):
    document = describe()
    page = render(document)
    for path, method, told in list_operations(document):
        section = find_section(page, path, method) + page.sections.get("every", "")
        answers = [Shapes(document).resolve(one) for one in told["responses"].values()]
        assert [name for one in answers for name in one.get("headers", {}) if name not in section] == []


def test_a_key_of_the_right_scope_is_asked_for_where_one_is_needed():
    page = render(SAMPLE)
    start = find_section(page, "/v1/instances", "post")
    assert "scope start" in start
    assert '-H "Authorization: Bearer $HOLDPOINT_KEY"' in start
    assert '-H "Idempotency-Key: {Idempotency-Key}"' in start
    resume = find_section(page, "/resume/{token}", "post")
    assert "no key needed" in resume
    assert "Authorization" not in resume


def test_schemas_are_told_with_types_bounds_choices_and_what_is_required():
    start = " ".join(find_section(render(SAMPLE), "/v1/instances", "post").split())
    assert "object, no other members workflow" in start
    assert "workflow string, at most 200 characters required Its name. matches ^[A-Z] " in start
    assert "key string or null, 1 to 200 characters" in start
    assert "input any JSON What it starts with." in start
    listed = " ".join(find_section(render(SAMPLE), "/v1/instances", "get").split())
    assert "limit query integer, 1 to 500, default 50 Rows of a page." in listed
    assert "status query string awaiting done" in listed
    assert "results list of Instance" in listed


def test_what_refers_to_itself_is_told_once_and_linked():
    page = render(SAMPLE)
    assert "parent Instance or null" in " ".join(page.sections["object-instance"].split())
    assert "children list of Instance" in " ".join(page.sections["object-instance"].split())
    assert "#object-instance" in page.list_values("href")


@pytest.mark.parametrize(
    "schemas",
    [
        {"A": {"$ref": "#/components/schemas/A"}},
        {"A": {"$ref": "#/components/schemas/B"}, "B": {"$ref": "#/components/schemas/A"}},
        {"A": {"allOf": [{"$ref": "#/components/schemas/A"}], "properties": {"x": {}}}},
        {"A": {"anyOf": [{"$ref": "#/components/schemas/A"}, {"type": "null"}]}},
        {"A": {"type": "array", "items": {"$ref": "#/components/schemas/A"}}},
        {"A": {"properties": {"a": {"items": {"$ref": "#/components/schemas/A"}}, "b": {"$ref": "#/nowhere"}}}},
        {"A": {"additionalProperties": {"$ref": "#/components/schemas/A"}}},
        {"A": {"oneOf": [{"properties": {"a": {"$ref": "#/components/schemas/A"}}}, {"type": "string"}]}},
    ],
)
def test_schemas_that_go_in_circles_come_to_an_end(schemas):
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}
    operation = {"requestBody": {"content": content}, "responses": {"200": {"description": "", "content": content}}}
    document = {"paths": {"/x": {"post": operation}}, "components": {"schemas": schemas}}
    page = render(document)
    assert "op-post-x" in page.list_values("id")


def test_a_schema_without_end_is_cut():
    schema = {"type": "integer"}
    for _ in range(200):
        schema = {"type": "object", "properties": {"deeper": schema}}
    content = {"application/json": {"schema": schema, "example": 1}}
    document = {"paths": {"/x": {"get": {"responses": {"200": {"description": "", "content": content}}}}}}
    assert find_section(render(document), "/x", "get").count("deeper") < 20


def test_what_all_operations_answer_alike_is_told_once():
    answer = {"description": "Too many calls.", "content": PROBLEM}
    paths = {
        f"/x{n}": {"get": {"operationId": f"read{n}", "responses": {"200": {"description": ""}, "429": answer}}}
        for n in range(6)
    }
    page = render({**SAMPLE, "paths": paths})
    assert sum("Too many calls." in text for text in page.sections.values()) == 1
    assert "429" in page.sections["op-read5"]
    assert page.list_values("href").count("#every-429") == 6


def show_plainly(source: str) -> str:
    """The text of a description, without its white space."""
    texts = (run.text for block in read_text(source) for line in block.lines for run in line)
    return "".join("".join(texts).split())


def test_every_kind_of_problem_is_listed_with_what_to_do():
    problems = render(SAMPLE).sections["problems"]
    for kind in docs_page.list_kinds():
        assert kind.slug in problems
        assert kind.title in problems
        assert kind.advice
        assert show_plainly(kind.advice) in "".join(problems.split())


def test_the_limits_are_those_of_the_site():
    assert "512 KiB" in render(SAMPLE).sections["limits"]
    with override_settings(WORKFLOWS={"MAX_BODY": 1000, "MAX_BULK_BODY": 2_500_000, "API_RATE": None}):
        page = Page(docs_page.render_docs(SAMPLE, language="en", limits=docs_page.read_limits()))
    assert "1000 bytes" in page.sections["limits"]
    assert "2.384 MiB" in page.sections["limits"]
    assert "any number" in page.sections["limits"]


# --- what is safe ------------------------------------------------------------------------------------------


def poison(node, *, key=""):
    """The document, with markup in every text, every name, and every key that a document may choose."""
    if isinstance(node, dict):
        chosen = key in {"paths", "properties", "headers", "examples", "content"}
        return {
            (f"{name}{HOSTILE}" if chosen else name): value if name == "$ref" else poison(value, key=name)
            for name, value in node.items()
        }
    if isinstance(node, list):
        return [poison(one) for one in node]
    return f"{node}{HOSTILE}" if isinstance(node, str) and key not in {"in", "$ref"} else node


def test_hostile_text_reaches_the_page_as_text_only():
    clean, page = render(SAMPLE), render(poison(SAMPLE))
    assert "Test API<script" in page.sections["start"]
    assert set(page.tags) <= set(clean.tags)
    assert {name for _, name, _ in page.attributes} <= {name for _, name, _ in clean.attributes}
    assert page.unbalanced == []
    for name in ("id", "class", "href", "aria-labelledby"):
        for value in page.list_values(name):
            assert re.fullmatch(r"[-#/\w. ]*", value), value


def test_a_call_that_is_pasted_into_a_shell_runs_nothing_else(tmp_path):
    """The shell reads every call of a hostile document; in place of curl it gets a list of words to show."""
    outline = Outline(poison(SAMPLE)).read()
    calls = [operation.call for group in outline.groups for operation in group.operations]
    script = "curl() { printf '%s\\n' \"$@\"; }\nid() { echo BROKEN >&2; }\n" + "\n".join(calls)
    done = subprocess.run(
        ["/bin/sh", "-c", script], capture_output=True, text=True, timeout=30, check=True, cwd=tmp_path, env={}
    )
    assert done.stderr == ""
    assert "`$(id)`" in done.stdout


@both
def test_the_page_loads_nothing_and_leads_nowhere_but_to_this_site(describe):
    page = render(describe())
    for name in ("href", "src", "action", "srcset", "poster", "data", "formaction"):
        for value in page.list_values(name):
            assert re.match(r"#|/static/|schema\Z", value), value
    assert not {"script", "style", "iframe", "object", "embed", "form", "base"} & set(page.tags)
    assert not [name for _, name, _ in page.attributes if name == "style" or name.startswith("on")]


# --- how it reads ------------------------------------------------------------------------------------------


@both
def test_every_link_within_the_page_leads_to_one_place(describe):
    page = render(describe())
    ids = page.list_values("id")
    assert len(ids) == len(set(ids))
    assert {value.removeprefix("#") for value in page.list_values("href") if value.startswith("#")} <= set(ids)
    assert set(page.list_values("aria-labelledby")) <= set(ids)


def test_operations_that_are_named_alike_have_places_of_their_own():
    answers = {"responses": {"200": {"description": ""}}}
    document = {"paths": {"/ab": {"get": answers}, "/a/b": {"get": answers}, "/a.b": {"get": answers}}}
    ids = [value for value in render(document).list_values("id") if value.startswith("op-")]
    assert len(ids) == len(set(ids)) == 3


@both
def test_headings_are_in_order_and_name_something(describe):
    page = render(describe())
    levels = [level for level, _ in page.headings]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert all(text.strip() for _, text in page.headings)
    assert page.unbalanced == []


@both
def test_every_operation_is_in_the_contents(describe):
    document = describe()
    links = Counter(value for value in render(document).list_values("href") if value.startswith("#op-"))
    assert len(links) == sum(1 for _ in list_operations(document))
    assert set(links.values()) == {2}  # from the contents, and from the heading itself


def test_the_page_of_this_site_stays_small():
    assert len(docs_page.render_docs(describe_api(), language="en", limits=LIMITS).encode()) < 340_000


@pytest.mark.parametrize(
    ("source", "blocks"),
    [
        ("", ()),
        ("one\ntwo\n\nthree", (("p", "one two"), ("p", "three"))),
        ("- a\n  more\n- b", (("ul", "a more", "b"),)),
        ("before:\n1. a\n2. b\nafter", (("p", "before:"), ("ul", "a", "b after"))),
        ("# Title\ntext", (("p", "Title"), ("p", "text"))),
        ("```\n<b>  x\n\ny\n```\nz", (("pre", "<b>  x\n\ny"), ("p", "z"))),
        ("```\nnever closed", (("pre", "never closed\n"),)),
        ("[a page](https://elsewhere.example/x)", (("p", "a page"),)),
        ("2 * 3 * 4 and ` alone", (("p", "2 * 3 * 4 and ` alone"),)),
    ],
)
def test_descriptions_are_read_as_text(source, blocks):
    told = tuple(
        (block.kind, *("".join(run.text for run in line) for line in block.lines)) for block in read_text(source)
    )
    assert told == blocks


def test_code_and_what_is_strong_are_told_apart():
    assert read_text("Send `a*b`, **now**.") == (
        Block(
            "p", ((TextRun("Send "), TextRun("a*b", "code"), TextRun(", "), TextRun("now", "strong"), TextRun(".")),)
        ),
    )


# --- the view ----------------------------------------------------------------------------------------------


def fetch(client, **headers) -> HttpResponse:
    return client.get("/v1/docs", headers=headers)


def test_anybody_may_read_it_where_a_project_demands_a_login_everywhere(client, settings):
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.contrib.auth.middleware.LoginRequiredMiddleware"]
    assert fetch(client).status_code == 200


def test_it_asks_nothing_of_the_database_whoever_comes(client):
    answer = fetch(client, cookie="sessionid=nonsense")  # without a mark of ours, a test has no database
    assert answer.status_code == 200
    assert answer["Content-Type"] == "text/html; charset=utf-8"
    assert "Start an instance" in answer.text


def test_a_browser_is_told_to_load_nothing_but_style_sheets_of_this_site(client):
    assert fetch(client)["Content-Security-Policy"] == (
        "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'"
    )


def test_head_answers_as_get_without_the_body(client):
    answer = client.head("/v1/docs")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer["Content-Security-Policy"] == docs_page.POLICY


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete", "options"])
def test_nothing_but_reading_is_allowed(client, method):
    answer = getattr(client, method)("/v1/docs")
    assert answer.status_code == 405
    assert answer["Allow"] == "GET, HEAD"
    assert answer["Content-Type"] == "application/problem+json"


def test_the_page_is_made_once_and_holds_nothing_of_a_visitor(client):
    first = fetch(client, host="localhost")
    again = fetch(client, host="127.0.0.1", cookie="sessionid=other", **{"x-forwarded-host": "evil.example"})
    assert first.content == again.content
    assert docs_page.render_once.cache_info().hits > 0


def test_it_runs_outside_of_transactions():
    assert docs_page.docs._non_atomic_requests == {"default"}


def test_the_frame_speaks_the_readers_language_and_the_text_says_that_it_is_english(client):
    answer = fetch(client, **{"accept-language": "de"})
    page = Page(answer.text)
    assert ("html", "lang", "de") in page.attributes
    assert ("div", "lang", "en") in page.attributes


def test_the_schema_link_holds_wherever_the_api_is_mounted():
    answer = docs_page.docs(RequestFactory().get("/below/v1/docs"))
    assert "schema" in Page(answer.text).list_values("href")
