"""The message catalogues: every sentence that people read is there in every language, and whole."""

import gettext
import re
import shutil
import string
from collections import Counter
from pathlib import Path
from typing import Any

import django
import pytest
from django.utils import translation

from config.messages import (
    APPS,
    LANGUAGES,
    PROGRAMS,
    ROOT,
    Message,
    find_complaints,
    is_compiled,
    locate_catalogue,
    main,
    read_catalogue,
    update_catalogues,
)

CATALOGUES = [(app, language) for app in APPS for language in LANGUAGES]

#: `%(name)s`, `%s` and `%%`; a per cent sign that is followed by anything else is only a sign.
PERCENT = re.compile(r"%(?:\(\w+\))?[sdifr%]")

needs_gettext = pytest.mark.skipif(
    not all(shutil.which(program) for program in PROGRAMS), reason=f"needs gettext ({', '.join(PROGRAMS)})"
)


def read(app: str, language: str) -> list[Message]:
    po = locate_catalogue(ROOT, app, language)
    return [message for message in read_catalogue(po.read_text(encoding="utf-8")) if message.source]


def find_placeholders(text: str) -> Counter[str]:
    found = Counter(PERCENT.findall(text))
    try:
        found.update(f"{{{name}}}" for _, name, _, _ in string.Formatter().parse(text) if name is not None)
    except ValueError:  # a brace that is only a brace
        found["{"], found["}"] = text.count("{"), text.count("}")
    return found


def find_edges(text: str) -> tuple[str, str]:
    return text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]


@pytest.mark.parametrize(("app", "language"), CATALOGUES)
def test_a_catalogue_is_complete(app: str, language: str) -> None:
    messages = read(app, language)
    assert messages
    assert [message.source for message in messages if not message.translated or message.fuzzy] == []


@pytest.mark.parametrize(("app", "language"), CATALOGUES)
def test_a_message_has_a_text_for_each_plural_form_of_its_language(app: str, language: str) -> None:
    with locate_catalogue(ROOT, app, language).with_suffix(".mo").open("rb") as file:
        plural_forms = gettext.GNUTranslations(file).info()["plural-forms"]
    count = int(plural_forms.partition("nplurals=")[2].partition(";")[0])
    plurals = [message for message in read(app, language) if message.plural is not None]
    assert plurals
    assert [message.source for message in plurals if len(message.forms) != count] == []


@pytest.mark.parametrize(("app", "language"), CATALOGUES)
def test_a_translation_has_the_placeholders_and_the_edges_of_its_source(app: str, language: str) -> None:
    wrong = []
    for message in (one for one in read(app, language) if not one.fuzzy):
        # Each form of a plural may be worded as either source is: "one request" need not say its number.
        sources = [text for text in (message.source, message.plural) if text is not None]
        placeholders = [find_placeholders(source) for source in sources]
        edges = {find_edges(source) for source in sources}
        wrong += [
            form
            for form in message.forms
            if form and (find_placeholders(form) not in placeholders or find_edges(form) not in edges)
        ]
    assert wrong == []


@pytest.mark.parametrize(("app", "language"), CATALOGUES)
def test_what_django_says_too_is_said_as_django_says_it(app: str, language: str) -> None:
    # An app's catalogue is laid over Django's own: another word for the verb "may" would rename the month everywhere.
    mo = Path(django.__file__).parent / "conf" / "locale" / language / "LC_MESSAGES" / "django.mo"
    with mo.open("rb") as file:
        django_says = gettext.GNUTranslations(file)
    wrong = {}
    for message in (one for one in read(app, language) if one.translated and not one.fuzzy):
        if message.context is not None or message.plural is not None:
            continue
        said = django_says.gettext(message.source)
        if said not in (message.source, *message.forms):
            wrong[message.source] = said
    assert wrong == {}


@pytest.mark.parametrize(("app", "language"), CATALOGUES)
def test_what_is_written_is_what_is_said(app: str, language: str) -> None:
    # Of two apps that say the same text, the one that is installed first is heard: ours is given a context then.
    wrong = {}
    with translation.override(translation.to_language(language)):
        for message in (one for one in read(app, language) if one.translated and not one.fuzzy):
            if message.plural is None:
                said = [_say(message.context, message.source)]
            else:
                said = [_say(message.context, message.source, message.plural, number) for number in (1, 2, 1_000_000)]
            if not set(said) <= set(message.forms):
                wrong[message.context, message.source] = said
    assert wrong == {}


