"""How the site reads its environment."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from config.environment import keep_development_secret, parse_database_url, read_flag, read_keys


def test_a_database_url_may_name_a_host_and_quoted_credentials():
    entry = parse_database_url("postgresql://us%40er:p%2Fw@db.internal:6432/site?sslmode=require")
    assert (entry["USER"], entry["PASSWORD"], entry["NAME"]) == ("us@er", "p/w", "site")
    assert (entry["HOST"], entry["PORT"], entry["OPTIONS"]) == ("db.internal", "6432", {"sslmode": "require"})


@pytest.mark.parametrize(
    "url", ["postgresql://u@/site?host=%2Frun%2FPg&port=5433", "postgres://u@%2Frun%2FPg/site?port=5433"]
)
def test_a_database_url_may_name_a_sockets_folder(url):
    entry = parse_database_url(url)
    assert (entry["HOST"], entry["PORT"], entry["NAME"]) == ("/run/Pg", "5433", "site")


def test_another_database_is_refused_by_name():
    with pytest.raises(ImproperlyConfigured, match="sqlite"):
        parse_database_url("sqlite:///site.db")


def test_a_flag_that_cannot_be_read_stops_the_start(monkeypatch):
    monkeypatch.setenv("DEBUG", "maybe")
    with pytest.raises(ImproperlyConfigured, match="DEBUG='maybe'"):
        read_flag("DEBUG", default=False)


def test_token_keys_keep_their_order(monkeypatch):
    monkeypatch.setenv("TOKEN_KEYS", "new:one, old:t:wo")
    assert list(read_keys("TOKEN_KEYS").items()) == [("new", "one"), ("old", "t:wo")]


def test_a_token_key_without_a_secret_stops_the_start(monkeypatch):
    monkeypatch.setenv("TOKEN_KEYS", "new")
    with pytest.raises(ImproperlyConfigured, match="TOKEN_KEYS"):
        read_keys("TOKEN_KEYS")


def test_a_development_secret_is_made_once_and_private(tmp_path):
    file = tmp_path / "var" / "secret_key"
    first = keep_development_secret(file)
    assert len(first) >= 50
    assert keep_development_secret(file) == first
    assert file.stat().st_mode & 0o077 == 0
    assert [path.name for path in file.parent.iterdir()] == ["secret_key"]
