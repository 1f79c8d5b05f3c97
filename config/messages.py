"""`python -m config.messages`: keeps the message catalogues of our apps equal to their code and templates.

What lives here: extracting, merging, compiling and judging `<app>/locale/<language>/LC_MESSAGES/django.po` and
`django.mo`, and the reader of a `.po` that the judging needs. What must not: a translation, or a list of languages
that anything but the catalogues follows. Invariants: a catalogue holds exactly the messages that the app and its own
templates use; running the command twice changes nothing, so no date and no line number is kept; and the sources are
read in a temporary copy, because templates lie outside their apps here and inside them in the wheel.

    python -m config.messages              update every catalogue, then compile it
    python -m config.messages de fr        only these languages
    python -m config.messages --check      say what is not right, and exit with 1 if anything is not
"""

import argparse
import ast
import gettext
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hatch_build import OWNERS

ROOT = Path(__file__).resolve().parent.parent
#: The apps that are installed elsewhere, and the demo.
APPS = ("workflows", "approvals", "examples")
LANGUAGES = ("de", "fr", "es", "ja", "zh_Hans", "ko")
PROGRAMS = ("xgettext", "msgmerge", "msgfmt")

HEADER = """msgid ""
msgstr ""
"Project-Id-Version: django-holdpoint\\n"
"Language: {language}\\n"
"MIME-Version: 1.0\\n"
"Content-Type: text/plain; charset=UTF-8\\n"
"Content-Transfer-Encoding: 8bit\\n"
"Plural-Forms: {plural_forms}\\n"
"""