def _say(context: str | None, *message: Any) -> str:
    if len(message) == 1:
        return translation.gettext(*message) if context is None else translation.pgettext(context, *message)
    return translation.ngettext(*message) if context is None else translation.npgettext(context, *message)


@pytest.mark.parametrize(("app", "language"), CATALOGUES)
def test_what_is_shipped_was_compiled_from_what_is_written(app: str, language: str) -> None:
    po = locate_catalogue(ROOT, app, language)
    assert is_compiled(po, read_catalogue(po.read_text(encoding="utf-8")))


@needs_gettext
def test_every_catalogue_holds_what_the_code_says_today() -> None:
    assert list(find_complaints(ROOT)) == []


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root whose apps each say one sentence, in a German catalogue that is complete."""
    root = tmp_path_factory.mktemp("complete")
    for app in APPS:
        (root / app).mkdir()
        say(root / app, "Wait.")
    update_catalogues(root, ["de"])
    for app in APPS:
        po = locate_catalogue(root, app, "de")
        po.write_text(po.read_text(encoding="utf-8").replace('"Wait."\nmsgstr ""', '"Wait."\nmsgstr "Warten."'))
    update_catalogues(root, ["de"])
    assert list(find_complaints(root, ["de"])) == []
    return root


@pytest.fixture
def small(complete: Path, tmp_path: Path) -> Path:
    """One that a test may change."""
    return Path(shutil.copytree(complete, tmp_path / "small"))


def say(app: Path, *sentences: str) -> None:
    said = "".join(f"_({sentence!r})\n" for sentence in sentences)
    (app / "words.py").write_text(f"from django.utils.translation import gettext_lazy as _\n{said}", encoding="utf-8")


@needs_gettext
def test_the_check_finds_a_catalogue_that_its_sources_have_left_behind(small: Path) -> None:
    say(small / "workflows", "Wait on.", "Go on.")
    assert list(find_complaints(small, ["de"])) == [
        "workflows/locale/de/LC_MESSAGES/django.po is out of date (2 missing, 1 no longer used): "
        "run python -m config.messages"
    ]


@needs_gettext
def test_the_check_finds_what_is_missing_untranslated_fuzzy_or_not_compiled(small: Path) -> None:
    po = locate_catalogue(small, "approvals", "de")
    text = po.read_text(encoding="utf-8")

    def complain(text: str, *, fresh: bool = True) -> list[str]:
        po.write_text(text, encoding="utf-8")
        found = find_complaints(small, ["de"], fresh=fresh)  # the sources stay as they are: they are looked at once
        return [complaint.removeprefix(f"{po.relative_to(small)} ") for complaint in found]

    not_compiled = "is not what the .mo beside it was compiled from: run python -m config.messages"
    untranslated = text.replace('"Warten."', '""')
    assert complain(untranslated) == complain(untranslated, fresh=False) == ["has 1 untranslated entry", not_compiled]
    assert complain(text.replace('msgid "Wait."', '#, fuzzy\nmsgid "Wait."')) == ["has 1 fuzzy entry", not_compiled]
    assert complain(text.replace('"Warten."', '"Halten."')) == [not_compiled]
    assert complain(text) == []
    po.with_suffix(".mo").unlink()
    assert complain(text) == [not_compiled]
    po.unlink()
    assert [str(complaint) for complaint in find_complaints(small, ["de"])] == [
        "approvals/locale/de/LC_MESSAGES/django.po is missing: run python -m config.messages"
    ]


@needs_gettext
def test_a_second_update_changes_nothing(tmp_path: Path) -> None:
    for app in APPS:
        shutil.copytree(ROOT / app, tmp_path / app, ignore=shutil.ignore_patterns("__pycache__", "static"))
    shutil.copytree(ROOT / "templates", tmp_path / "templates")
    update_catalogues(tmp_path, ["de", "ko"])
    files = sorted(tmp_path.glob("*/locale/*/LC_MESSAGES/django.*"))
    before = {file: file.read_bytes() for file in files}
    update_catalogues(tmp_path, ["de", "ko"])
    assert {file: file.read_bytes() for file in files} == before


def test_without_gettext_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["--check"]) == 1
    assert "apt install gettext" in capsys.readouterr().err