class MessagesRefused(Exception):
    """The catalogues cannot be made or read here; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Message:
    """One entry of a `.po`: the source, its plural if it has one, and a translation for each form."""

    source: str
    plural: str | None = None
    context: str | None = None
    forms: tuple[str, ...] = ()
    fuzzy: bool = False

    @property
    def key(self) -> tuple[str | None, str, str | None]:
        return self.context, self.source, self.plural

    @property
    def translated(self) -> bool:
        return bool(self.forms) and all(self.forms)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m config.messages", description="Update the message catalogues.")
    parser.add_argument("languages", nargs="*", metavar="language", help=f"of {', '.join(LANGUAGES)}; all if none")
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a catalogue is not right")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.languages) - set(LANGUAGES)):
        parser.error(f"there is no catalogue for {', '.join(unknown)}: choose from {', '.join(LANGUAGES)}")
    languages = tuple(options.languages) or LANGUAGES
    try:
        if not options.check:
            update_catalogues(ROOT, languages)
        complaints = list(find_complaints(ROOT, languages, fresh=not options.check))
    except MessagesRefused as refused:
        print(refused, file=sys.stderr)
        return 1
    for complaint in complaints:
        print(complaint)
    if not complaints:
        print("every catalogue is complete")
    # An update has done its work even if there is something left to translate.
    return 1 if complaints and options.check else 0


def update_catalogues(root: Path, languages: Sequence[str] = LANGUAGES) -> None:
    """Bring the `.po` files up to date with the sources and compile them."""
    for (app, language), text in extract(root, languages).items():
        po = locate_catalogue(root, app, language)
        po.parent.mkdir(parents=True, exist_ok=True)
        po.write_text(text, encoding="utf-8")
        run("msgfmt", "--check-format", "--check-domain", "-o", str(po.with_suffix(".mo")), str(po))


def find_complaints(root: Path, languages: Sequence[str] = LANGUAGES, *, fresh: bool = False) -> Iterator[str]:
    """Yield a sentence for each thing that is not right; `fresh` catalogues need no look at the sources."""
    extracted = {} if fresh else extract(root, languages)
    for app in APPS:
        for language in languages:
            po = locate_catalogue(root, app, language)
            name = po.relative_to(root).as_posix()
            if not po.exists():
                yield f"{name} is missing: run python -m config.messages"
                continue
            messages = read_catalogue(po.read_text(encoding="utf-8"))
            if (app, language) in extracted:
                yield from compare_sources(name, messages, read_catalogue(extracted[app, language]))
            for what, count in (
                ("untranslated", sum(not message.translated for message in messages if not message.fuzzy)),
                ("fuzzy", sum(message.fuzzy for message in messages)),
            ):
                if count:
                    yield f"{name} has {count} {what} {'entry' if count == 1 else 'entries'}"
            if not is_compiled(po, messages):
                yield f"{name} is not what the .mo beside it was compiled from: run python -m config.messages"


def compare_sources(name: str, messages: list[Message], wanted: list[Message]) -> Iterator[str]:
    # By message and not by text: another version of gettext may set flags and line breaks differently.
    ours, theirs = ({message.key for message in each if message.source} for each in (messages, wanted))
    if ours != theirs:
        yield (
            f"{name} is out of date ({len(theirs - ours)} missing, {len(ours - theirs)} no longer used): "
            "run python -m config.messages"
        )


def is_compiled(po: Path, messages: list[Message]) -> bool:
    """Whether the `.mo` beside `po` holds exactly the translations of `messages`."""
    mo = po.with_suffix(".mo")
    if not mo.exists():
        return False
    with mo.open("rb") as file:
        compiled: dict[object, str] = vars(gettext.GNUTranslations(file))["_catalog"]
    expected: dict[object, str] = {}
    for message in messages:
        if not message.source or message.fuzzy or not any(message.forms):
            continue
        # As gettext itself keys them: a context goes before the source, a plural form's number beside it.
        source = message.source if message.context is None else f"{message.context}\x04{message.source}"
        if message.plural is None:
            expected[source] = message.forms[0]
        else:
            expected.update({(source, number): form for number, form in enumerate(message.forms)})
    # The empty source is the header, here and above.
    return expected == {source: text for source, text in compiled.items() if source != ""}


def extract(root: Path, languages: Sequence[str]) -> dict[tuple[str, str], str]:
    """Return what the `.po` of each app and language has to be, from the sources and the translations there are."""
    require_programs()
    with tempfile.TemporaryDirectory(prefix="holdpoint-messages-") as folder:
        for app in APPS:
            copy_sources(root, app, Path(folder, app), languages)
        options = ["--no-location", "--no-wrap", "--no-obsolete", "--verbosity", "0"]
        locales = [part for language in languages for part in ("--locale", language)]
        # All apps at once, each into its own folder of catalogues. -P: the modules of the copies must not be taken for
        # the packages of their names.
        run(sys.executable, "-P", "-m", "django", "makemessages", *options, *locales, cwd=Path(folder))
        return {
            (app, language): write_header(
                locate_catalogue(Path(folder), app, language).read_text(encoding="utf-8"), language
            )
            for app in APPS
            for language in languages
        }


def copy_sources(root: Path, app: str, copy: Path, languages: Sequence[str]) -> None:
    """Copy what an app says, its templates beside it, and the translations there are."""
    shutil.copytree(root / app, copy, ignore=shutil.ignore_patterns("__pycache__", "static", "locale", "*.pyc"))
    for owned in (name for name, owner in OWNERS.items() if owner == app and (root / "templates" / name).is_dir()):
        shutil.copytree(root / "templates" / owned, copy / "templates" / owned)
    (copy / "locale").mkdir()
    for language in languages:
        if (po := locate_catalogue(root, app, language)).exists():
            target = copy / po.relative_to(root / app)
            target.parent.mkdir(parents=True)
            shutil.copyfile(po, target)


def write_header(text: str, language: str) -> str:
    """Return the catalogue with a header that holds no date and no name."""
    _, _, entries = text.partition("\n\n")
    lines = read_catalogue(text)[0].forms[0].splitlines()
    plural_forms = next(line.partition(":")[2].strip() for line in lines if line.startswith("Plural-Forms:"))
    return f"{HEADER.format(language=language, plural_forms=plural_forms)}\n{entries}"


def read_catalogue(text: str) -> list[Message]:
    """Read a `.po`: every entry in its order, the header as the one without a source, obsolete ones left out."""
    return [message for block in re.split(r"\n\s*\n", text.strip()) if (message := read_entry(block)) is not None]


def read_entry(block: str) -> Message | None:
    parts: dict[str, str] = {}
    keyword, fuzzy = "", False
    for line in block.splitlines():
        if line.startswith("#"):
            fuzzy = fuzzy or (line.startswith("#,") and "fuzzy" in line)
            continue
        if not line.startswith('"'):
            keyword, _, line = line.partition(" ")
        # A quoted line is written as in C, which Python's own literals understand.
        parts[keyword] = parts.get(keyword, "") + str(ast.literal_eval(line))
    if "msgid" not in parts:
        return None
    forms = tuple(text for keyword, text in parts.items() if keyword.startswith("msgstr"))
    return Message(parts["msgid"], parts.get("msgid_plural"), parts.get("msgctxt"), forms, fuzzy)


def locate_catalogue(root: Path, app: str, language: str) -> Path:
    return root / app / "locale" / language / "LC_MESSAGES" / "django.po"


def require_programs() -> None:
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        raise MessagesRefused(
            f"The message catalogues need gettext, and {', '.join(missing)} of it cannot be found here. "
            "Install it with `apt install gettext` (Debian, Ubuntu) or `brew install gettext` (macOS)."
        )


def run(*command: str, cwd: Path | None = None) -> None:
    # Without the site: extracting reads files, and needs neither settings nor a database.
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MessagesRefused(f"{' '.join(command)} failed:\n{done.stderr or done.stdout}")


if __name__ == "__main__":
    sys.exit(main())
